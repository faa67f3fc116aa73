"""The store in one process: round trips, damage, what happens when the folder is unusable."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import random
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hipdnn_iree.jit.cache import CacheKey, CacheStore, Entry, explain, explain_miss, upkeep
from hipdnn_iree.jit.cache.entry import DamagedError, read_entry

LOADED = (explain, upkeep)  # imported while we still may read our own sources
NOBODY = 65534


def key(number: int = 0, **more: str) -> CacheKey:
    return CacheKey({"graph": f"g{number}", "flags": ("-a", "-b"), "ir": "m" * 500, **more})


def files(number: int = 0, size: int = 3000) -> dict[str, bytes]:
    data = random.Random(number)
    return {"module.vmfb": data.randbytes(size), "module.mlir": b"func.func @main " * 20}


MANIFEST = {"signature": {"args": [{"dims": [2, 3]}], "workspace_bytes": 64}, "note": "größe"}


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch) -> None:
    """Hundreds of puts on a busy disk take a minute; no test here cuts the power."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture
def store(tmp_path) -> CacheStore:
    return CacheStore(tmp_path / "cache")


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def folder(store: CacheStore, of: CacheKey) -> Path:
    return store.root / "v1" / of.digest[:2] / of.digest


# --- round trip --------------------------------------------------------------------------------


def test_put_then_get_gives_the_same_in_this_and_another_store(store, caplog) -> None:
    assert store.get(key()) is None
    made = store.put(key(), files(), MANIFEST)
    for entry in (made, store.get(key()), CacheStore(store.root).get(key())):
        assert isinstance(entry, Entry)
        assert entry.manifest == MANIFEST
        assert entry.digest == key().digest
        assert entry.ingredients == key().ingredients
        assert {name: entry.read(name) for name in entry.names} == files()
        assert entry.nbytes == sum(map(len, files().values()))
        path = entry.path("module.vmfb")
        assert path is not None
        assert path.read_bytes() == files()["module.vmfb"]
    assert store.get(key(1)) is None
    info = store.info()
    assert (info.hits, info.misses, info.stored, info.damaged) == (1, 2, 1, 0)
    assert warnings(caplog) == []


def test_entry_is_an_immutable_view(store) -> None:
    manifest = {"list": [1, {"x": 2}], "pair": (1, 2)}
    entry = store.put(key(), files(), manifest)
    entry.manifest["list"][1]["x"] = 99
    manifest["list"].append(3)
    assert entry.manifest == {"list": [1, {"x": 2}], "pair": [1, 2]}
    with pytest.raises(AttributeError):
        entry.digest = ""  # type: ignore[misc]
    with pytest.raises(KeyError, match=r"module\.vmfb, module\.mlir"):
        entry.read("module.so")
    with pytest.raises(KeyError):
        entry.path("module.so")
    assert entry.changed_files(files()) == ()
    other = {"module.vmfb": b"", "extra": b"", "module.mlir": files()["module.mlir"]}
    assert entry.changed_files(other) == ("module.vmfb", "extra")


def test_entry_outlives_its_files(store) -> None:
    store.put(key(), files(), MANIFEST)
    entry = store.get(key())
    assert entry is not None
    path = entry.path("module.vmfb")
    assert store.discard(key())
    assert not store.discard(key())
    assert entry.read("module.vmfb") == files()["module.vmfb"]
    assert path is not None
    assert not path.exists()
    assert store.get(key()) is None


def test_put_keeps_the_first_of_two(store) -> None:
    store.put(key(), files(1), {"by": "first"})
    second = CacheStore(store.root).put(key(), files(2), {"by": "second"})
    assert second.manifest == {"by": "first"}
    assert second.read("module.vmfb") == files(1)["module.vmfb"]
    assert store.info().entries == 1
    assert os.listdir(store.root / "v1/tmp") == []


@pytest.mark.parametrize("size", [0, 1, 65536, 1_000_003])
def test_put_any_size_and_no_files(store, size) -> None:
    store.put(key(), {"f": bytes(size)}, {})
    entry = store.get(key())
    assert entry is not None
    assert entry.read("f") == bytes(size)
    store.put(key(1), {}, {})
    empty = store.get(key(1))
    assert empty is not None
    assert empty.names == ()


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "manifest.json", "a\0b"])
def test_put_refuses_names_that_are_not_plain(store, name) -> None:
    with pytest.raises(ValueError, match="plain name"):
        store.put(key(), {name: b""}, {})


def test_put_refuses_manifests_that_are_not_json(store) -> None:
    with pytest.raises(TypeError):
        store.put(key(), {}, {"x": b"bytes"})
    with pytest.raises(ValueError, match="JSON"):
        store.put(key(), {}, {"x": float("nan")})
    assert store.info().entries == 0


