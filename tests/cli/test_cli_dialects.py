# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree show --format`` linalg, tosa, stablehlo: what comes out, and what has no form."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.errors import CompileError
from hipdnn_iree.jit.emit.dialects import DIALECTS
from hipdnn_iree.jit.strategies import choose, portable
from under_settings import default_compiler

ZEN5 = Target.parse("cpu:znver5")
FOLDER = Path(__file__).resolve().parents[2] / "examples"
OPS = {"linalg": "linalg.generic", "tosa": "tosa.reduce_max", "stablehlo": "stablehlo.reduce"}


def test_every_dialect_is_tested() -> None:
    assert set(OPS) == set(DIALECTS)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_graph_in_another_dialect(dialect: str, cli: Callable[..., Any]) -> None:
    found = cli("show", FOLDER / "softmax.json", "--format", dialect)
    assert found.code == 0, found.err
    assert OPS[dialect] in found.out
    assert "torch." not in found.out
    # The output is a result here.
    head = "func.func @main(%arg0: tensor<64x1024xf16>) -> tensor<64x1024xf16>"
    assert head in found.out


def test_outputs_become_results_in_their_order(cli: Callable[..., Any], tmp_path: Path) -> None:
    """Also a tensor with strides, and one output that another is computed from."""
    graph = Graph(io_data_type="float")
    x = graph.tensor(dims=(2, 3, 4, 5), strides=(60, 1, 15, 3), name="x")
    w = graph.tensor(dims=(6, 3, 1, 1), name="w")
    y = graph.conv_fprop(x, w).set_output()
    graph.reduction(y, mode="add", axes=(0, 2, 3)).set_output()
    graph.save(tmp_path / "graph.json")
    found = cli("show", tmp_path / "graph.json", "--format", "linalg")
    assert found.code == 0, found.err
    (results,) = re.findall(r"-> \((.*?)\) \{", found.out)
    assert results == "tensor<2x4x5x6xf32>, tensor<1x6x1x1xf32>"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_cut_in_blocks_is_converted_as_one_op(
    dialect: str, cli: Callable[..., Any], tmp_path: Path
) -> None:
    """Blocks are linalg inside the Torch dialect, which torch-mlir does not convert."""
    graph = Graph(io_data_type="float")
    x, w = graph.tensor(dims=(4, 15, 4, 3), name="x"), graph.tensor(dims=(983, 15, 3, 3), name="w")
    graph.conv_fprop(x, w, padding=1).set_output()
    graph.matmul(graph.tensor(dims=(1, 1024)), graph.tensor(dims=(1024, 512))).set_output()
    graph.save(tmp_path / "graph.json")
    assert set(choose(graph.freeze(), ZEN5)) == {"blocked", "rows"}
    found = cli("show", tmp_path / "graph.json", "--format", dialect, "--target", "cpu:znver5")
    assert found.code == 0, found.err
    assert "conv" in found.out
    for wanted, got in (
        ((), {"conv_fprop=direct", "matmul=gemm"}),
        (("matmul=plain",), {"matmul=plain", "conv_fprop=direct"}),
        (("all=plain",), {"all=plain"}),
    ):
        assert set(portable(graph.freeze(), ZEN5, wanted)) == got


@pytest.mark.parametrize("dialect", DIALECTS)
def test_results_have_no_gaps(dialect: str, cli: Callable[..., Any], tmp_path: Path) -> None:
    graph = Graph(io_data_type="float")
    graph.relu(graph.tensor(dims=(3, 4), name="x")).set_output().set_stride((1, 5))
    graph.save(tmp_path / "graph.json")
    found = cli("show", tmp_path / "graph.json", "--format", dialect)
    assert found.code == 0, found.err
    assert "(%arg0: tensor<3x4xf32>) -> tensor<4x3xf32>" in found.out


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_cannot_be_converted(dialect: str, cli: Callable[..., Any], tmp_path: Path) -> None:
    graph = Graph("sums", io_data_type="float")
    x = graph.abs(graph.tensor(dims=(2, 3), name="x"), name="first")
    text = """
    func.func @f(%x: {IN0_TYPE}) -> {OUT0_TYPE} {
      %d = torch.constant.int 1
      %l = torch.prim.ListConstruct %d : (!torch.int) -> !torch.list<int>
      %f = torch.constant.bool false
      %y = torch.aten.logsumexp %x, %l, %f : {IN0_TYPE}, !torch.list<int>, !torch.bool
        -> {OUT0_TYPE}
      return %y : {OUT0_TYPE}
    }"""
    (y,) = graph.custom_op(mlir=text, inputs=[x], outputs=[((2,), "float")], name="lse")
    y.set_output()
    graph.save(tmp_path / "graph.json")
    found = cli("show", tmp_path / "graph.json", "--format", dialect, "--json")
    assert found.code == 2  # --json is a format of its own
    found = cli("show", tmp_path / "graph.json", "--format", dialect)
    assert found.code == 4
    assert found.out == ""
    assert f"cannot convert sums to {dialect}" in found.err
    assert "has no lowering for 'torch." in found.err


def test_a_crash_is_an_error() -> None:
    compiler = default_compiler()
    deep = b"module {" * 200_000 + b"}" * 200_000
    with pytest.raises(CompileError) as caught:
        compiler.perform("dialect", deep, {"dialect": "tosa"}, label="a graph")
    # Where the stack holds even that, it is refused as having no function.
    assert caught.value.stage == "crash"
    assert "a graph" in str(caught.value)
