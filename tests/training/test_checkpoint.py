"""Checkpoints: whole or not there, and refused with the reason when they are not ours."""

from __future__ import annotations

import errno
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from events import Events
from torch import Tensor

from transformer_lib.training.checkpoint import (
    Checkpoint,
    CheckpointError,
    clean,
    explained,
    load,
    newest,
    prune,
    save,
    steps_in,
    write_whole,
)

FILES = ("model.safetensors", "optimizer.safetensors", "state.json")


def tensors(number: float) -> dict[str, dict[str, Tensor]]:
    return {
        "model": {"w": torch.full((3, 2), number), "b": torch.tensor(number)},
        "optimizer": {"w.step": torch.tensor([number], dtype=torch.float64)},
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three checkpoints."""
    made = tmp_path / "checkpoints"
    for step in (1, 2, 3):
        save(made, step, tensors(step), {"note": f"Schritt {step}", "x": 0.1})
    return made


def path(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08d}"


def check_intact(folder: Path, step: int) -> None:
    found = load(path(folder, step))
    assert found.step == step
    assert found.state["note"] == f"Schritt {step}"
    for name, those in tensors(step).items():
        assert set(found.tensors[name]) == set(those)
        for key, tensor in those.items():
            assert found.tensors[name][key].dtype == tensor.dtype
            assert torch.equal(found.tensors[name][key], tensor)


def test_what_was_saved_is_loaded_bit_by_bit(folder: Path) -> None:
    for step in (1, 2, 3):
        check_intact(folder, step)
    assert steps_in(folder) == [1, 2, 3]
    assert sorted(p.name for p in path(folder, 3).iterdir()) == sorted(FILES)


def test_odd_numbers_survive(tmp_path: Path) -> None:
    kept = {"nan": torch.tensor([float("nan"), float("inf"), -0.0, 1e-45])}
    found = load(save(tmp_path, 0, {"model": kept}, {})).tensors["model"]["nan"]
    assert found.view(torch.int32).tolist() == kept["nan"].view(torch.int32).tolist()


def test_the_same_contents_are_the_same_bytes(tmp_path: Path) -> None:
    names = [f"layer{n}.w" for n in range(20)]
    weights = {name: torch.ones(2) for name in names}
    one = save(tmp_path / "a", 1, {"model": weights}, {})
    other = {name: weights[name] for name in reversed(names)}
    two = save(tmp_path / "b", 1, {"model": other}, {})
    for name in ("model.safetensors", "state.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes()


def test_state_is_json_that_others_can_read(folder: Path) -> None:
    state = json.loads((path(folder, 2) / "state.json").read_text(encoding="utf-8"))
    assert state["format"] == 1
    assert state["step"] == 2
    size = (path(folder, 2) / "model.safetensors").stat().st_size
    assert state["files"]["model.safetensors"]["size"] == size


def test_a_checkpoint_of_the_same_step_is_replaced(folder: Path) -> None:
    save(folder, 2, tensors(5), {"note": "new"})
    assert load(path(folder, 2)).state["note"] == "new"
    assert steps_in(folder) == [1, 2, 3]


@pytest.mark.parametrize("key", ["sha256", "format", "step", "files"])
def test_keys_of_the_layout_are_taken(tmp_path: Path, key: str) -> None:
    with pytest.raises(ValueError, match=f"the keys \\['{key}'\\] are taken"):
        save(tmp_path, 1, {}, {key: 1})
    with pytest.raises(ValueError, match="step: got -1"):
        save(tmp_path, -1, {}, {})


# --- damage ---------------------------------------------------------------------------


def refused(folder: Path, reason: str) -> None:
    """Step 3 is refused for this reason, and 2 is taken."""
    with pytest.raises(CheckpointError, match=reason):
        load(path(folder, 3))
    found, passed_over = newest(folder)
    assert found is not None
    assert found.step == 2
    assert [r.path for r in passed_over] == [path(folder, 3)]
    assert passed_over[0].reason.startswith(str(path(folder, 3)))


@pytest.mark.parametrize("name", FILES)
def test_one_flipped_bit_anywhere_is_refused(folder: Path, name: str) -> None:
    file = path(folder, 3) / name
    data = file.read_bytes()
    places = random.Random(0)
    for place in {0, len(data) - 1, *(places.randrange(len(data)) for _ in range(150))}:
        bit = 1 << places.randrange(8)
        file.write_bytes(data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :])
        with pytest.raises(CheckpointError):
            load(path(folder, 3))
    refused(folder, "step-00000003")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_file_is_refused(folder: Path, name: str, share: float) -> None:
    file = path(folder, 3) / name
    data = file.read_bytes()
    file.write_bytes(data[: int(share * len(data))])
    reason = "is no JSON" if name == "state.json" else f"{name} has .* bytes"
    refused(folder, reason)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_refused(folder: Path, name: str) -> None:
    (path(folder, 3) / name).unlink()
    refused(folder, f"{name} is missing")


@pytest.mark.parametrize("name", FILES)
def test_a_folder_in_place_of_a_file_is_refused(folder: Path, name: str) -> None:
    (path(folder, 3) / name).unlink()
    (path(folder, 3) / name).mkdir()
    refused(folder, f"{name} cannot be read")


def test_weights_of_another_run_are_refused(folder: Path, tmp_path: Path) -> None:
    other = save(tmp_path / "other", 3, tensors(7), {})
    shutil.copy(other / "model.safetensors", path(folder, 3) / "model.safetensors")
    refused(folder, "model.safetensors is not the file that was written here")


def test_another_format_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("transformer_lib.training.checkpoint.FORMAT", 2)
        save(folder, 3, tensors(3), {})
    refused(folder, "it has format 2; this version reads 1")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "state.json is not of this library"),
        ("[1, 2]", "state.json is not of this library"),
        ("\x00", "state.json is no JSON"),
        ('{"format": 1, "step": 3, "files": {}}', "was changed after it was written"),
    ],
)
def test_another_state_is_refused(folder: Path, text: str, reason: str) -> None:
    (path(folder, 3) / "state.json").write_text(text)
    refused(folder, reason)


def test_a_renamed_checkpoint_is_refused(folder: Path) -> None:
    shutil.rmtree(path(folder, 3))
    path(folder, 1).rename(path(folder, 3))
    refused(folder, "it holds step 1")


def test_what_is_no_checkpoint_is_told(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"state\.json is missing"):
        load(tmp_path)
    with pytest.raises(CheckpointError, match="there is no such folder"):
        load(tmp_path / "nothing")


def test_other_folders_are_no_checkpoints(folder: Path) -> None:
    for name in ("step-1", "step-00000009.bak", "notes", ".partial-step-00000010"):
        (folder / name).mkdir()
    (folder / "step-00000011").write_text("a file")
    assert steps_in(folder) == [1, 2, 3]


def test_none_is_found_where_none_is_intact(folder: Path) -> None:
    for step in (1, 2, 3):
        (path(folder, step) / "state.json").unlink()
    found, passed_over = newest(folder)
    assert found is None
    assert [r.path.name[-1] for r in passed_over] == ["3", "2", "1"]


def test_the_caller_can_refuse(folder: Path) -> None:
    def not_the_last(checkpoint: Checkpoint) -> None:
        if checkpoint.step == 3:
            raise CheckpointError("too new")

    found, passed_over = newest(folder, not_the_last)
    assert found is not None
    assert found.step == 2
    assert passed_over[0].reason == "too new"


def test_nothing_is_unpickled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("unpickled")

    for name in ("pickle.load", "pickle.loads", "pickle.Unpickler", "torch.load"):
        monkeypatch.setattr(name, forbidden)
    check_intact(folder, 3)


# --- no space, and leftovers ----------------------------------------------------------


def number_of_touches(tmp_path: Path, work: Callable[[], object]) -> int:
    events = Events(lambda *_: None)
    with pytest.MonkeyPatch.context() as patch:
        events.install(patch.setattr)
        work()
    return len(events.names)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_without_space_at_any_touch_what_was_there_stays(
    folder: Path, tmp_path: Path, code: int
) -> None:
    def work() -> object:
        return save(folder, 4, tensors(4), {"note": "Schritt 4"})

    touches = number_of_touches(tmp_path, work)
    assert touches >= 10
    for touch in range(touches):
        prune(folder, [step for step in steps_in(folder) if step == 4])

        def fail(number: int, name: str, touch: int = touch) -> None:
            if number == touch:
                raise OSError(code, "as planned")

        with pytest.MonkeyPatch.context() as patch:
            Events(fail).install(patch.setattr)
            with pytest.raises(OSError, match="step-00000004 could not be") as caught:
                work()
        assert caught.value.errno == code
        assert ("no space left" in str(caught.value)) == (code != errno.EIO)
        for step in (1, 2, 3):
            check_intact(folder, step)
        assert {p.name for p in folder.iterdir()} <= {
            f"step-{step:08d}" for step in (1, 2, 3, 4)
        }
        if 4 in steps_in(folder):  # the rename was done, the flush behind it was not
            check_intact(folder, 4)


def test_leftovers_are_cleaned_and_nothing_else(folder: Path) -> None:
    for name in (".partial-step-00000004", ".removing-step-00000001"):
        (folder / name).mkdir()
        (folder / name / "model.safetensors").write_bytes(b"half")
    (folder / ".partial-run.toml").write_text("half")
    (folder / "notes.txt").write_text("mine")
    clean(folder)
    assert {p.name for p in folder.iterdir()} == {
        "step-00000001",
        "step-00000002",
        "step-00000003",
        "notes.txt",
    }
    clean(folder / "not there")


def test_pruning_removes_these_and_no_others(folder: Path) -> None:
    prune(folder, [1, 3])
    assert [p.name for p in folder.iterdir()] == ["step-00000002"]


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    write_whole(file, b"old")

    def work() -> None:
        write_whole(file, b"new")

    for touch in range(number_of_touches(tmp_path, work) - 1):
        file.write_bytes(b"old")

        def fail(number: int, name: str, touch: int = touch) -> None:
            if number == touch:
                raise OSError(errno.ENOSPC, "as planned")

        with pytest.MonkeyPatch.context() as patch:
            Events(fail).install(patch.setattr)
            with pytest.raises(OSError, match="no space left"):
                work()
        assert file.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [file]


def test_the_reason_of_another_error_is_kept() -> None:
    error = explained(OSError(errno.EACCES, "Permission denied"), Path("x"))
    assert "x could not be written: Permission denied" in str(error)
    assert isinstance(error, PermissionError)