def test_switched_off_store_touches_nothing(tmp_path) -> None:
    store = CacheStore(tmp_path / "cache", enabled=False)
    made = store.put(key(), files(), MANIFEST)
    assert made.folder is None
    assert made.path("module.vmfb") is None
    assert made.read("module.vmfb") == files()["module.vmfb"]
    assert store.get(key()) is None
    assert store.get_or_build(key(), lambda: (files(), MANIFEST))[1] is False
    assert store.info().off
    assert not (tmp_path / "cache").exists()
    assert store.trim().entries == store.clear().entries == 0
    assert store.verify() == []
    assert explain_miss(store, key()).reason == "off"


def test_relative_root_stays_where_it_was(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = CacheStore("cache")
    monkeypatch.chdir("/")
    store.put(key(), files(), MANIFEST)
    assert (tmp_path / "cache/v1").is_dir()


def test_entries_hold_no_absolute_paths_and_may_be_moved(store, tmp_path) -> None:
    store.put(key(), files(), MANIFEST)
    text = (folder(store, key()) / "manifest.json").read_text()
    assert str(tmp_path) not in text
    moved = tmp_path / "elsewhere"
    shutil.copytree(store.root, moved)
    moved.chmod(0o700)
    assert CacheStore(moved).get(key()) is not None


def test_get_or_build_builds_once_and_passes_errors_on(store) -> None:
    built = []

    def build():
        built.append(1)
        return files(), MANIFEST

    def fail():
        raise RuntimeError("compiler says no")

    with pytest.raises(RuntimeError, match="says no"):
        store.get_or_build(key(), fail)
    assert store.get_or_build(key(), build)[1] is False
    entry, hit = store.get_or_build(key(), fail)
    assert hit
    assert entry.read("module.vmfb") == files()["module.vmfb"]
    assert built == [1]
    assert os.listdir(store.root / "v1/locks") == []
    assert (store.info().hits, store.info().misses) == (1, 2)


# --- damage --------------------------------------------------------------------------------------


def truncated(data: bytes) -> bytes:
    return data[:-1]


def cut_to_nothing(data: bytes) -> bytes:
    return b""


def longer(data: bytes) -> bytes:
    return data + b"\0"


def garbage(data: bytes) -> bytes:
    return b"\xff{[" + bytes(len(data))


def zeroed(data: bytes) -> bytes:
    return bytes(len(data))


def flipped(at: float):
    def flip(data: bytes) -> bytes:
        changed = bytearray(data)
        changed[int(at * (len(data) - 1))] ^= 0x10
        return bytes(changed)

    flip.__name__ = f"flipped_at_{at}"
    return flip


MUTATIONS = [
    truncated,
    cut_to_nothing,
    longer,
    garbage,
    zeroed,
    flipped(0),
    flipped(0.3),
    flipped(0.6),
    flipped(1),
]
FILES = ["module.vmfb", "module.mlir", "manifest.json"]


def check_is_rebuilt(store: CacheStore, caplog) -> None:
    """The entry is a miss with one warning, is gone, and can be made anew."""
    caplog.clear()
    assert store.get(key()) is None
    (text,) = warnings(caplog)
    assert "damaged" in text
    assert str(folder(store, key())) in text
    assert not folder(store, key()).exists()
    assert os.listdir(store.root / "v1/tmp") == []
    caplog.clear()
    assert store.get(key()) is None
    store.put(key(), files(), MANIFEST)
    entry = store.get(key())
    assert entry is not None
    assert entry.read("module.vmfb") == files()["module.vmfb"]
    assert warnings(caplog) == []


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.__name__)
def test_damaged_file_is_a_miss_and_is_rebuilt(store, caplog, name, mutation) -> None:
    store.put(key(), files(), MANIFEST)
    path = folder(store, key()) / name
    path.write_bytes(mutation(path.read_bytes()))
    (finding,) = store.verify()
    assert finding.file == name
    if name != "manifest.json" and mutation in (truncated, cut_to_nothing, longer):
        assert "bytes instead of" in finding.problem
    check_is_rebuilt(store, caplog)
    assert store.info().damaged == 1


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["missing", "folder", "dangling", "link"])
def test_file_that_is_no_file_is_a_miss_and_is_rebuilt(store, caplog, tmp_path, name, kind) -> None:
    store.put(key(), files(), MANIFEST)
    path = folder(store, key()) / name
    if kind == "link":
        shutil.copy(path, tmp_path / "real")
    path.unlink()
    if kind == "folder":
        path.mkdir()
        (path / "inner").write_bytes(b"x")
    elif kind in ("dangling", "link"):
        path.symlink_to(tmp_path / ("real" if kind == "link" else "none"))
    check_is_rebuilt(store, caplog)


