# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scratch folders: whose they are, and what is swept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hipdnn_iree.jit import scratch


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"hipdnn-iree-{os.geteuid()}"


def of_the_dead() -> str:
    """Make a folder in a process that ends without a word."""
    code = """
import os, sys, tempfile
from hipdnn_iree.jit import scratch
tempfile.tempdir = sys.argv[1]
path = scratch.reserve()
scratch.make(path)
open(path + "/file", "w").close()
print(path, flush=True)
os._exit(0)
"""
    words = [sys.executable, "-c", code, tempfile.gettempdir()]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def test_nothing_is_left_of_a_folder_that_was_lent(place: Path) -> None:
    with scratch.folder() as path:
        assert Path(path).parent == place
        assert place.stat().st_mode & 0o777 == 0o700
        assert Path(path).stat().st_mode & 0o777 == 0o700
        Path(path, "file").touch()
    assert not place.exists()


def test_a_file_that_is_made_while_a_folder_is_removed_goes_too(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed, late = shutil.rmtree, iter(("a", "b"))

    def meets_a_writer(path: str, *, ignore_errors: bool) -> None:
        removed(path, ignore_errors=ignore_errors)
        if name := next(late, ""):
            Path(path).mkdir()
            Path(path, name).touch()

    monkeypatch.setattr(shutil, "rmtree", meets_a_writer)
    with scratch.folder():
        pass
    assert not place.exists()


def test_what_the_dead_have_left_is_swept(place: Path) -> None:
    with scratch.folder() as mine:
        dead = of_the_dead()
        scratch.sweep(str(place))
        assert not os.path.exists(dead)
        assert os.path.exists(mine)
    assert not place.exists()


def test_a_process_with_the_same_id_is_not_the_owner(place: Path) -> None:
    dead = Path(of_the_dead())
    processes, _, start, random = dead.name.split("-")
    reused = dead.rename(place / f"{processes}-{os.getpid()}-{start}-{random}")
    scratch.sweep(str(place))
    assert not reused.exists()


def test_what_is_not_known_to_be_dead_stays(place: Path, tmp_path: Path) -> None:
    dead = Path(of_the_dead())
    _, pid, start, random = dead.name.split("-")
    elsewhere = dead.rename(place / f"0123abcd-{pid}-{start}-{random}")  # a container's
    (place / "other").mkdir()
    scratch.sweep(str(place))
    assert (elsewhere / "file").exists()
    assert (place / "other").exists()


def test_links_are_not_followed(place: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    dead = Path(of_the_dead())
    (dead / "link").symlink_to(tmp_path / "kept")
    name = dead.name[:-1] + ("0" if dead.name[-1] != "0" else "1")
    (place / name).symlink_to(tmp_path / "kept")
    scratch.sweep(str(place))
    assert not dead.exists()
    assert (tmp_path / "kept" / "file").exists()


@pytest.mark.parametrize("how", ["link", "writable", "file"])
def test_a_folder_of_somebody_else_is_not_used(place: Path, tmp_path: Path, how: str) -> None:
    dead = Path(of_the_dead())
    if how == "link":
        (tmp_path / "kept").mkdir()
        (tmp_path / "kept" / "file").touch()
        place = place.rename(tmp_path / "kept" / "place")
        (tmp_path / f"hipdnn-iree-{os.geteuid()}").symlink_to(place)
    elif how == "writable":
        place.chmod(0o777)
    else:
        place.rename(tmp_path / "moved")
        place.touch()
    with scratch.folder() as path:
        assert Path(path).parent == tmp_path
        assert Path(path).stat().st_mode & 0o777 == 0o700
        scratch.sweep(str(tmp_path / f"hipdnn-iree-{os.geteuid()}"))
    assert not os.path.exists(path)
    assert how == "file" or (place / dead.name / "file").exists()


def test_others_may_remove_the_folder_of_all_at_any_moment(place: Path) -> None:
    path = scratch.reserve()
    place.mkdir()
    place.rmdir()
    scratch.make(path)
    assert os.path.isdir(path)
    scratch.remove(path)
    assert not place.exists()


def test_a_folder_that_others_have_made_meanwhile_is_not_used(place: Path) -> None:
    path = scratch.reserve()
    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(PermissionError, match="others can write"):
        scratch.make(path)


def test_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(OSError, match="gone"):
        scratch.reserve()
