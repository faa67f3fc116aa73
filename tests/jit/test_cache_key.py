# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keys: no two different sets of ingredients share a digest, and a difference can be named."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hipdnn_iree.jit.cache import (
    SCHEMA,
    CacheKey,
    explain_difference,
    installation,
    source_digest,
    versions,
)
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]

# The second kind lies about the length beyond which only a digest is shown.
texts = st.text(max_size=8) | st.integers(198, 203).map("x".__mul__)
values = texts | st.binary(max_size=8) | st.lists(texts, max_size=4).map(tuple)
mappings = st.dictionaries(st.text(min_size=1, max_size=5), values, min_size=1, max_size=5)


def independent_digest(ingredients: dict[str, str | bytes | tuple[str, ...]]) -> str:
    """The encoding written down a second time, as one byte string."""

    def sized(data: bytes) -> bytes:
        return len(data).to_bytes(8, "little") + data

    def utf8(text: str) -> bytes:
        return text.encode("utf-8", "surrogatepass")

    out = b"hipdnn-iree cache key\0" + SCHEMA.to_bytes(8, "little")
    out += len(ingredients).to_bytes(8, "little")
    for label, value in sorted(ingredients.items(), key=lambda item: utf8(item[0])):
        out += sized(utf8(label))
        if isinstance(value, str):
            out += b"s" + sized(utf8(value))
        elif isinstance(value, bytes):
            out += b"b" + sized(value)
        else:
            out += b"t" + len(value).to_bytes(8, "little")
            out += b"".join(sized(utf8(part)) for part in value)
    return hashlib.sha256(out).hexdigest()


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({"x": "a"}, {"x": b"a"}),
        ({"x": "a"}, {"x": ("a",)}),
        ({"x": ""}, {"x": ()}),
        ({"x": ""}, {"x": b""}),
        ({"x": ()}, {"x": ("",)}),
        ({"x": ("",)}, {"x": ("", "")}),
        ({"x": ("ab", "c")}, {"x": ("a", "bc")}),
        ({"x": ("a b",)}, {"x": ("a", "b")}),
        ({"x": ("a", "b")}, {"x": ("b", "a")}),
        ({"x": ("a", "a")}, {"x": ("a",)}),
        ({"x": "ab"}, {"xa": "b"}),
        ({"x": "1", "y": "2"}, {"x": "2", "y": "1"}),
        ({"x": "1", "y": ""}, {"x": "1"}),
        ({"x": "1y", "z": ""}, {"x": "1", "yz": ""}),
        ({"x": "a\0"}, {"x": "a"}),
        ({"x": "é"}, {"x": "e\u0301"}),
        ({"x": "a" * 201}, {"x": "a" * 202}),
        # What a long text, long list or byte string is shown as is not that thing itself.
        ({"x": "a" * 201}, {"x": CacheKey({"x": "a" * 201}).ingredients["x"]}),
        ({"x": b"ab"}, {"x": CacheKey({"x": b"ab"}).ingredients["x"]}),
        ({"x": ("a",) * 300}, {"x": CacheKey({"x": ("a",) * 300}).ingredients["x"]}),
        ({"x": ("a" * 300,)}, {"x": CacheKey({"x": ("a" * 300,)}).ingredients["x"]}),
    ],
)
def test_key_ambiguous_looking_pairs_differ(a, b) -> None:
    key_a, key_b = CacheKey(a), CacheKey(b)
    assert key_a.digest != key_b.digest
    assert key_a != key_b
    assert key_a.ingredients != key_b.ingredients
    assert explain_difference(key_a, key_b)


@given(mappings, mappings)
def test_key_same_digest_exactly_for_same_ingredients(a, b) -> None:
    same = a == b
    assert (CacheKey(a).digest == CacheKey(b).digest) is same
    assert (CacheKey(a).ingredients == CacheKey(b).ingredients) is same
    assert (explain_difference(CacheKey(a), CacheKey(b)) == ()) is same


@given(mappings, st.data())
def test_key_one_changed_ingredient_is_found_and_named(a, data) -> None:
    label = data.draw(st.sampled_from(sorted(a)))
    other = data.draw(values.filter(lambda value: value != a[label]))
    changed = CacheKey({**a, label: other})
    assert changed.digest != CacheKey(a).digest
    assert [d.label for d in explain_difference(CacheKey(a), changed)] == [label]
    without = {name: value for name, value in a.items() if name != label}
    if without:
        (lost,) = explain_difference(CacheKey(a), CacheKey(without))
        assert (lost.label, lost.b) == (label, None)
        assert str(lost)


@given(mappings)
def test_key_digest_is_the_documented_encoding_in_any_order(a) -> None:
    backwards = dict(reversed(a.items()))
    assert CacheKey(a).digest == CacheKey(backwards).digest == independent_digest(a)
    assert CacheKey(a) == CacheKey(backwards)
    assert hash(CacheKey(a)) == hash(CacheKey(backwards))


def test_key_does_not_depend_on_the_hash_seed() -> None:
    code = (
        "from hipdnn_iree.jit.cache import CacheKey;"
        "print(CacheKey({'b': 'x', 'a': ('1', '2'), 'c': b'z'}).digest)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {CacheKey({"a": ("1", "2"), "b": "x", "c": b"z"}).digest}


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ({}, ValueError),
        ({"": "x"}, ValueError),
        ({1: "x"}, TypeError),
        ({"x": 1}, TypeError),
        ({"x": None}, TypeError),
        ({"x": True}, TypeError),
        ({"x": ["a"]}, TypeError),
        ({"x": ("a", 1)}, TypeError),
        ({"x": ("a", b"b")}, TypeError),
        ({"x": bytearray(b"a")}, TypeError),
    ],
)
def test_key_refuses_what_it_cannot_encode(bad, error) -> None:
    with pytest.raises(error):
        CacheKey(bad)


