"""Files from the network: checked, kept in a cache folder, fetched on after a break."""

import contextlib
import errno
import hashlib
import http.client
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["MissingDataError", "RemoteFile", "cache_folder", "fetch"]

CACHE_VARIABLE = "TRANSFORMER_LIB_CACHE"

_ATTEMPTS = 4
_TIMEOUT = 20.0  # seconds without a byte
_PAUSE = 0.5  # seconds before the second attempt, twice as many before each further one
_CHUNK = 1 << 16
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_PARTIAL = 206
_RANGE_NOT_SATISFIABLE = 416


class MissingDataError(RuntimeError):
    """Data are not at hand and could not be fetched; the message says what to do."""


class RemoteFile(NamedTuple):
    """A file, where it is, and the SHA-256 of its bytes."""

    url: str
    sha256: str

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rsplit("/", 1)[-1]


def cache_folder() -> Path:
    """Return the folder for downloads: ``TRANSFORMER_LIB_CACHE``, or the system's.

    The system's is ``~/.cache/transformer_lib`` (or below ``XDG_CACHE_HOME``) on Linux,
    ``~/Library/Caches/transformer_lib`` on macOS and
    ``%LOCALAPPDATA%\\transformer_lib`` on Windows. It need not exist.

    Raises
    ------
    MissingDataError
        If nothing says where the home folder is.
    """
    if given := os.environ.get(CACHE_VARIABLE):
        return Path(given).expanduser()
    variable, below_home = {
        "darwin": ("", "Library/Caches"),
        "win32": ("LOCALAPPDATA", "AppData/Local"),
    }.get(sys.platform, ("XDG_CACHE_HOME", ".cache"))
    if base := os.environ.get(variable):
        return Path(base) / "transformer_lib"
    try:
        return Path.home() / below_home / "transformer_lib"
    except RuntimeError:
        raise MissingDataError(
            f"no home folder for downloads: set {CACHE_VARIABLE} to a folder"
        ) from None


def fetch(file: RemoteFile, folder: Path) -> bytes:
    """Return the bytes of a file, from ``folder`` or else from the network.

    What arrives is written to ``NAME.part`` beside its place; after a broken connection
    or a killed process the next attempt asks for the rest only. A file gets its name
    when all of it is there and its SHA-256 is right, and is checked at every later call
    too. Processes that fetch the same file wait for each other (not on Windows).

    Parameters
    ----------
    file
        Address and SHA-256.
    folder
        Made if it does not exist.

    Raises
    ------
    MissingDataError
        If the file cannot be fetched, is another one than expected, or ``folder`` cannot
        be written to.
    OSError
        With ``errno.ENOSPC`` if the disk is full.
    """
    path = folder / file.name
    if (found := _intact(path, file)) is not None:
        return found
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder / f"{file.name}.lock"):
            if (found := _intact(path, file)) is not None:
                return found  # another process was faster
            part = folder / f"{file.name}.part"
            arrived = _download(file, part)
            part.replace(path)
            return arrived
    except MissingDataError:
        raise
    except OSError as problem:
        if problem.errno in _FULL:
            raise OSError(
                problem.errno,
                f"no space for {file.name}; {CACHE_VARIABLE} names another folder",
                str(folder),
            ) from problem
        raise MissingDataError(
            f"{folder} cannot be written to ({problem.strerror or problem}); "
            f"{CACHE_VARIABLE} names another folder"
        ) from problem


def _intact(path: Path, file: RemoteFile) -> bytes | None:
    try:
        found = path.read_bytes()
    except OSError:
        return None
    return found if hashlib.sha256(found).hexdigest() == file.sha256 else None


class _BrokenError(Exception):
    """The connection failed; ``again`` says whether another attempt makes sense."""

    def __init__(self, reason: str, again: bool) -> None:
        super().__init__(reason)
        self.again = again


def _download(file: RemoteFile, part: Path) -> bytes:
    attempt = 0
    while True:
        attempt += 1
        try:
            _continue(file, part)
            content = part.read_bytes()
            found = hashlib.sha256(content).hexdigest()
            if found == file.sha256:
                return content
            part.unlink()  # its beginning may have been another file's
            raise _BrokenError(f"its SHA-256 is {found}, wanted {file.sha256}", True)
        except _BrokenError as problem:
            if attempt == _ATTEMPTS or not problem.again:
                raise MissingDataError(
                    f"{file.url} could not be fetched: {problem}"
                ) from problem
            time.sleep(_PAUSE * 2 ** (attempt - 1))


def _continue(file: RemoteFile, part: Path) -> None:
    """Fetch what is not there yet, or raise ``_BrokenError``."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(file.url)
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        answer = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as problem:
        if have and problem.code == _RANGE_NOT_SATISFIABLE:
            return  # all of it is there, or it is another file: the SHA-256 tells
        reason = f"the server answers {problem.code} {problem.reason}"
        raise _BrokenError(reason, again=problem.code >= 500) from problem
    except urllib.error.URLError as problem:
        reason = f"no connection ({problem.reason})"
        raise _BrokenError(reason, again=False) from problem
    except (OSError, http.client.HTTPException) as problem:
        raise _BrokenError(f"the connection broke ({problem!r})", True) from problem
    with answer, part.open("ab" if answer.status == _PARTIAL else "wb") as out:
        left = answer.headers.get("Content-Length")
        arrived = 0
        while chunk := _received(answer):
            out.write(chunk)
            arrived += len(chunk)
    if left is not None and arrived < int(left):
        raise _BrokenError(
            f"the connection broke after {arrived} of {left} bytes", again=True
        )


def _received(answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.read(_CHUNK)
    except (OSError, http.client.HTTPException) as problem:
        raise _BrokenError(f"the connection broke ({problem!r})", True) from problem


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a lock that the system takes back if this process is killed."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with path.open("a") as lock:
        with contextlib.suppress(OSError):  # some network disks have no locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
