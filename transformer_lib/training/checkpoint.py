"""Checkpoints: written whole or not at all, and checked before they are believed.

One checkpoint is a folder ``step-00000300`` of tensors (``model.safetensors``,
``optimizer.safetensors``) and ``state.json``, which holds everything else and the size
and SHA-256 of the other files. It is written under another name, flushed to the disk and
renamed, so that a folder of that name is complete whenever the process dies. Nothing is
ever unpickled.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
from jaxtyping import Shaped
from torch import Tensor

__all__ = [
    "FORMAT",
    "Checkpoint",
    "CheckpointError",
    "Refused",
    "clean",
    "explained",
    "load",
    "newest",
    "prune",
    "save",
    "steps_in",
    "write_whole",
]

FORMAT = 1
"""Version of the layout; another one is refused."""

STATE = "state.json"
_NAME = re.compile(r"step-(\d{8,})")
_PARTIAL, _REMOVING = ".partial-", ".removing-"
_FIRST_LINE = re.compile(rb'\{"sha256": "([0-9a-f]{64})",\n')


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be used; the message says which and why."""


class Checkpoint(NamedTuple):
    """What :func:`load` found.

    Attributes
    ----------
    path
        Its folder.
    step
        Number of updates behind it.
    state
        Everything that JSON holds.
    tensors
        By name of the file, then by name of the tensor; on the CPU.
    """

    path: Path
    step: int
    state: dict[str, Any]
    tensors: dict[str, dict[str, Tensor]]


class Refused(NamedTuple):
    """A checkpoint that was passed over, and the reason."""

    path: Path
    reason: str


def save(
    folder: Path,
    step: int,
    tensors: Mapping[str, Mapping[str, Shaped[Tensor, "..."]]],
    state: Mapping[str, Any],
) -> Path:
    """Write a checkpoint; when this returns, it survives a loss of power.

    Parameters
    ----------
    folder
        Where the checkpoints of a run lie; made if missing.
    step
        Number of updates, 0 or more. An older checkpoint of this step is replaced.
    tensors
        One file for each name. Tensors of a file must not share memory.
    state
        Whatever JSON can hold, without the keys ``format``, ``step`` and ``files``.

    Returns
    -------
    path
        The checkpoint's folder.

    Raises
    ------
    OSError
        If it cannot be written: no space, say. The folder then is as it was before.
    ValueError
        If ``step`` is negative, a key is taken, or ``state`` holds NaN.

    Examples
    --------
    >>> import tempfile, torch
    >>> folder = Path(tempfile.mkdtemp())
    >>> path = save(folder, 300, {"model": {"w": torch.ones(2)}}, {"note": "half way"})
    >>> path.name, sorted(file.name for file in path.iterdir())
    ('step-00000300', ['model.safetensors', 'state.json'])
    >>> load(path).state["note"]
    'half way'
    """
    if step < 0:
        raise ValueError(f"step: got {step}, wanted 0 or more")
    taken = {"sha256", "format", "step", "files"} & set(state)
    if taken:
        raise ValueError(f"state: the keys {sorted(taken)} are taken")
    path = folder / f"step-{step:08d}"
    partial = folder / f"{_PARTIAL}{path.name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_now(partial)
        partial.mkdir()
        files = {}
        for name, those in tensors.items():
            data = safetensors.torch.save(
                {key: t.detach().cpu().contiguous() for key, t in those.items()}
            )
            _write(partial / f"{name}.safetensors", data)
            digest = hashlib.sha256(data).hexdigest()
            files[f"{name}.safetensors"] = {"size": len(data), "sha256": digest}
        head = {"format": FORMAT, "step": step, "files": files}
        _write(partial / STATE, _sealed({**head, **state}))
        _sync_folder(partial)
        if path.exists():
            _remove(path)
        os.replace(partial, path)  # noqa: PTH105 - one call, that the tests can stop
        _sync_folder(folder)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise explained(error, path) from error
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return path


def load(path: Path) -> Checkpoint:
    """Read a checkpoint and check every byte of it.

    Parameters
    ----------
    path
        Its folder.

    Returns
    -------
    checkpoint
        Tensors on the CPU.

    Raises
    ------
    CheckpointError
        If it is none, of another format, or a file is missing or not the one that was
        written.
    """
    state = _read_state(path)
    tensors = {}
    for name, wanted in state["files"].items():
        data = _read(path, name)
        if len(data) != wanted["size"]:
            raise CheckpointError(
                f"{path}: {name} has {len(data):,} bytes, {wanted['size']:,} were written"
            )
        if hashlib.sha256(data).hexdigest() != wanted["sha256"]:
            raise CheckpointError(
                f"{path}: {name} is not the file that was written here (its SHA-256 "
                "differs): damaged, or taken from another run"
            )
        tensors[Path(name).stem] = safetensors.torch.load(data)
    return Checkpoint(path, state["step"], state, tensors)


