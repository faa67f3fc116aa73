# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each rule by which an op, a region or a module is left as it is, with its reason."""

from __future__ import annotations

import numpy as np
import pytest
from hipdnn_iree.graph_api.errors import BindError, FormatError, NotSupportedError
from hipdnn_iree.provider.offload import module, offload, outline
from torch_text import Module

CONV = (None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)


def declined(text: str, **options: object) -> list[tuple[str, str, str]]:
    found = outline(text, **options)  # type: ignore[arg-type]
    return [(one.op, one.rule, one.reason) for one in found.declined]


def test_an_op_without_a_form() -> None:
    m = Module()
    x = m.argument(4, 8)
    y = m.op("aten.relu", [x], 4, 8)
    z = m.op("aten.triu", [y, 0], 4, 8, location="the_node")
    found = outline(m.text(z))
    ((remark,), (region,)) = found.declined, found.regions
    assert (remark.op, remark.rule, remark.location) == ("aten.triu", "ATEN-01", "the_node")
    assert "wanted" in remark.reason
    assert region.ops == ("aten.relu",)
    assert remark.as_dict()["node"] == "the_node"


def test_dims_that_are_not_static() -> None:
    text = """func.func @main(%x: !torch.vtensor<[?,4],f32>) -> !torch.vtensor<[?,4],f32> {
      %y = torch.aten.relu %x : !torch.vtensor<[?,4],f32> -> !torch.vtensor<[?,4],f32>
      return %y : !torch.vtensor<[?,4],f32>
    }"""
    ((op, rule, reason),) = declined(text)
    assert (op, rule) == ("aten.relu", "ATEN-02")
    assert "[?,4]" in reason


def test_an_operand_that_is_known_at_run_time_only() -> None:
    text = """func.func @main(%x: !torch.vtensor<[2,4],f32>, %d: !torch.int)
        -> !torch.vtensor<[2,4],f32> {
      %none = torch.constant.none
      %y = torch.aten.softmax.int %x, %d, %none :
        !torch.vtensor<[2,4],f32>, !torch.int, !torch.none -> !torch.vtensor<[2,4],f32>
      return %y : !torch.vtensor<[2,4],f32>
    }"""
    ((op, rule, reason),) = declined(text)
    assert (op, rule) == ("aten.softmax.int", "ATEN-03")
    assert reason.startswith("dim: ")


@pytest.mark.parametrize(
    ("operands", "port"),
    [
        ((None, [1, 1], [0, 0], [1, 1], False, [0, 0], 2), "groups"),
        ((None, [1, 1], [0, 0], [1, 1], False, [1, 0], 1), "output_padding"),
        ((None, [1, 1, 1], [0, 0], [1, 1], False, [0, 0], 1), "stride"),
    ],
)
def test_a_value_that_is_not_honoured(operands: tuple[object, ...], port: str) -> None:
    m = Module()
    x, w = m.argument(1, 3, 8, 8), m.argument(4, 3, 3, 3)
    y = m.op("aten.convolution", [x, w, *operands], 1, 4, 6, 6)
    ((op, rule, reason),) = declined(m.text(y))
    assert (op, rule) == ("aten.convolution", "ATEN-04")
    assert reason.startswith(f"{port}: ")


def test_a_result_with_other_dims() -> None:
    m = Module()
    x, w = m.argument(1, 3, 8, 8), m.argument(4, 3, 3, 3)
    y = m.op("aten.convolution", [x, w, *CONV], 1, 4, 7, 6)
    ((_, rule, reason),) = declined(m.text(y))
    assert rule == "ATEN-05"
    assert "[1, 4, 6, 6]" in reason


def test_all_ops_of_a_node_or_none() -> None:
    m = Module()
    x = m.argument(4, 4)
    y = m.op("aten.relu", [x], 4, 4, location="first")
    y = m.op("aten.exp", [y], 4, 4, location="second")
    y = m.op("aten.triu", [y, 0], 4, 4, location="second")
    text = m.text(y)
    found = declined(text, whole_nodes=True)
    assert [(op, rule) for op, rule, _ in found] == [
        ("aten.exp", "OFFLOAD-01"),
        ("aten.triu", "ATEN-01"),
    ]
    assert [op for op, _, _ in declined(text)] == ["aten.triu"]


