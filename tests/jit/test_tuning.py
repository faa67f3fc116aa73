# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tuning specs: which file holds for a target, what is in the key, what a bad one says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.errors import SettingError
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.jit.inspect.config import read_configs
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.jit.target import GFX9_SKUS
from under_settings import (
    cache_key,
    compile_source,
    dump,
    flags,
    inspect_graph,
    key_ingredients,
    spec_for,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    for name in ("gfx942", "mi300x", "mi100"):
        (tmp_path / f"{name}.mlir").write_text(f"// {name}\n")
    with scope(compiler_tuning_dir=tmp_path):
        yield tmp_path


def product() -> FrozenGraph:
    graph = Graph("product", io_data_type="half", compute_data_type="float")
    a, b = graph.tensor(dims=(256, 256)), graph.tensor(dims=(256, 256))
    graph.matmul(a, b, name="product").set_output()
    return graph.freeze()


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("mi300x", "mi300x.mlir"),
        ("mi300x:xnack-", "mi300x.mlir"),
        ("mi325x", "gfx942.mlir"),
        ("gfx942", "gfx942.mlir"),
        ("mi100", "mi100.mlir"),
        ("gfx908", None),  # a product's tiles are not those of its architecture
        ("mi250x", None),
        ("cpu", None),
        ("cuda:sm_80", None),
    ],
)
def test_a_product_goes_before_its_architecture(
    folder: Path, target: str, name: str | None
) -> None:
    found = spec_for(Target.parse(target))
    assert found == (folder / name if name else None)
    told = [f for f in flags(product(), Target.parse(target)) if "tuning-spec" in f]
    assert told == ([f"--iree-codegen-tuning-spec-path={found}"] if found else [])


def test_a_named_file_goes_before_the_folder(folder: Path, tmp_path: Path) -> None:
    with scope(compiler_tuning_spec=tmp_path / "mine.mlir", compiler_tuning_dir=folder):
        for target in ("cpu", "mi300x"):
            assert spec_for(Target.parse(target)) == tmp_path / "mine.mlir"


def test_the_key_holds_the_content_of_what_concerns_the_target(
    folder: Path, tmp_path: Path
) -> None:
    graph, targets = product(), [Target.parse(t) for t in ("gfx942", "mi300x", "gfx90a")]

    def keys() -> list[str]:
        return [cache_key(graph, target).digest for target in targets]

    before = keys()
    with scope(compiler_tuning_dir=None):
        assert cache_key(graph, targets[2]).digest == before[2]  # there is none for gfx90a
        assert cache_key(graph, targets[0]).digest != before[0]
    (folder / "gfx942.mlir").write_text("// changed\n")
    after = keys()
    assert [a == b for a, b in zip(before, after, strict=True)] == [False, True, True]
    # The same content from another place is the same code.
    other = tmp_path / "other.mlir"
    other.write_text("// changed\n")
    with scope(compiler_tuning_spec=other, compiler_tuning_dir=None):
        assert cache_key(graph, targets[0]).digest == after[0]
    # What was chosen among measured engines depends on all of them.
    told = key_ingredients()["compiler.tuning_dir"]
    (folder / "mi100.mlir").write_text("// changed\n")
    assert key_ingredients()["compiler.tuning_dir"] != told


def test_the_example_of_the_documentation_picks_the_tiles(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "tuning.md").read_text()
    (example,) = re.findall(r"```mlir\n(.*?)```", text, re.DOTALL)
    (tmp_path / "gfx942.mlir").write_text(example)
    with scope(compiler_tuning_dir=tmp_path):
        dump(product(), Target.parse("mi300x"), tmp_path / "dump")
        inspected = inspect_graph(product(), Target.parse("gfx942"), tmp_path / "inspected")
    (config,) = read_configs(tmp_path / "dump").values()
    assert config.lowering["workgroup"] == "[64, 64, 0]"
    assert config.workgroup_size == (256, 1, 1)
    assert inspected.dispatches[0].config == config
    # IREE's library keeps the spec for what it compiles next in the same process; ours must not.
    dump(product(), Target.parse("gfx942"), tmp_path / "next")
    (after,) = read_configs(tmp_path / "next").values()
    assert after.lowering["workgroup"] != "[64, 64, 0]"


@pytest.mark.parametrize("text", ["module { nonsense }", "module { func.func private @f() }"])
def test_a_bad_spec_is_named_not_the_graph(tmp_path: Path, text: str) -> None:
    spec = tmp_path / "mi300x.mlir"
    spec.write_text(text)
    with (
        scope(compiler_tuning_dir=tmp_path, reproducers_keep=0),
        pytest.raises(SettingError, match=rf"tuning spec '{re.escape(str(spec))}'") as caught,
    ):
        compile_source(product(), Target.parse("mi300x"))
    assert "product" not in str(caught.value)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with (
        scope(compiler_tuning_spec=tmp_path / "gone.mlir"),
        pytest.raises(SettingError, match=r"gone\.mlir.*HIPDNN_IREE_TUNING_SPEC.*No such file"),
    ):
        cache_key(product(), Target.parse("gfx942"))
    with (
        scope(compiler_tuning_dir=tmp_path / "gone"),
        pytest.raises(SettingError, match=r"HIPDNN_IREE_TUNING_DIR is .*gone.*no folder"),
    ):
        cache_key(product(), Target.parse("gfx942"))
    with (
        scope(compiler_tuning_dir=tmp_path / "gone"),
        pytest.raises(SettingError, match="HIPDNN_IREE_TUNING_DIR"),
    ):
        key_ingredients()


def test_files_can_be_named_for_every_product() -> None:
    assert all(Target.parse(sku).sku == sku for sku in GFX9_SKUS)
