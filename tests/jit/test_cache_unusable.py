# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What happens when the folder of the store cannot be used or is not to be trusted."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cache_entries import MANIFEST, file_of, files, key, warnings
from hipdnn_iree.jit.cache import CacheStore, explain, explain_miss, upkeep

pytestmark = pytest.mark.usefixtures("no_fsync")

LOADED = (explain, upkeep)  # imported while we still may read our own sources
NOBODY = 65534


# --- a folder that cannot be used --------------------------------------------------------------


def check_works_without_storing(store: CacheStore, caplog) -> None:
    """Results are right, nothing raises, one warning in all."""
    for number in (10, 11):
        assert store.get(key(number)) is None
        made = store.put(key(number), files(number), MANIFEST)
        assert made.read("module.vmfb") == files(number)["module.vmfb"]
        assert made.path is None
        entry, hit = store.get_or_build(key(number), lambda n=number: (files(n), MANIFEST))
        assert not hit
        assert entry.manifest == MANIFEST
    assert len(warnings(caplog)) == 1, warnings(caplog)
    assert store.info().off


@pytest.fixture
def tmpfs(tmp_path) -> Iterator[Path]:
    """A real file system of 256 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "none", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("may not mount a tmpfs here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_full_disk_turns_writing_off_and_leaves_no_scratch(tmpfs, caplog) -> None:
    store = CacheStore(tmpfs / "cache")
    assert store.put(key(0), files(0, 60_000), MANIFEST).path is not None
    for number in range(1, 8):
        made = store.put(key(number), files(number, 60_000), MANIFEST)
        assert made.read("module.vmfb") == files(number, 60_000)["module.vmfb"]
    assert made.path is None
    assert "No space left" in store.info().off
    assert len(warnings(caplog)) == 1
    assert os.listdir(tmpfs / "cache/v2/tmp") == []
    assert store.get(key(0)) is not None
    assert CacheStore(tmpfs / "cache").verify() == []


def test_read_only_file_system_still_serves_hits(tmpfs, caplog) -> None:
    CacheStore(tmpfs / "cache").put(key(0), files(0), MANIFEST)
    used = os.stat(file_of(CacheStore(tmpfs / "cache"), key(0))).st_mtime - 3600
    os.utime(file_of(CacheStore(tmpfs / "cache"), key(0)), (used, used))
    subprocess.run(["mount", "-o", "remount,ro", str(tmpfs)], check=True)
    store = CacheStore(tmpfs / "cache")
    assert store.get(key(0)) is not None
    assert warnings(caplog) == []
    check_works_without_storing(store, caplog)
    assert store.get(key(0)) is not None
    assert store.trim(0).entries == 0
    assert store.clear().nbytes_left > 0
    assert store.get(key(0)) is not None


def test_damage_on_a_read_only_file_system_is_a_miss(tmpfs, caplog) -> None:
    store = CacheStore(tmpfs / "cache")
    store.put(key(0), files(0), MANIFEST)
    file_of(store, key(0)).write_bytes(b"x")
    subprocess.run(["mount", "-o", "remount,ro", str(tmpfs)], check=True)
    assert store.get(key(0)) is None
    assert "cannot remove" in warnings(caplog)[1]
    entry, hit = store.get_or_build(key(0), lambda: (files(0), MANIFEST))
    assert not hit
    assert entry.read("module.vmfb") == files(0)["module.vmfb"]
    assert len([text for text in warnings(caplog) if "is damaged" in text]) == 1


@pytest.mark.parametrize("call", ["write", "fsync", "mkdir", "rename"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT])
def test_any_failing_call_turns_writing_off(store, caplog, monkeypatch, call, code) -> None:
    store.put(key(0), files(0), MANIFEST)

    def fails(*args, **options):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, fails)
    if call == "mkdir":
        shutil.rmtree(store.root)
    check_works_without_storing(store, caplog)
    monkeypatch.undo()
    if call != "mkdir":
        assert os.listdir(store.root / "v2/tmp") == []
        assert store.get(key(0)) is not None


def test_passing_trouble_does_not_turn_writing_off(store, caplog, monkeypatch) -> None:
    store.put(key(0), files(0), MANIFEST)

    def fails(*args, **options):
        raise OSError(errno.ENOMEM, "no memory")

    monkeypatch.setattr(os, "fsync", fails)
    assert store.put(key(1), files(1), MANIFEST).path is None
    monkeypatch.undo()
    assert store.put(key(1), files(1), MANIFEST).path is not None
    assert len(warnings(caplog)) == 1
    assert not store.info().off


def test_interrupt_in_the_middle_of_a_put_leaves_nothing(store, monkeypatch) -> None:
    store.put(key(0), files(0), MANIFEST)

    def interrupt(fd):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.get_or_build(key(1), lambda: (files(1), MANIFEST))
    monkeypatch.undo()
    assert os.listdir(store.root / "v2/tmp") == os.listdir(store.root / "v2/locks") == []
    assert store.get(key(1)) is None


def test_folder_deleted_at_any_time_is_made_again(store, caplog, monkeypatch) -> None:
    store.put(key(0), files(0), MANIFEST)
    shutil.rmtree(store.root)
    assert store.get(key(0)) is None
    assert store.put(key(0), files(0), MANIFEST).path is not None
    # ... also between making the scratch folder and moving it into place.
    real, left = os.rename, [1]

    def deleted_before(*args, **folders):
        if left:
            left.pop()
            shutil.rmtree(store.root)
        return real(*args, **folders)

    monkeypatch.setattr(os, "rename", deleted_before)
    assert store.put(key(1), files(1), MANIFEST).path is not None
    assert store.get(key(1)) is not None
    assert warnings(caplog) == []


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A folder of an unprivileged user, while this process has that user's rights."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    place = Path(tempfile.mkdtemp(prefix="hipdnn-iree-test-"))
    os.chown(place, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        if not os.access(place, os.W_OK, effective_ids=True):
            pytest.skip(f"{place.parent} is closed for other users")
        yield place
    finally:
        os.seteuid(0)
        shutil.rmtree(place)


def test_folder_without_write_permission_still_serves_hits(as_nobody, caplog) -> None:
    root = as_nobody / "cache"
    writer = CacheStore(root)
    writer.put(key(0), files(0), MANIFEST)
    for path in [root, *root.rglob("*")]:
        if path.is_dir():
            path.chmod(0o500)
    store = CacheStore(root)
    assert store.get(key(0)) is not None
    check_works_without_storing(store, caplog)
    assert store.get(key(0)) is not None
    for path in [root, *root.rglob("*")]:
        if path.is_dir():
            path.chmod(0o700)


def test_folder_that_cannot_be_made_turns_the_cache_off(as_nobody, caplog) -> None:
    as_nobody.chmod(0o500)
    check_works_without_storing(CacheStore(as_nobody / "a/cache"), caplog)


def test_folder_that_cannot_be_entered_turns_the_cache_off(as_nobody, caplog) -> None:
    (as_nobody / "cache").mkdir()
    as_nobody.chmod(0)
    check_works_without_storing(CacheStore(as_nobody / "cache"), caplog)


def test_file_in_place_of_the_folder_turns_the_cache_off(tmp_path, caplog) -> None:
    (tmp_path / "cache").write_bytes(b"")
    check_works_without_storing(CacheStore(tmp_path / "cache"), caplog)


# --- whom to trust -------------------------------------------------------------------------------


def test_new_folders_are_for_the_user_alone(store) -> None:
    before = os.umask(0)
    try:
        store.put(key(), files(), MANIFEST)
    finally:
        os.umask(before)
    for path in [store.root, *store.root.rglob("*")]:
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


@pytest.mark.parametrize("sticky", [0, 0o1000])
def test_world_writable_folder_is_refused(tmp_path, caplog, sticky) -> None:
    root = tmp_path / "cache"
    CacheStore(root).put(key(10), files(10), MANIFEST)
    root.chmod(0o777 | sticky)
    store = CacheStore(root)
    check_works_without_storing(store, caplog)
    assert "chmod 700" in warnings(caplog)[0]
    assert explain_miss(store, key()).reason == "off"
    assert store.clear().entries == 0
    root.chmod(0o770)
    assert CacheStore(root).get(key(10)) is not None


def test_folder_of_another_user_is_refused(as_nobody, caplog) -> None:
    os.seteuid(0)
    root = as_nobody / "cache"
    CacheStore(root).put(key(10), files(10), MANIFEST)
    os.chown(root, 12345, 12345)
    check_works_without_storing(CacheStore(root), caplog)
    assert "12345" in warnings(caplog)[0]


def test_folder_of_root_is_trusted_by_others(as_nobody) -> None:
    os.seteuid(0)
    root = as_nobody / "cache"
    CacheStore(root).put(key(10), files(10), MANIFEST)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    os.seteuid(NOBODY)
    assert CacheStore(root).get(key(10)) is not None


def test_link_of_another_user_is_refused_and_an_own_one_followed(as_nobody, caplog) -> None:
    real, link = as_nobody / "real", as_nobody / "link"
    CacheStore(real).put(key(10), files(10), MANIFEST)
    link.symlink_to(real)
    assert CacheStore(link).get(key(10)) is not None
    os.seteuid(0)
    os.lchown(link, 12345, 12345)
    os.seteuid(NOBODY)
    check_works_without_storing(CacheStore(link), caplog)
    assert "symbolic link" in warnings(caplog)[0]
