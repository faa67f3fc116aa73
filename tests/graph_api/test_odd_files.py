# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What stands in the place of a file of ours: it is an error, nobody waits, nothing is touched."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest
from hipdnn_iree.graph_api.files import open_regular, read_file, write_file

ODD = ["folder", "pipe", "device", "socket", "link", "dangling"]


def put(kind: str, path: Path) -> None:
    """Make something that is no file."""
    if kind == "folder":
        path.mkdir()
        (path / "inner").write_bytes(b"x")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")  # it gives bytes without end
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    else:
        target = path.with_name("elsewhere")
        path.symlink_to(target)
        if kind == "link":
            target.write_bytes(b"mine")


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_CREAT])
def test_only_a_regular_file_is_opened(tmp_path: Path, kind: str, flags: int) -> None:
    put(kind, tmp_path / "file")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(OSError) as caught:
        open_regular(tmp_path / "file", flags)
    assert caught.value.errno in (errno.EISDIR, errno.ENXIO, errno.ELOOP)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("kind", [kind for kind in ODD if kind != "link"])
def test_what_is_no_file_is_not_read(tmp_path: Path, kind: str) -> None:
    put(kind, tmp_path / "file")
    with pytest.raises(OSError):
        read_file(tmp_path / "file")


def test_a_file_is_read_through_a_link_of_its_user(tmp_path: Path) -> None:
    put("link", tmp_path / "file")
    assert read_file(tmp_path / "file") == b"mine"


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "socket"])
def test_what_is_no_file_is_not_written(tmp_path: Path, kind: str) -> None:
    put(kind, tmp_path / "file")
    with pytest.raises(OSError):
        write_file(tmp_path / "file", b"new", devices=False)
    assert os.listdir(tmp_path) == ["file"]


def test_a_new_file_is_for_its_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        os.close(open_regular(tmp_path / "file", os.O_RDWR | os.O_CREAT))
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