@pytest.mark.parametrize("kind", ["empty folder", "file"])
def test_entry_that_is_no_entry_is_a_miss_and_is_rebuilt(store, caplog, kind) -> None:
    store.put(key(), files(), MANIFEST)
    shutil.rmtree(folder(store, key()))
    if kind == "file":
        folder(store, key()).write_bytes(b"x")
    else:
        folder(store, key()).mkdir()
    assert len(store.verify()) == 1
    check_is_rebuilt(store, caplog)


def test_put_replaces_a_damaged_entry(store, caplog) -> None:
    store.put(key(), files(), MANIFEST)
    (folder(store, key()) / "module.vmfb").unlink()
    made = store.put(key(), files(), {"by": "second"})
    assert made.folder is not None
    assert len(warnings(caplog)) == 1
    entry = store.get(key())
    assert entry is not None
    assert entry.manifest == {"by": "second"}


def reseal(path: Path, **changes: object) -> None:
    """Change a manifest the way a program would, with a seal that fits."""
    body = json.loads(path.read_bytes())
    del body["seal"]
    body.update(changes)
    rest = json.dumps({k: v for k, v in body.items() if v is not None}).encode()[1:]
    path.write_bytes(b'{"seal": "%s",\n' % hashlib.sha256(rest).hexdigest().encode() + rest)


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": 2},
        {"schema": None},
        {"digest": "0" * 64},
        {"digest": None},
        {"key": {"graph": "g1", "flags": ["-a", "-b"], "ir": "m"}},
        {"key": {}},
        {"key": None},
        {"key": [1]},
        {"files": None},
        {"files": {"module.vmfb": {"size": "3000"}}},
        {"files": {"../../../x": {"size": 0, "sha256": hashlib.sha256(b"").hexdigest()}}},
        {"files": 7},
        {"created": "yesterday"},
        {"manifest": None},
        {"manifest": [1]},
    ],
    ids=str,
)
def test_manifest_with_wrong_contents_is_a_miss_and_is_rebuilt(store, caplog, changes) -> None:
    store.put(key(), files(), MANIFEST)
    reseal(folder(store, key()) / "manifest.json", **changes)
    check_is_rebuilt(store, caplog)


def test_resealed_but_unchanged_manifest_is_sound(store) -> None:
    store.put(key(), files(), MANIFEST)
    reseal(folder(store, key()) / "manifest.json")
    assert store.get(key()) is not None  # else the test above proves nothing


def test_entry_under_the_wrong_digest_is_a_miss(store, caplog) -> None:
    store.put(key(1), files(1), MANIFEST)
    folder(store, key()).parent.mkdir(exist_ok=True)
    folder(store, key(1)).rename(folder(store, key()))
    check_is_rebuilt(store, caplog)


def test_every_single_flipped_byte_is_noticed(store) -> None:
    store.put(key(), files(size=300), MANIFEST)
    place = folder(store, key())
    tried = 0
    for name in FILES:
        good = (place / name).read_bytes()
        with open(place / name, "r+b", buffering=0) as file:
            for at, byte in enumerate(good):
                os.pwrite(file.fileno(), bytes([byte ^ 1 << (at % 8)]), at)
                with pytest.raises(DamagedError) as caught:
                    read_entry(place, key())
                assert caught.value.file == name
                os.pwrite(file.fileno(), bytes([byte]), at)
                tried += 1
    assert tried > 1000
    assert read_entry(place, key())[0].read("module.vmfb") == files(size=300)["module.vmfb"]


def test_verify_finds_repairs_and_leaves_the_sound(store) -> None:
    for number in range(6):
        store.put(key(number), files(number), MANIFEST)
    assert store.verify() == []
    (folder(store, key(1)) / "module.vmfb").write_bytes(b"x")
    (folder(store, key(3)) / "manifest.json").unlink()
    (folder(store, key(4)) / "stray.o").write_bytes(b"x")
    found = {finding.digest: finding for finding in store.verify()}
    assert set(found) == {key(number).digest for number in (1, 3, 4)}
    assert found[key(4).digest].file == "stray.o"
    assert not any(finding.removed for finding in found.values())
    assert all(str(finding) and finding.as_dict() for finding in found.values())
    assert all(finding.removed for finding in store.verify(repair=True))
    assert store.verify() == []
    assert sorted(entry.digest for entry in store.entries()) == sorted(
        key(number).digest for number in (0, 2, 5)
    )


def test_unreadable_for_a_passing_reason_is_a_miss_but_stays(store, monkeypatch, caplog) -> None:
    store.put(key(), files(), MANIFEST)
    real = os.open

    def no_descriptors(*args, **options):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", no_descriptors)
    assert store.get(key()) is None
    assert store.get(key()) is None
    monkeypatch.setattr(os, "open", real)
    assert store.get(key()) is not None
    assert len(warnings(caplog)) == 1
    assert store.info().damaged == 0


