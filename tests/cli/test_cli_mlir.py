# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""MLIR files as inputs of compile, run and show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph, precompile
from hipdnn_iree.jit import pipeline
from hipdnn_iree.jit.mlir_source import MlirSource
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.stages import STAGES, Stage
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.cli import run as run_module
from hipdnn_iree.provider.mlir_plan import build_module
from under_settings import build, default_compiler

Cli = Callable[..., Any]
CPU = Target.parse("cpu")

LINALG = """
#map = affine_map<(d0, d1) -> (d0, d1)>
func.func @anything(%a: tensor<4x8xf32>, %b: tensor<8x3xf32>)
    -> (tensor<4x3xf32>, tensor<4x3xi32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x3xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x3xf32>) -> tensor<4x3xf32>
  %c = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x3xf32>)
         outs(%filled : tensor<4x3xf32>) -> tensor<4x3xf32>
  %i = tensor.empty() : tensor<4x3xi32>
  %n = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
         ins(%c : tensor<4x3xf32>) outs(%i : tensor<4x3xi32>) {
  ^bb0(%x: f32, %y: i32):
    %r = arith.fptosi %x : f32 to i32
    linalg.yield %r : i32
  } -> tensor<4x3xi32>
  return %c, %n : tensor<4x3xf32>, tensor<4x3xi32>
}
"""

