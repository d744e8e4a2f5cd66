"""Downloads: whole, right, and fetched on after whatever went wrong in between."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from transformer_lib.tasks import download
from transformer_lib.tasks.download import (
    MissingDataError,
    RemoteFile,
    cache_folder,
    fetch,
)

CONTENT = bytes(range(256)) * 1200  # 307,200 bytes: several chunks


@dataclass
class Server:
    """Serves ``content`` and notes each request's Range; can be told to misbehave."""

    content: bytes = CONTENT
    cut: list[int] = field(default_factory=list)
    """Bytes after which the connection is cut, one for each of the next answers."""
    statuses: list[int] = field(default_factory=list)
    """Statuses of the next answers, instead of the file."""
    knows_ranges: bool = True
    says_length: bool = True
    pause: float = 0.0
    """Seconds before the second half of an answer."""
    ranges: list[str | None] = field(default_factory=list)
    address: str = ""

    def file(self, content: bytes = CONTENT) -> RemoteFile:
        return RemoteFile(
            f"{self.address}/files/data.gz", hashlib.sha256(content).hexdigest()
        )


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            state.ranges.append(asked)
            if state.statuses:
                self.send_error(state.statuses.pop(0))
                return
            first = 0
            if asked and state.knows_ranges:
                first = int(asked.removeprefix("bytes=").removesuffix("-"))
                if first >= len(state.content):
                    self.send_error(416)
                    return
            body = state.content[first:]
            self.send_response(206 if first else 200)
            if state.says_length:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if state.cut:
                self.wfile.write(body[: state.cut.pop(0)])
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            half = len(body) // 2 if state.pause else 0
            self.wfile.write(body[:half])
            self.wfile.flush()
            time.sleep(state.pause)
            self.wfile.write(body[half:])

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.address = f"http://127.0.0.1:{http.server_address[1]}"
    threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setattr(download, "_PAUSE", 0.0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield state
    http.shutdown()
    http.server_close()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.suffix != ".lock"}


def test_a_file_is_fetched_once_and_then_at_hand(
    server: Server, tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "cache"
    assert fetch(server.file(), folder) == CONTENT
    assert fetch(server.file(), folder) == CONTENT
    assert server.ranges == [None]
    assert names(folder) == {"data.gz"}


@pytest.mark.parametrize("says_length", [True, False])
def test_a_cut_connection_is_taken_up_where_it_broke(
    server: Server, tmp_path: Path, says_length: bool
) -> None:
    server.cut = [100_000, 70_000]
    server.says_length = says_length
    if says_length:
        assert fetch(server.file(), tmp_path) == CONTENT
        assert server.ranges == [None, "bytes=100000-", "bytes=170000-"]
    else:  # nobody can tell that it broke before the SHA-256 is wrong: from the start
        assert fetch(server.file(), tmp_path) == CONTENT
        assert server.ranges == [None, None, None]


def test_a_server_that_knows_no_ranges_sends_all_again(
    server: Server, tmp_path: Path
) -> None:
    server.cut, server.knows_ranges = [100_000], False
    assert fetch(server.file(), tmp_path) == CONTENT
    assert server.ranges == [None, "bytes=100000-"]


def test_a_connection_that_breaks_for_ever_leaves_its_part(
    server: Server, tmp_path: Path
) -> None:
    server.cut = [50_000] * 4
    with pytest.raises(MissingDataError, match="broke after 50000 of 157200 bytes"):
        fetch(server.file(), tmp_path)
    assert len(server.ranges) == 4
    assert names(tmp_path) == {"data.gz.part"}
    assert fetch(server.file(), tmp_path) == CONTENT
    assert server.ranges[-1] == "bytes=200000-"


def test_a_process_killed_while_fetching_is_followed_by_one_that_goes_on(
    server: Server, tmp_path: Path
) -> None:
    server.pause = 60.0
    file = server.file()
    program = (
        "import sys, importlib.util as u; from pathlib import Path;"
        f"s = u.spec_from_file_location('download', {str(download.__file__)!r});"
        "d = u.module_from_spec(s); sys.modules['download'] = d; s.loader.exec_module(d);"
        f"d.fetch(d.RemoteFile({file.url!r}, {file.sha256!r}), Path({str(tmp_path)!r}))"
    )
    fetching = subprocess.Popen([sys.executable, "-c", program])
    part = tmp_path / "data.gz.part"
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size):
        assert fetching.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    fetching.kill()
    fetching.wait()
    assert names(tmp_path) == {"data.gz.part"}
    have = part.stat().st_size
    server.pause = 0.0
    assert fetch(file, tmp_path) == CONTENT
    assert server.ranges == [None, f"bytes={have}-"]