def test_no_engine_serves_it() -> None:
    m = Module()
    x = m.argument(4, 4)
    y = m.op("aten.relu", [x], 4, 4)
    ((op, rule, _),) = declined(m.text(y), target="gfx942", engine="torch")
    assert (op, rule) == ("aten.relu", "OFFLOAD-02")


def test_too_few_ops() -> None:
    m = Module()
    x = m.argument(4, 4)
    text = m.text(m.op("aten.relu", [x], 4, 4))
    ((_, rule, reason),) = declined(text, min_ops=2)
    assert rule == "OFFLOAD-03"
    assert "1 ops" in reason


def test_a_region_whose_plan_cannot_be_built_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from hipdnn_iree.graph_api.errors import CompileError
    from hipdnn_iree.provider.offload import pipeline

    def fail(*args: object, **kwargs: object) -> None:
        raise CompileError("no code today", stage="compile")

    monkeypatch.setattr(pipeline, "build", fail)
    m = Module()
    x = m.argument(4, 4)
    found = module(m.text(m.op("aten.relu", [x], 4, 4, location="here")))
    found.run("hipdnn-offload", "hipdnn-graph-to-executable")
    (remark,) = found.remarks
    assert (remark.op, remark.location, remark.rule) == ("aten.relu", "here", "OFFLOAD-04")
    assert "no code today" in remark.reason
    assert "torch.aten.relu" in found.shown()
    assert "hipdnn" not in found.shown()


def test_a_function_of_several_blocks() -> None:
    text = """func.func @main(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
      cf.br ^bb1(%x : !torch.vtensor<[4],f32>)
    ^bb1(%y: !torch.vtensor<[4],f32>):
      return %y : !torch.vtensor<[4],f32>
    }"""
    ((op, rule, reason),) = declined(text)
    assert (op, rule) == ("func.func", "OFFLOAD-05")
    assert "2 blocks" in reason


def test_what_iree_does_not_compile_either() -> None:
    m = Module()
    x = m.argument(4, 4)
    text = m.text(m.op("no.such.operator", [x], 4, 4, location="odd"))
    text = text.replace("torch.no.such.operator %arg0 :", 'torch.operator "no.such"(%arg0) : (')
    text = text.replace("f32> -> !torch", "f32>) -> !torch", 1)
    with pytest.raises(NotSupportedError, match="OFFLOAD-06") as caught:
        offload(text.replace(" -> (!torch.vtensor<[4,4],f32>)) {", " -> (X) {"))
    assert "odd" in str(caught.value)


def test_text_that_is_no_mlir() -> None:
    with pytest.raises(FormatError) as caught:
        outline("func.func @main() {\n  %x = torch.aten.relu\n}", name="odd.mlir")
    (problem,) = caught.value.problems
    assert problem.rule == "OFFLOAD-07"
    assert "line 2, column 23" in problem.got
    assert problem.port == "odd.mlir"


def test_inputs_that_do_not_fit() -> None:
    m = Module()
    x = m.argument(4, 4)
    executor = offload(m.text(m.op("aten.relu", [x], 4, 4))).executor()
    with pytest.raises(BindError, match="OFFLOAD-08"):
        executor.run()
    with pytest.raises(BindError, match="OFFLOAD-08"):
        executor.run(np.zeros((4, 5), np.float32))
    with pytest.raises(BindError, match="OFFLOAD-08"):
        executor.run(np.zeros((4, 4)))


def test_ops_that_nothing_reads_are_dropped() -> None:
    m = Module()
    x = m.argument(4, 4)
    m.op("aten.triu", [m.op("aten.relu", [x], 4, 4), 0], 4, 4)
    found = offload(m.text(m.op("aten.neg", [x], 4, 4)))
    assert [one.ops for one in found.graphs.values()] == [("aten.neg",)]
    assert not found.remarks
