"""Damaged entries of the store: each is noticed, is a miss, and is made again."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
from cache_entries import MANIFEST, files, folder, key, warnings
from hipdnn_iree.jit.cache import CacheStore
from hipdnn_iree.jit.cache.entry import DamagedError, read_entry

pytestmark = pytest.mark.usefixtures("no_fsync")


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
