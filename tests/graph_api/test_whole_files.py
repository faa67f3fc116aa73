# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files are replaced as a whole, whatever goes wrong, and nothing stays beside them."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hipdnn_iree.graph_api.files import replace_file, write_file
from hipdnn_iree.graph_api.graph import Graph


@pytest.fixture
def umask() -> Iterator[int]:
    """An umask that nobody has by accident."""
    before = os.umask(0o026)
    yield 0o026
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("write", [replace_file, write_file])
def test_new_and_old_files(tmp_path: Path, umask: int, write, sync: bool) -> None:
    path = tmp_path / "a.json"
    write(path, b"one", sync=sync)
    assert (path.read_bytes(), mode_of(path)) == (b"one", 0o666 & ~umask)
    path.chmod(0o400)
    write(str(path), b"", sync=sync)
    assert (path.read_bytes(), mode_of(path)) == (b"", 0o666 & ~umask)
    assert os.listdir(tmp_path) == ["a.json"]


def test_mode_beats_the_umask(tmp_path: Path, umask: int) -> None:
    replace_file(tmp_path / "a", b"one", mode=0o644)
    assert mode_of(tmp_path / "a") == 0o644


@pytest.mark.parametrize("name", ["x" * 255, "ä" * 127, "𝄞" * 63], ids=["1", "2", "4"])
def test_longest_names(tmp_path: Path, name: str) -> None:
    replace_file(tmp_path / name, b"one")
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["fsync", "fchmod", "replace"])
def test_failure_leaves_what_was_there(tmp_path: Path, monkeypatch, call: str, error) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    seen = []

    def fails(*args: object) -> None:
        seen.append(sorted(os.listdir(tmp_path)))
        raise error

    monkeypatch.setattr(os, call, fails)
    with pytest.raises(type(error)):
        replace_file(path, b"new", mode=0o600)
    # The new file was there meanwhile, hidden and with another ending.
    ((made, name),) = seen
    assert made.startswith(".a.")
    assert name == "a"
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_without_sync_nothing_is_synced(tmp_path: Path, monkeypatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    replace_file(tmp_path / "a", b"one", sync=False)
    assert synced == []
    replace_file(tmp_path / "a", b"two")
    assert len(synced) == 1


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "no" / "a", b"one")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("write", [replace_file, write_file])
def test_a_folder_is_not_replaced(tmp_path: Path, write) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(IsADirectoryError):
        write(tmp_path / "a", b"one")
    assert os.listdir(tmp_path) == ["a"]


def test_links(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    for link in ("followed", "replaced"):
        (inside / link).write_bytes(b"old")
        (tmp_path / link).symlink_to(inside / link)
    write_file(tmp_path / "followed", b"new")
    replace_file(tmp_path / "replaced", b"new")
    assert (tmp_path / "followed").is_symlink()
    assert not (tmp_path / "replaced").is_symlink()
    assert (inside / "followed").read_bytes() == (tmp_path / "replaced").read_bytes() == b"new"
    assert (inside / "replaced").read_bytes() == b"old"
    (tmp_path / "dangling").symlink_to(inside / "later")
    write_file(tmp_path / "dangling", b"new")
    assert (inside / "later").read_bytes() == b"new"


def test_devices_and_pipes_are_written_into(tmp_path: Path) -> None:
    write_file("/dev/null", b"one")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_file(pipe, b"one")
    reader.join()
    assert found == [b"one"]
    assert os.listdir(tmp_path) == ["pipe"]


def test_many_writers_and_readers(tmp_path: Path) -> None:
    path = tmp_path / "a"
    contents = [bytes([n]) * 100_000 for n in range(4)]
    replace_file(path, contents[0])

    def write(content: bytes) -> None:
        for _ in range(25):
            replace_file(path, content, sync=False)

    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for one in writers:
        one.start()
    seen = set()
    while any(one.is_alive() for one in writers):
        seen.add(path.read_bytes())
    assert seen <= set(contents)
    assert os.listdir(tmp_path) == ["a"]


def test_graphs_are_saved_so(tmp_path: Path, monkeypatch) -> None:
    g = Graph(io_data_type="float")
    g.relu(g.tensor(dims=(4,))).set_output(True)
    g.save(tmp_path / "g.json")
    text = (tmp_path / "g.json").read_text(encoding="utf-8")
    assert Graph.from_json(text).digest == g.digest

    def fails(*args: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="full"):
        g.save(tmp_path / "g.json")
    assert (tmp_path / "g.json").read_text(encoding="utf-8") == text