V = "!torch.vtensor<[4,8],f32>"
TORCH = f"""
module {{
  func.func @f(%a: {V}, %b: {V}) -> {V} {{
    %one = torch.constant.int 1
    %s = torch.aten.add.Tensor %a, %b, %one : {V}, {V}, !torch.int -> {V}
    %y = torch.aten.relu %s : {V} -> {V}
    return %y : {V}
  }}
}}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "linalg.mlir").write_text(LINALG)
    (tmp_path / "torch.mlir").write_text(TORCH)
    return tmp_path


def arrays(path: Path, *shapes: tuple[int, ...]) -> list[Any]:
    random = np.random.default_rng(7)
    made = [(8 * random.standard_normal(shape)).astype(np.float32) for shape in shapes]
    np.savez(path, **{f"arg{i}": array for i, array in enumerate(made)})
    return made


def saved(path: Path) -> dict[str, Any]:
    with np.load(path) as archive:
        return dict(archive)


def test_linalg_is_run(cli: Cli, files: Path) -> None:
    a, b = arrays(files / "x.npz", (4, 8), (8, 3))
    words = ("--inputs", files / "x.npz", "--outputs", files / "y.npz", "--repeat", 2)
    found = cli("run", files / "linalg.mlir", *words, "--json")
    assert found.code == 0, found.err
    about = found.json()
    assert set(about) == set(run_module.JSON)
    assert about["graph"]["nodes"] == 0
    assert [o["data_type"] for o in about["outputs"]] == ["float", "int32"]
    assert about["verified"] is None
    results = saved(files / "y.npz")
    np.testing.assert_allclose(results["out0"], a @ b, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(results["out1"], np.trunc(results["out0"]))
    assert "a module has no reference" in cli("run", files / "linalg.mlir").out


def test_torch_is_run_from_standard_input(cli: Cli, files: Path) -> None:
    a, b = arrays(files / "x.npz", (4, 8), (4, 8))
    words = ("--inputs", files / "x.npz", "--outputs", files / "y.npz")
    found = cli("run", "-", *words, stdin=TORCH)
    assert found.code == 0, found.err
    np.testing.assert_array_equal(saved(files / "y.npz")["out0"], np.maximum(a + b, 0))


def test_what_show_writes_of_tiles_is_compiled(cli: Cli, tmp_path: Path) -> None:
    """Torch-mlir knows neither the barriers around what has its own tiles nor their attributes."""
    graph = Graph("tiled", io_data_type="float")
    x, w = graph.tensor(dims=(2, 64, 14, 14)), graph.tensor(dims=(64, 64, 3, 3))
    graph.conv_fprop(x, w, padding=1).set_output()
    graph.save(tmp_path / "tiled.json")
    path = tmp_path / "tiled.mlir"
    words = ("--format", "torch", "--target", "cpu:znver3")
    assert cli("show", tmp_path / "tiled.json", *words, "-o", path).code == 0
    assert "iree_tensor_ext.compute_barrier" in path.read_text()
    found = cli("compile", path, "--target", "cpu")
    assert found.code == 0, found.err


def test_ops_that_nobody_knows_are_named(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "unknown.mlir"
    inner = '%0 = "nobody.knows"(%x) : (tensor<4xf32>) -> tensor<4xf32>'
    outer = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32>"
    path.write_text(f"{outer} {{ {inner} return %0 : tensor<4xf32> }}")
    found = cli("compile", path, "--target", "cpu")
    assert found.code == 2
    assert "[MLIR-01] got nobody.knows" in found.err


def test_what_show_writes_is_compiled_and_run(cli: Cli, graphs: Path, tmp_path: Path) -> None:
    for form, again in (("torch", "torch"), ("linalg", "linalg")):
        path = tmp_path / f"{form}.mlir"
        assert cli("show", graphs / "conv.json", "--format", form, "-o", path).code == 0
        found = cli("compile", path, "--from", again, "--target", "cpu,gfx942", "--json")
        assert found.code == 0, found.err
        assert [t["cache"] for t in found.json()["targets"]] == ["miss", "miss"]
        assert cli("compile", path, "--target", "gfx942", "--json").json()["summary"]["hits"] == 1
        assert cli("run", path).code == 0


def test_dump_writes_the_stages(cli: Cli, files: Path) -> None:
    folder = files / "stages"
    found = cli("compile", files / "linalg.mlir", "--target", "gfx942", "--dump", folder)
    assert found.code == 0, found.err
    names = {path.name for path in folder.iterdir()}
    assert {"module.torch.mlir", "module.vmfb", "flags.txt", "statistics.json"} < names
    assert "graph.json" not in names
    assert "torch.overwrite" in (folder / "module.torch.mlir").read_text()


def test_show(cli: Cli, files: Path) -> None:
    path = files / "torch.mlir"
    assert "arg1  float [4, 8]" in cli("show", path).out
    about = cli("show", path, "--json").json()
    assert (about["from"], list(about["arguments"])) == ("torch", ["out0", "arg0", "arg1"])
    assert "linalg.generic" in cli("show", path, "--format", "linalg").out
    assert cli("show", path, "--format", "digest").out.strip() == about["digest"]
    refused = cli("show", path, "--format", "dot")
    assert refused.code == 2
    assert "is an MLIR module" in refused.err


@pytest.mark.parametrize(
    ("text", "rule", "said"),
    [
        ("module {\n  func.func @f( {", "MLIR-01", "line 2, column 16"),
        (TORCH.replace("%s :", "%z :"), "MLIR-01", "line 6, column 26: use of undeclared"),
        (TORCH.replace("aten.relu", "aten.nosuch"), "MLIR-01", "line 6"),
        ("module {}", "MLIR-02", "no function"),
        (TORCH + TORCH.replace("module", "// module"), "MLIR-01", "line"),
        (TORCH.replace("f32", "f4E2M1FN"), "MLIR-03", "f4E2M1FN"),
        (TORCH.replace("[4,8]", "[?,8]"), "MLIR-03", "vtensor<[?,8],f32>"),
        ("func.func private @f(i32) -> i32\n", "MLIR-02", "no function"),
        ("func.func @f(%a: i32) -> i32 { return %a : i32 }", "MLIR-03", "i32"),
    ],
)
def test_what_cannot_be_compiled(cli: Cli, files: Path, text: str, rule: str, said: str) -> None:
    (files / "bad.mlir").write_text(text)
    found = cli("run", files / "bad.mlir", "--json")
    assert found.code == 2
    error = found.json()["error"]
    assert error["code"] == "E200"
    assert [p["rule"] for p in error["problems"]][:1] == [rule], error
    assert said in str(error["problems"])


def test_from_must_be_what_the_file_is(cli: Cli, files: Path, graphs: Path) -> None:
    for path, form, rule in (
        (files / "linalg.mlir", "torch", "MLIR-04"),
        (files / "torch.mlir", "graph", "FILE-04"),
        (graphs / "add.json", "linalg", "MLIR-01"),
    ):
        found = cli("compile", path, "--from", form, "--target", "cpu")
        assert found.code == 2
        assert f"[{rule}]" in found.err


def test_a_compile_error_names_line_and_column(cli: Cli, files: Path) -> None:
    # An op that torch-mlir reads and no conversion knows.
    call = f'torch.operator "torch.aten.no_such"(%s) : ({V}) -> {V}'
    (files / "odd.mlir").write_text(TORCH.replace(f"torch.aten.relu %s : {V} -> {V}", call))
    found = cli("compile", files / "odd.mlir", "--target", "cpu")
    assert found.code == 4
    assert "line 6, column 10: the compiler has no lowering for 'torch.aten.no_such'" in found.err


@pytest.mark.parametrize(
    "words",
    [
        ("--verify",),
        ("--engine", "iree"),
        ("--knob", "opt_level=O1"),
        ("--shape", "n=3"),
        ("--exact",),
        ("--buckets", "powers"),
    ],
)
def test_options_that_need_a_graph(cli: Cli, files: Path, words: tuple[str, ...]) -> None:
    found = cli("run", files / "torch.mlir", *words)
    assert found.code == 2
    assert f"{words[0]}: for graphs" in found.err


def test_other_commands_need_a_graph(cli: Cli, files: Path) -> None:
    for command in ("explain", "inspect", "tune"):
        found = cli(command, files / "torch.mlir")
        assert found.code == 2, command
        assert "[FILE-04]" in found.err


def test_python() -> None:
    source = MlirSource.read(TORCH.encode(), default_compiler(), name="mine")
    (made,) = precompile([source], "gfx90a")
    assert made.error is None
    assert made.name == "mine"
    plan = build_module(source, CPU, settings())
    ones = np.ones((4, 8), np.float32)
    np.testing.assert_array_equal(plan.run({1: ones, 2: -3 * ones})[0], 0 * ones)
    other = MlirSource.read(TORCH.replace("relu", "tanh").encode(), default_compiler(), name="mine")
    keys = {pipeline.cache_key(s, CPU, build().code) for s in (source, other)}
    assert len(keys) == 2


def test_a_stage_can_be_replaced(own_cache: Path) -> None:
    source = MlirSource.read(TORCH.encode(), default_compiler(), name="mine")
    seen: list[str] = []

    def watched(job: Any) -> Any:
        seen.append(job.made["torch"])
        return STAGES["vmfb"].make(job)

    stages = {**STAGES, "vmfb": Stage("module.vmfb", "compile", watched, STAGES["vmfb"].write)}
    assert pipeline.compile_source(source, CPU, build(), stages=stages).cache == "miss"
    assert seen == [source.text]
