# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What somebody puts in the place of folders and entries: nothing outside of the cache is touched.

Links, pipes, devices, folders of other users.  They are renamed or left, never walked, deleted
through, waited for or served.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cache_entries import MANIFEST, file_of, files, key, warnings
from hipdnn_iree.jit.cache import CacheStore

pytestmark = pytest.mark.usefixtures("no_fsync")

OTHER = 12345
FOLDERS = ["v2", "v2/tmp", "v2/locks", "v2/shard"]


def place(store: CacheStore, name: str) -> Path:
    """Return the path of a folder of the cache; the shard is that of the first key."""
    shard = file_of(store, key()).parent
    return shard if name == "v2/shard" else store.root / name


def precious(folder: Path) -> Path:
    """Make a folder with what looks like scratch files, locks, entries and shards, all old."""
    digest = key().digest
    old = time.time() - 1e6
    for name in ("notes.txt", digest, f"{digest[:2]}/{digest}", f"tmp/{digest}", f"locks/{digest}"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"mine")
        os.utime(path, (old, old))
    return folder


def content(folder: Path) -> dict[str, float]:
    return {str(p.relative_to(folder)): p.lstat().st_mtime for p in sorted(folder.rglob("*"))}


def aside(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"aside-*-{path.name}"))


USES: dict[str, Callable[[CacheStore], object]] = {
    "get": lambda store: store.get(key()),
    "put": lambda store: store.put(key(), files(), MANIFEST),
    "get_or_build": lambda store: store.get_or_build(key(), lambda: (files(), MANIFEST)),
    "discard": lambda store: store.discard(key()),
    "trim": lambda store: store.trim(0),
    "clear": lambda store: store.clear(),
    "verify": lambda store: store.verify(),
    "repair": lambda store: store.verify(repair=True),
    "info": lambda store: store.info(),
    "entries": lambda store: store.entries(),
    "mentioning": lambda store: store.mentioning("g0"),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", [*FOLDERS, "entry"])
def test_a_link_below_the_root_is_never_followed(store, tmp_path, name, use) -> None:
    store.put(key(), files(), MANIFEST)
    path = file_of(store, key()) if name == "entry" else place(store, name)
    path.rename(tmp_path / "away")
    path.symlink_to(precious(tmp_path / "elsewhere"))
    before = content(tmp_path / "elsewhere")
    USES[use](CacheStore(store.root, scratch_age_s=0))
    assert content(tmp_path / "elsewhere") == before


@pytest.mark.parametrize("kind", ["link", "file", "pipe"])
@pytest.mark.parametrize("name", FOLDERS)
def test_what_is_in_the_place_of_a_folder_is_renamed_and_the_cache_works(
    store, tmp_path, caplog, name, kind
) -> None:
    path = place(store, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    for above in (store.root, store.root / "v2"):
        if above.is_dir():
            above.chmod(0o700)
    if kind == "link":
        path.symlink_to(precious(tmp_path / "elsewhere"))
    elif kind == "file":
        path.write_bytes(b"mine")
    else:
        os.mkfifo(path)
    (finding,) = store.verify()
    assert not finding.removed
    assert "not a folder" in finding.problem
    made, hit = store.get_or_build(key(), lambda: (files(), MANIFEST))
    assert (hit, made.path) == (False, file_of(store, key()))
    assert store.get(key()) is not None
    assert len(aside(path)) == 1
    assert any("renamed" in text and str(path) in text for text in warnings(caplog))
    assert store.verify() == []


def test_repair_renames_what_is_in_the_place_of_a_folder(store, tmp_path) -> None:
    store.put(key(), files(), MANIFEST)
    path = place(store, "v2/shard")
    path.rename(tmp_path / "away")
    path.symlink_to(tmp_path / "away")
    assert [finding.removed for finding in store.verify(repair=True)] == [True]
    assert (tmp_path / "away" / key().digest).is_file()
    assert [link.readlink() for link in aside(path)] == [tmp_path / "away"]
    assert store.verify() == []


@pytest.mark.parametrize("use", ["get", "repair", "put"])
def test_a_folder_in_the_place_of_an_entry_is_renamed_with_all_that_is_in_it(store, use) -> None:
    path = file_of(store, key())
    store.put(key(), files(), MANIFEST)
    path.unlink()
    path.mkdir()
    (path / "inner").write_bytes(b"mine")
    USES[use](store)
    (there,) = aside(path)
    assert (there / "inner").read_bytes() == b"mine"


def test_what_is_no_scratch_file_is_not_swept(store, tmp_path) -> None:
    store.put(key(), files(), MANIFEST)
    scratch = store.root / "v2/tmp"
    (scratch / "folder").mkdir()
    (scratch / "folder" / "inner").write_bytes(b"mine")
    os.mkfifo(scratch / "pipe")
    (scratch / "link").symlink_to(precious(tmp_path / "elsewhere"))
    os.mkfifo(store.root / "v2/locks" / key(1).digest)
    assert CacheStore(store.root, scratch_age_s=0).trim().leftovers == 0
    assert sorted(os.listdir(scratch)) == ["folder", "link", "pipe"]


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
@pytest.mark.parametrize("name", ["lock", "sizes"])
def test_what_is_in_the_place_of_a_small_file_stops_nothing(store, tmp_path, kind, name) -> None:
    store.put(key(1), files(1), MANIFEST)
    path = store.root / "v2" / (f"locks/{key().digest}" if name == "lock" else "sizes")
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    entry, hit = store.get_or_build(key(), lambda: (files(), MANIFEST))
    assert (hit, entry.path) == (False, file_of(store, key()))
    assert not (tmp_path / "elsewhere").exists()
    store.trim()


# --- whose they are ------------------------------------------------------------------------------

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@as_root
@pytest.mark.parametrize("mode", [0o777, 0o700])
@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_of_another_user_below_the_root_is_not_served(store, caplog, name, mode) -> None:
    store.put(key(), files(), MANIFEST)
    path = place(store, name)
    path.chmod(mode)
    os.chown(path, OTHER, OTHER)
    if name in ("v2", "v2/shard"):
        assert store.get(key()) is None
        assert str(OTHER) in warnings(caplog)[0]
        assert store.entries() == []
    assert [str(OTHER) in finding.problem for finding in store.verify()] == [True]
    made = store.put(key(), files(), MANIFEST)
    assert made.path is not None
    if name in ("v2", "v2/shard"):
        assert len(aside(path)) == 1
    assert store.get(key()) is not None


@as_root
def test_an_entry_of_another_user_is_rebuilt(store, caplog) -> None:
    store.put(key(), files(), MANIFEST)
    os.chown(file_of(store, key()), OTHER, OTHER)
    assert store.get(key()) is None
    assert str(OTHER) in warnings(caplog)[0]
    assert not file_of(store, key()).exists()


@pytest.mark.parametrize("name", ["root", "v2", "v2/shard", "entry"])
@pytest.mark.parametrize("what", ["owner", "others", "group"])
def test_each_level_has_to_be_safe(store, caplog, monkeypatch, name, what) -> None:
    """Without being root: what the system says of one level is changed."""
    store.put(key(), files(), MANIFEST)
    path = {"root": store.root, "entry": file_of(store, key())}.get(name) or place(store, name)
    wanted, real = path.stat().st_ino, os.fstat

    def changed(fd: int) -> os.stat_result:
        found = real(fd)
        if found.st_ino != wanted:
            return found
        fields = list(found)
        if what == "owner":
            fields[stat.ST_UID] = OTHER
        else:
            fields[stat.ST_MODE] |= stat.S_IWOTH if what == "others" else stat.S_IWGRP
            fields[stat.ST_GID] = OTHER
        return os.stat_result(fields)

    monkeypatch.setattr(os, "fstat", changed)
    assert CacheStore(store.root).get(key()) is None
    (text, *_) = warnings(caplog)
    assert {"owner": f"user {OTHER}", "others": "everybody", "group": f"group {OTHER}"}[
        what
    ] in text


def test_an_entry_for_a_group_of_ones_own_is_served(store) -> None:
    """Such is a cache that was copied with umask 002."""
    store.put(key(), files(), MANIFEST)
    path = file_of(store, key())
    path.chmod(0o664)
    path.parent.chmod(0o775)
    if path.stat().st_gid != path.stat().st_uid:
        pytest.skip("the user of this process has no group of the same number")
    assert store.get(key()) is not None


def test_folders_above_a_new_cache_are_for_the_user_alone(tmp_path) -> None:
    before = os.umask(0)
    try:
        CacheStore(tmp_path / "a/b/cache").put(key(), files(), MANIFEST)
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "a").rglob("*") if p.is_dir()}
    assert modes | {stat.S_IMODE((tmp_path / "a").stat().st_mode)} == {0o700}
