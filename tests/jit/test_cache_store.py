# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The store in one process: round trips, and why something is not in it."""

from __future__ import annotations

import json
import os
import shutil
import zipfile

import pytest
from cache_entries import MANIFEST, file_of, files, key, warnings
from hipdnn_iree.jit.cache import CacheKey, CacheStore, Entry, explain_miss

pytestmark = pytest.mark.usefixtures("no_fsync")


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
        assert entry.path == file_of(store, key())
    with zipfile.ZipFile(file_of(store, key())) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["manifest.json", *files()]
        assert archive.read("module.vmfb") == files()["module.vmfb"]
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
    assert entry.changed_files(files()) == ()
    other = {"module.vmfb": b"", "extra": b"", "module.mlir": files()["module.mlir"]}
    assert entry.changed_files(other) == ("module.vmfb", "extra")


def test_entry_outlives_its_files(store) -> None:
    store.put(key(), files(), MANIFEST)
    entry = store.get(key())
    assert entry is not None
    path = entry.path
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
    assert os.listdir(store.root / "v2/tmp") == []


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
    assert made.path is None
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
    assert (tmp_path / "cache/v2").is_dir()


def test_entries_hold_no_absolute_paths_and_may_be_moved(store, tmp_path) -> None:
    store.put(key(), files(), MANIFEST)
    assert str(tmp_path).encode() not in file_of(store, key()).read_bytes()
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
    assert os.listdir(store.root / "v2/locks") == []
    assert (store.info().hits, store.info().misses) == (1, 2)


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
    store.put(far, files(), MANIFEST)
    miss = explain_miss(store, wanted)
    assert (miss.reason, miss.nearest, miss.differences) == ("other target", "", ())
    assert "nothing was compiled of this graph for this target yet (for cpu only)" in str(miss)
    store.put(near, files(), MANIFEST)
    miss = explain_miss(store, wanted)
    assert (miss.reason, miss.nearest) == ("differs", near.digest)
    assert [difference.label for difference in miss.differences] == ["flags"]
    assert "flags: without ['-c']; with ['-b']" in str(miss)
    assert json.loads(json.dumps(miss.as_dict()))["differences"][0]["b"] == ["-a", "-b"]
    store.put(wanted, files(), MANIFEST)
    assert explain_miss(store, wanted).reason == "found"


def test_of_texts_of_several_lines_those_that_changed_are_told(store) -> None:
    plan = "node n0: direct\nnode n1: packed\nflags: -x"
    store.put(CacheKey({"graph": "g", "plan": plan}), files(), MANIFEST)
    miss = explain_miss(store, CacheKey({"graph": "g", "plan": plan.replace("packed", "plain")}))
    assert str(miss).splitlines()[1:] == [
        "  plan: without ['node n1: packed']; with ['node n1: plain']"
    ]


def test_explain_miss_passes_over_damaged_entries(store) -> None:
    store.put(key(0, target="cpu"), files(), MANIFEST)
    file_of(store, key(0, target="cpu")).write_bytes(b"")
    assert explain_miss(store, key(0)).reason == "empty"


def test_an_entry_goes_to_another_cache(store, tmp_path, caplog) -> None:
    assert store.export(key().digest) is None
    made = store.put(key(), files(), MANIFEST)
    assert store.made == [key().digest]
    data = store.export(key().digest)
    other = CacheStore(tmp_path / "other")
    assert other.adopt(data)
    assert other.made == [key().digest]
    got = other.get(key())
    assert got is not None
    assert got.changed_files(files()) == ()
    assert (got.manifest, got.ingredients) == (made.manifest, made.ingredients)
    assert not CacheStore(tmp_path / "third").adopt(data[:-7])
    assert "damaged" in warnings(caplog)[0]