# --- a folder that cannot be used --------------------------------------------------------------


def check_works_without_storing(store: CacheStore, caplog) -> None:
    """Results are right, nothing raises, one warning in all."""
    for number in (10, 11):
        assert store.get(key(number)) is None
        made = store.put(key(number), files(number), MANIFEST)
        assert made.read("module.vmfb") == files(number)["module.vmfb"]
        assert made.folder is None
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
    assert store.put(key(0), files(0, 60_000), MANIFEST).folder is not None
    for number in range(1, 8):
        made = store.put(key(number), files(number, 60_000), MANIFEST)
        assert made.read("module.vmfb") == files(number, 60_000)["module.vmfb"]
    assert made.folder is None
    assert "No space left" in store.info().off
    assert len(warnings(caplog)) == 1
    assert os.listdir(tmpfs / "cache/v1/tmp") == []
    assert store.get(key(0)) is not None
    assert CacheStore(tmpfs / "cache").verify() == []


def test_read_only_file_system_still_serves_hits(tmpfs, caplog) -> None:
    CacheStore(tmpfs / "cache").put(key(0), files(0), MANIFEST)
    used = os.stat(folder(CacheStore(tmpfs / "cache"), key(0))).st_mtime - 3600
    os.utime(folder(CacheStore(tmpfs / "cache"), key(0)), (used, used))
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
    (folder(store, key(0)) / "module.vmfb").write_bytes(b"x")
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
        assert os.listdir(store.root / "v1/tmp") == []
        assert store.get(key(0)) is not None


def test_passing_trouble_does_not_turn_writing_off(store, caplog, monkeypatch) -> None:
    store.put(key(0), files(0), MANIFEST)

    def fails(*args, **options):
        raise OSError(errno.ENOMEM, "no memory")

    monkeypatch.setattr(os, "fsync", fails)
    assert store.put(key(1), files(1), MANIFEST).folder is None
    monkeypatch.undo()
    assert store.put(key(1), files(1), MANIFEST).folder is not None
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
    assert os.listdir(store.root / "v1/tmp") == os.listdir(store.root / "v1/locks") == []
    assert store.get(key(1)) is None


def test_folder_deleted_at_any_time_is_made_again(store, caplog, monkeypatch) -> None:
    store.put(key(0), files(0), MANIFEST)
    shutil.rmtree(store.root)
    assert store.get(key(0)) is None
    assert store.put(key(0), files(0), MANIFEST).folder is not None
    # ... also between making the scratch folder and moving it into place.
    real, left = os.rename, [1]

    def deleted_before(*args):
        if left:
            left.pop()
            shutil.rmtree(store.root)
        return real(*args)

    monkeypatch.setattr(os, "rename", deleted_before)
    assert store.put(key(1), files(1), MANIFEST).folder is not None
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


# --- explaining a miss ---------------------------------------------------------------------------


def test_explain_miss_names_the_nearest_entry_and_what_differs(store) -> None:
    wanted = CacheKey({"graph": "g", "target": "gfx942", "flags": ("-a", "-b"), "lowering": "1"})
    assert explain_miss(store, wanted).reason == "empty"
    far = CacheKey({"graph": "g", "target": "cpu", "flags": ("-a",), "lowering": "0"})
    near = CacheKey({"graph": "g", "target": "gfx942", "flags": ("-a", "-c"), "lowering": "1"})
    other = CacheKey({"graph": "h", "target": "gfx942", "flags": ("-a", "-b"), "lowering": "1"})
    store.put(other, files(), MANIFEST)
    miss = explain_miss(store, wanted)
    assert miss.reason == "new graph"
    assert "1 entries" in str(miss)
    store.put(near, files(), MANIFEST)
    store.put(far, files(), MANIFEST)
    miss = explain_miss(store, wanted)
    assert (miss.reason, miss.nearest) == ("differs", near.digest)
    assert [difference.label for difference in miss.differences] == ["flags"]
    assert "flags: without ['-c']; with ['-b']" in str(miss)
    assert json.loads(json.dumps(miss.as_dict()))["differences"][0]["b"] == ["-a", "-b"]
    store.put(wanted, files(), MANIFEST)
    assert explain_miss(store, wanted).reason == "found"


def test_explain_miss_passes_over_damaged_entries(store) -> None:
    store.put(key(0, target="cpu"), files(), MANIFEST)
    (folder(store, key(0, target="cpu")) / "manifest.json").write_bytes(b"")
    assert explain_miss(store, key(0)).reason == "empty"