def newest(
    folder: Path, usable: Callable[[Checkpoint], None] | None = None
) -> tuple[Checkpoint | None, list[Refused]]:
    """Find the newest checkpoint that is intact.

    Parameters
    ----------
    folder
        Where the checkpoints of a run lie; may be missing.
    usable
        Called with each intact one; raises :class:`CheckpointError` if it does not fit.

    Returns
    -------
    checkpoint
        ``None`` if there is none.
    refused
        Newer ones that could not be used.

    Examples
    --------
    >>> newest(Path("no/such/folder"))
    (None, [])
    """
    refused = []
    for step in reversed(steps_in(folder)):
        path = folder / f"step-{step:08d}"
        try:
            checkpoint = load(path)
            if usable is not None:
                usable(checkpoint)
        except CheckpointError as error:
            refused.append(Refused(path, str(error)))
        else:
            return checkpoint, refused
    return None, refused


def steps_in(folder: Path) -> list[int]:
    """List the steps of the checkpoints in a folder, whole or not, in order."""
    if not folder.is_dir():
        return []
    names = (_NAME.fullmatch(path.name) for path in folder.iterdir() if path.is_dir())
    return sorted(int(name[1]) for name in names if name)


def prune(folder: Path, steps: list[int]) -> None:
    """Remove the checkpoints of these steps; each is renamed first, so none is halved."""
    for step in steps:
        _remove(folder / f"step-{step:08d}")


def clean(folder: Path) -> None:
    """Remove what a process left behind that died in writing or in removing."""
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if path.name.startswith((_PARTIAL, _REMOVING)):
                _remove_now(path)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it has its old contents or the new ones, whatever happens.

    Parameters
    ----------
    path
        The file; its folder must exist.
    data
        All of it.

    Raises
    ------
    OSError
        If it cannot be written; the old contents stay.
    """
    partial = path.with_name(f"{_PARTIAL}{path.name}")
    try:
        _write(partial, data)
        os.replace(partial, path)  # noqa: PTH105
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise explained(error, path) from error


# --- the file of the state ------------------------------------------------------------


def _sealed(state: Mapping[str, Any]) -> bytes:
    """JSON whose first line is the SHA-256 of the rest."""
    rest = json.dumps(state, ensure_ascii=False, allow_nan=False, indent=1)[2:].encode()
    return f'{{"sha256": "{hashlib.sha256(rest).hexdigest()}",\n'.encode() + rest


def _read_state(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise CheckpointError(f"{path}: there is no such folder")
    data = _read(path, STATE)
    try:
        state = json.loads(data)
    except ValueError as error:
        raise CheckpointError(f"{path}: {STATE} is no JSON ({error})") from None
    if not isinstance(state, dict) or "format" not in state:
        raise CheckpointError(f"{path}: {STATE} is not of this library")
    if state["format"] != FORMAT:
        raise CheckpointError(
            f"{path}: it has format {state['format']!r}; this version reads {FORMAT}"
        )
    seal = _FIRST_LINE.match(data)
    if not seal or hashlib.sha256(data[seal.end() :]).hexdigest() != seal[1].decode():
        raise CheckpointError(f"{path}: {STATE} was changed after it was written")
    if path.name != f"step-{state['step']:08d}":
        raise CheckpointError(f"{path}: it holds step {state['step']}")
    return state


# --- the disk -------------------------------------------------------------------------


def _read(path: Path, name: str) -> bytes:
    try:
        return (path / name).read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"{path}: {name} is missing") from None
    except OSError as error:
        raise CheckpointError(f"{path}: {name} cannot be read ({error})") from None


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    """Flush the names in a folder; Windows has no such call and does it by itself."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    gone = path.with_name(f"{_REMOVING}{path.name}")
    _remove_now(gone)
    os.replace(path, gone)  # noqa: PTH105
    _remove_now(gone)


def _remove_now(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def explained(error: OSError, path: Path) -> OSError:
    """The same error with a message that says what was lost (nothing)."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    why = "no space left" if full else (error.strerror or str(error))
    return OSError(
        error.errno, f"{path} could not be written: {why}. What was there is intact"
    )