def test_two_at_once_fetch_it_once(server: Server, tmp_path: Path) -> None:
    server.pause = 0.3
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(fetch(server.file(), tmp_path)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [CONTENT] * 4
    if importlib.util.find_spec("fcntl"):
        assert server.ranges == [None]


@pytest.mark.parametrize(
    "left",
    [b"of another file", CONTENT[:1000] + b"x", CONTENT, CONTENT + b"x" * 1000],
    ids=["foreign", "damaged", "complete", "too long"],
)
def test_whatever_part_is_left_the_file_is_right(
    server: Server, tmp_path: Path, left: bytes
) -> None:
    (tmp_path / "data.gz.part").write_bytes(left)
    assert fetch(server.file(), tmp_path) == CONTENT
    assert names(tmp_path) == {"data.gz"}


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b"", lambda b: b[:9] + b"!" + b[10:]]
)
def test_a_damaged_file_in_the_cache_is_fetched_again(
    server: Server, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "data.gz"
    path.write_bytes(damage(CONTENT))
    assert fetch(server.file(), tmp_path) == CONTENT
    assert path.read_bytes() == CONTENT


def test_another_file_than_expected_is_refused(server: Server, tmp_path: Path) -> None:
    server.content = b"not the file" * 1000
    wanted = hashlib.sha256(CONTENT).hexdigest()
    found = hashlib.sha256(server.content).hexdigest()
    with pytest.raises(MissingDataError, match=f"SHA-256 is {found}, wanted {wanted}"):
        fetch(server.file(), tmp_path)
    assert names(tmp_path) == set()


@pytest.mark.parametrize(
    ("statuses", "requests"), [([404], 1), ([403], 1), ([500] * 4, 4)]
)
def test_what_the_server_answers_is_told(
    server: Server, tmp_path: Path, statuses: list[int], requests: int
) -> None:
    server.statuses = list(statuses)
    with pytest.raises(MissingDataError, match=f"the server answers {statuses[0]} "):
        fetch(server.file(), tmp_path)
    assert len(server.ranges) == requests


def test_a_server_that_stumbles_is_asked_again(server: Server, tmp_path: Path) -> None:
    server.statuses = [503, 500]
    assert fetch(server.file(), tmp_path) == CONTENT


def test_without_network_one_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/data.gz"
    with pytest.raises(
        MissingDataError, match=rf"{address} could not be fetched: no connection \("
    ) as caught:
        fetch(RemoteFile(address, "0" * 64), tmp_path)
    assert "\n" not in str(caught.value)


def test_a_silent_server_is_given_up(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_TIMEOUT", 0.2)
    monkeypatch.setattr(download, "_ATTEMPTS", 2)
    server.pause = 2.0
    with pytest.raises(MissingDataError, match="the connection broke"):
        fetch(server.file(), tmp_path)
    assert len(server.ranges) == 2


def opening_fails(
    monkeypatch: pytest.MonkeyPatch, number: int, when: Callable[[Path], bool]
) -> None:
    opened = Path.open

    def fail(path: Path, mode: str = "r", *rest: object, **more: object) -> object:
        if when(path) and set(mode) & set("wa"):
            raise OSError(number, os.strerror(number), str(path))
        return opened(path, mode, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "open", fail)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_cache_that_only_reads_is_named(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    opening_fails(monkeypatch, number, lambda path: True)
    with pytest.raises(
        MissingDataError, match=r"cannot be written to \(.*\); TRANSFORMER_LIB_CACHE"
    ) as caught:
        fetch(server.file(), tmp_path)
    assert str(tmp_path) in str(caught.value)
    monkeypatch.undo()
    (tmp_path / "data.gz").write_bytes(CONTENT)
    opening_fails(monkeypatch, number, lambda path: True)
    assert fetch(server.file(), tmp_path) == CONTENT  # reading is enough


def test_a_file_in_place_of_the_folder_is_named(server: Server, tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"")
    with pytest.raises(MissingDataError, match="cannot be written to"):
        fetch(server.file(), tmp_path / "cache")


def test_a_full_disk_is_an_error_of_the_disk(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def full(path: Path, mode: str = "r", *rest: object, **more: object) -> object:
        made = opened(path, mode, *rest, **more)  # type: ignore[call-overload]
        if path.suffix == ".part" and set(mode) & set("wa"):
            return _FullAfter(made, 100_000)
        return made

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OSError, match=r"no space for data\.gz") as caught:
        fetch(server.file(), tmp_path)
    assert caught.value.errno == errno.ENOSPC
    assert names(tmp_path) == {"data.gz.part"}
    monkeypatch.setattr(Path, "open", opened)
    assert fetch(server.file(), tmp_path) == CONTENT


class _FullAfter:
    """A file on a disk that has so many bytes left."""

    def __init__(self, file: object, left: int) -> None:
        self.file, self.left = file, left

    def write(self, data: bytes) -> int:
        if self.left < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.left -= len(data)
        return self.file.write(data)  # type: ignore[attr-defined, no-any-return]

    def __enter__(self) -> _FullAfter:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()  # type: ignore[attr-defined]


# --- where the cache is ---------------------------------------------------------------


def test_the_cache_is_where_the_variable_or_the_system_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for variable in ("TRANSFORMER_LIB_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    where = {}
    for platform in ("linux", "darwin", "win32"):
        monkeypatch.setattr(sys, "platform", platform)
        where[platform] = cache_folder().relative_to(tmp_path).as_posix()
    assert where == {
        "linux": ".cache/transformer_lib",
        "darwin": "Library/Caches/transformer_lib",
        "win32": "AppData/Local/transformer_lib",
    }
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "transformer_lib"
    monkeypatch.setenv("TRANSFORMER_LIB_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"


def test_without_a_home_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    for variable in ("TRANSFORMER_LIB_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(MissingDataError, match="set TRANSFORMER_LIB_CACHE to a folder"):
        cache_folder()