def test_key_cannot_be_changed_and_pickles() -> None:
    key = CacheKey({"x": "1", "y": ("a", "b")})
    with pytest.raises(AttributeError):
        key.digest = "0"  # type: ignore[misc]
    with pytest.raises(TypeError):
        key.ingredients["x"] = "2"  # type: ignore[index]
    again = pickle.loads(pickle.dumps(key))
    assert again == key
    assert again.ingredients == key.ingredients


def test_key_readable_form_shows_short_values_and_digests_long_ones() -> None:
    key = CacheKey({"target": "gfx942", "flags": ("-a", "-b"), "ir": "m" * 1000, "blob": b"z"})
    assert key.ingredients["target"] == "gfx942"
    assert key.ingredients["flags"] == ("-a", "-b")
    plain = hashlib.sha256(b"m" * 1000).hexdigest()
    assert key.ingredients["ir"] == f"sha256:{plain} (text, 1000)"
    assert key.ingredients["blob"] == f"sha256:{hashlib.sha256(b'z').hexdigest()} (bytes, 1)"


def test_difference_texts_name_what_changed() -> None:
    a = CacheKey({"flags": ("-a", "-b"), "target": "cpu", "old": "1", "same": "s"})
    b = CacheKey({"flags": ("-a", "-c"), "target": "gfx942", "new": ("2",), "same": "s"})
    found = {d.label: d for d in explain_difference(a, b)}
    assert list(found) == ["flags", "target", "old", "new"]
    assert str(found["flags"]) == "flags: without ['-b']; with ['-c']"
    assert str(found["target"]) == "target: 'cpu' -> 'gfx942'"
    assert str(found["old"]) == "old: only in the first, '1'"
    assert str(found["new"]) == "new: only in the second, ['2']"
    assert found["flags"].as_dict() == {"label": "flags", "a": ["-a", "-b"], "b": ["-a", "-c"]}
    (order,) = explain_difference(CacheKey({"f": ("a", "b")}), CacheKey({"f": ("b", "a")}))
    assert "order" in str(order)


def package(folder: Path, **files: str) -> list[Path]:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return [folder / f"{name}.py" for name in files]


def test_source_digest_follows_contents_and_names_but_not_place_or_order(tmp_path) -> None:
    one = source_digest(package(tmp_path / "one", a="1", b="2"))
    assert source_digest(reversed(package(tmp_path / "two", a="1", b="2"))) == one
    assert source_digest(package(tmp_path / "three", a="1", b="3")) != one
    assert source_digest(package(tmp_path / "four", a="1", c="2")) != one
    assert source_digest(package(tmp_path / "five", a="12", b="")) != one
    assert source_digest(package(tmp_path / "six", a="1")) != one
    nested = package(tmp_path / "seven", a="1") + package(tmp_path / "seven/sub", b="2")
    assert source_digest(nested) != one


def test_source_digest_is_remembered_and_refuses_nothing_to_read(tmp_path) -> None:
    files = package(tmp_path / "p", a="1")
    first = source_digest(files)
    files[0].write_text("changed: but the code of this process is the old one")
    assert source_digest(files) == first
    with pytest.raises(ValueError, match="no source files"):
        source_digest([])
    with pytest.raises(FileNotFoundError):
        source_digest([tmp_path / "none.py"])


def test_versions_are_those_of_the_metadata() -> None:
    found = versions()
    assert list(found) == ["iree-base-compiler", "iree-base-runtime", "torch-mlir"]
    for package_name, version in found.items():
        try:
            wanted = importlib.metadata.version(package_name)
        except importlib.metadata.PackageNotFoundError:
            continue
        assert version == wanted


def test_versions_import_nothing() -> None:
    code = (
        "import sys\n"
        "from hipdnn_iree.jit.cache import versions\n"
        "versions()\n"
        "heavy = ('iree', 'torch_mlir', 'numpy', 'importlib.metadata', 'logging')\n"
        "print(*(m for m in heavy if m in sys.modules))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not found.stdout.split()


def test_versions_of_absent_half_upgraded_and_source_built_packages(tmp_path, monkeypatch) -> None:
    built, installed = tmp_path / "built", tmp_path / "installed"
    libraries = built / "iree/compiler/_mlir_libs"
    libraries.mkdir(parents=True)
    (libraries / "libIREECompiler.so").write_bytes(b"1")
    for name in (
        "iree_base_compiler-3.13.0.dist-info",
        "Iree.Base_Runtime-3.12.0.dist-info",
        "iree_base_runtime-3.13.0rc1.dist-info",
    ):
        (installed / name).mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "gone"), str(built), str(installed)])
    first = versions()
    assert first["iree-base-compiler"].startswith("unversioned-")
    assert first["iree-base-runtime"] == "3.12.0|3.13.0rc1"
    assert first["torch-mlir"] == "absent"
    (libraries / "libIREECompiler.so").write_bytes(b"22")
    installation._versions.cache_clear()
    assert versions()["iree-base-compiler"] not in (first["iree-base-compiler"], "absent")
    monkeypatch.setattr(sys, "path", [str(installed), str(built)])
    assert versions()["iree-base-compiler"] == "3.13.0"
