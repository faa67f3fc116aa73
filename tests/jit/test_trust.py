# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The check of what is loaded or run: whose it is, who else may write it, and what is above it."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hipdnn_iree.jit import scratch, trust
from hipdnn_iree.jit.compiler import reproducer
from hipdnn_iree.jit.compiler.request import CompileRequest
from hipdnn_iree.jit.trust import UnsafeError, make_private, opened, unsafe_path, unsafe_reason

ME, OTHER, TEAM = os.geteuid(), 12345, 23456


def status(mode: int, uid: int = ME, gid: int = TEAM, kind: int = stat.S_IFDIR) -> os.stat_result:
    return os.stat_result((kind | mode, 1, 1, 1, uid, gid, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("found", "beside", "above"),
    [
        (status(0o700), "", ""),
        (status(0o755, uid=0), "", ""),
        (status(0o700, uid=OTHER), "user 12345", "user 12345"),
        (status(0o1777, uid=OTHER), "user 12345", "user 12345"),
        (status(0o777), "everybody", "everybody"),
        (status(0o1777, uid=0), "everybody", ""),
        (status(0o770, uid=0), "group 23456", ""),
        (status(0o775, gid=ME), "", ""),
        (status(0o602, kind=stat.S_IFREG), "everybody", "everybody"),
        (status(0o777, uid=OTHER, kind=stat.S_IFLNK), "user 12345", "user 12345"),
        (status(0o777, kind=stat.S_IFLNK), "", ""),
    ],
)
def test_what_may_be_used(found: os.stat_result, beside: str, above: str) -> None:
    for wanted, reason in (
        (beside, unsafe_reason(found)),
        (above, unsafe_reason(found, above=True)),
    ):
        assert wanted in reason
        assert bool(wanted) == bool(reason)


def test_a_group_of_several_is_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "group 23456" in unsafe_reason(status(0o770, uid=1000))
    assert "group 23456" in unsafe_reason(status(0o770, uid=1000), above=True)
    assert unsafe_reason(status(0o770, uid=1000, gid=1000)) == ""


@pytest.mark.parametrize(("owner", "trusted"), [(OTHER, True), (65534, False)])
def test_the_owner_of_this_package_may_run_code_here_anyway(
    monkeypatch: pytest.MonkeyPatch, owner: int, trusted: bool
) -> None:
    """But not the owner whose number a user namespace does not know."""
    trust._installer.cache_clear()
    real = os.stat
    monkeypatch.setattr(
        os, "stat", lambda p, **o: status(0o644, uid=owner) if p == trust.__file__ else real(p, **o)
    )
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert (unsafe_reason(status(0o755, uid=owner)) == "") == trusted
    trust._installer.cache_clear()


def test_all_that_is_above_a_file_counts(tmp_path: Path) -> None:
    library = tmp_path / "a/b/x.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"")
    link = tmp_path / "link.so"
    link.symlink_to(library)
    assert unsafe_path(library) == unsafe_path(link) == ""
    (tmp_path / "a").chmod(0o777)
    assert unsafe_path(link).startswith(f"{tmp_path / 'a'} is above it: everybody")
    (tmp_path / "a").chmod(0o1777)
    assert unsafe_path(link) == ""
    library.chmod(0o666)
    assert "everybody" in unsafe_path(link)
    assert "cannot be looked at" in unsafe_path(tmp_path / "none.so")


def test_folders_are_opened_level_by_level(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with pytest.raises(FileNotFoundError), opened(root, "a", "b"):
        pass
    with opened(root, "a", "b", make=True) as fd:
        assert os.fstat(fd).st_ino == (root / "a/b").stat().st_ino
    (root / "a").rename(tmp_path / "away")
    (root / "a").symlink_to(tmp_path / "away")
    with pytest.raises(UnsafeError) as caught, opened(root, "a", "b"):
        pass
    assert caught.value.filename == str(root / "a")
    (tmp_path / "root-link").symlink_to(root)
    with opened(tmp_path / "root-link"):  # its user's own
        pass


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("no_umask")
def test_every_new_folder_is_for_its_user_alone(tmp_path: Path) -> None:
    make_private(tmp_path / "a/b/c")
    make_private(tmp_path / "a/b/c")
    for folder in ("a", "a/b", "a/b/c"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError):
        make_private(tmp_path / "file/a")


# --- folders that use it ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: folder.chmod(0o777),
        lambda folder: folder.parent.chmod(0o777),
    ],
    ids=["open", "open above"],
)
def test_temporary_files_of_the_compiler_are_where_nobody_else_can_exchange_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], None]
) -> None:
    folder = tmp_path / "above/temp"
    folder.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    assert Path(scratch.reserve()).parent.parent == folder
    spoil(folder)
    assert folder not in Path(scratch.reserve()).parents


def test_without_a_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "unsafe_reason", lambda *a, **o: "everybody may write")
    with pytest.raises(OSError, match=r"/tmp: everybody may write.*set TMPDIR"):
        scratch.reserve()


def write_reproducer(parent: Path, keep: int = 5) -> str:
    request = CompileRequest(source=b"module {}", flags=("-a",), label="graph")
    return reproducer.write(parent, keep, request, {"stage": "crash"}, "log", "iree-compile")


@pytest.mark.usefixtures("no_umask")
def test_reproducers_are_for_their_user_alone(tmp_path: Path) -> None:
    folder = Path(write_reproducer(tmp_path / "cache/reproducers"))
    assert json.loads((folder / "result.json").read_text()) == {"stage": "crash"}
    for path in (folder, folder.parent, folder.parent.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_no_reproducer_where_anybody_could_exchange_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert write_reproducer(tmp_path / "open") == ""
    assert "everybody may write" in caplog.text
    assert os.listdir(tmp_path / "open") == []
    (tmp_path / "open").chmod(0o1777)  # as /tmp
    assert write_reproducer(tmp_path / "open")


def test_pruning_reproducers_follows_no_link(tmp_path: Path) -> None:
    parent, precious = tmp_path / "reproducers", tmp_path / "elsewhere"
    precious.mkdir()
    (precious / "notes.txt").write_bytes(b"mine")
    parent.mkdir()
    (parent / "20200101T000000-crash-graph-link").symlink_to(precious)
    (parent / ".new-link").symlink_to(precious)
    os.mkfifo(parent / "20200101T000000-crash-graph-pipe")
    for _ in range(3):
        assert write_reproducer(parent, keep=1)
    assert (precious / "notes.txt").read_bytes() == b"mine"
    assert len([path for path in parent.iterdir() if path.is_dir() and not path.is_symlink()]) == 1


@pytest.mark.skipif(ME != 0, reason="only root can give a folder away")
def test_reproducers_of_other_users_stay(tmp_path: Path) -> None:
    theirs = tmp_path / "20200101T000000-crash-graph-theirs"
    theirs.mkdir()
    os.chown(theirs, OTHER, OTHER)
    for _ in range(3):
        assert write_reproducer(tmp_path, keep=1)
    assert theirs.is_dir()
