# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Damaged entries of the store: each is noticed, is a miss, and is made again."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import zipfile
from pathlib import Path

import pytest
from cache_entries import MANIFEST, file_of, files, key, warnings
from hipdnn_iree.jit.cache import CacheStore
from hipdnn_iree.jit.cache.entry import DamagedEntryError, read_entry
from hipdnn_iree.jit.container import HEAD, Container, pack
from hipdnn_iree.jit.sealed import seal, unseal

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
PARTS = ["module.vmfb", "module.mlir", "manifest.json"]


def check_is_rebuilt(store: CacheStore, caplog) -> None:
    """The entry is a miss with one warning, is gone, and can be made anew."""
    caplog.clear()
    assert store.get(key()) is None
    (text,) = warnings(caplog)
    assert "damaged" in text
    assert str(file_of(store, key())) in text
    assert not file_of(store, key()).exists()
    assert os.listdir(store.root / "v2/tmp") == []
    caplog.clear()
    assert store.get(key()) is None
    store.put(key(), files(), MANIFEST)
    entry = store.get(key())
    assert entry is not None
    assert entry.read("module.vmfb") == files()["module.vmfb"]
    assert warnings(caplog) == []


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.__name__)
def test_damaged_file_is_a_miss_and_is_rebuilt(store, caplog, mutation) -> None:
    store.put(key(), files(), MANIFEST)
    path = file_of(store, key())
    path.write_bytes(mutation(path.read_bytes()))
    (finding,) = store.verify()
    assert finding.problem
    check_is_rebuilt(store, caplog)
    assert store.info().damaged == 1


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.__name__)
def test_damaged_part_is_named(store, caplog, name, mutation) -> None:
    """The frame of the file is right: it was packed anew around the damaged part."""
    store.put(key(), files(), MANIFEST)
    path = file_of(store, key())
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        part = archive.read(name)
    changed = mutation(part)
    if len(changed) == len(part):
        path.write_bytes(whole.replace(part, changed))
        (finding,) = store.verify()
        assert finding.file == name
    else:
        path.write_bytes(whole.replace(part, changed))
        assert len(store.verify()) == 1
    check_is_rebuilt(store, caplog)


@pytest.mark.parametrize("kind", ["folder", "dangling", "link", "pipe"])
def test_entry_that_is_no_file_is_a_miss_and_is_rebuilt(store, caplog, tmp_path, kind) -> None:
    store.put(key(), files(), MANIFEST)
    path = file_of(store, key())
    if kind == "link":
        shutil.copy(path, tmp_path / "real")
    path.unlink()
    if kind == "folder":
        path.mkdir()
        (path / "inner").write_bytes(b"x")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / ("real" if kind == "link" else "none"))
    check_is_rebuilt(store, caplog)


@pytest.mark.parametrize("kind", ["empty folder", "file"])
def test_entry_that_is_no_entry_is_a_miss_and_is_rebuilt(store, caplog, kind) -> None:
    store.put(key(), files(), MANIFEST)
    file_of(store, key()).unlink()
    if kind == "file":
        file_of(store, key()).write_bytes(b"x")
    else:
        file_of(store, key()).mkdir()
    assert len(store.verify()) == 1
    check_is_rebuilt(store, caplog)


def test_put_replaces_a_damaged_entry(store, caplog) -> None:
    store.put(key(), files(), MANIFEST)
    file_of(store, key()).write_bytes(b"PK")
    made = store.put(key(), files(), {"by": "second"})
    assert made.path is not None
    assert len(warnings(caplog)) == 1
    entry = store.get(key())
    assert entry is not None
    assert entry.manifest == {"by": "second"}


def reseal(path: Path, **changes: object) -> None:
    """Change a manifest the way a program would, with a seal and a frame that fit."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    body = {**unseal(parts.pop("manifest.json")), **changes}
    listed = body.pop("parts")
    whole = pack({k: v for k, v in body.items() if v is not None}, parts)
    if "parts" in changes:  # `pack` lists them as they are
        container = Container(whole)
        sealed = seal({**container.body, "parts": listed})
        length = len(seal(container.body))
        whole = whole[:18] + len(sealed).to_bytes(4, "little") * 2 + whole[26:HEAD] + sealed
        whole += bytes(-len(whole) % 64) + path.read_bytes()[HEAD + length :]
    path.write_bytes(whole)


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": 1},
        {"format": "hipdnn-iree artifact"},
        {"schema": None},
        {"digest": "0" * 64},
        {"digest": None},
        {"key": {"graph": "g1", "flags": ["-a", "-b"], "ir": "m"}},
        {"key": {}},
        {"key": None},
        {"key": [1]},
        {"parts": None},
        {"parts": {"module.vmfb": {"size": "3000"}}},
        {"parts": {"module.vmfb": {"size": 10**30, "sha256": ""}}},
        {"parts": {"../../../x": {"size": 0, "sha256": hashlib.sha256(b"").hexdigest()}}},
        {"parts": {"manifest.json": {"size": 0, "sha256": hashlib.sha256(b"").hexdigest()}}},
        {"parts": 7},
        {"created": "yesterday"},
        {"manifest": None},
        {"manifest": [1]},
    ],
    ids=str,
)
def test_manifest_with_wrong_contents_is_a_miss_and_is_rebuilt(store, caplog, changes) -> None:
    store.put(key(), files(), MANIFEST)
    reseal(file_of(store, key()), **changes)
    check_is_rebuilt(store, caplog)


def test_resealed_but_unchanged_manifest_is_sound(store) -> None:
    store.put(key(), files(), MANIFEST)
    reseal(file_of(store, key()))
    assert store.get(key()) is not None  # else the test above proves nothing


def test_entry_under_the_wrong_digest_is_a_miss(store, caplog) -> None:
    store.put(key(1), files(1), MANIFEST)
    file_of(store, key()).parent.mkdir(exist_ok=True)
    file_of(store, key(1)).rename(file_of(store, key()))
    check_is_rebuilt(store, caplog)


def test_every_single_flipped_byte_is_noticed(store) -> None:
    store.put(key(), files(size=300), MANIFEST)
    path = file_of(store, key())
    good = path.read_bytes()
    with open(path, "r+b", buffering=0) as file:
        for at, byte in enumerate(good):
            os.pwrite(file.fileno(), bytes([byte ^ 1 << (at % 8)]), at)
            with pytest.raises(DamagedEntryError):
                read_entry(path, key())
            os.pwrite(file.fileno(), bytes([byte]), at)
    assert len(good) > 1000
    assert read_entry(path, key())[0].read("module.vmfb") == files(size=300)["module.vmfb"]


def test_verify_finds_repairs_and_leaves_the_sound(store) -> None:
    for number in range(6):
        store.put(key(number), files(number), MANIFEST)
    assert store.verify() == []
    whole = file_of(store, key(1)).read_bytes()
    part = files(1)["module.vmfb"]
    file_of(store, key(1)).write_bytes(whole.replace(part, part[:-1] + b"!"))
    file_of(store, key(3)).write_bytes(b"")
    file_of(store, key(4)).write_bytes(file_of(store, key(4)).read_bytes() + b"x")
    found = {finding.digest: finding for finding in store.verify()}
    assert set(found) == {key(number).digest for number in (1, 3, 4)}
    assert found[key(1).digest].file == "module.vmfb"
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
