# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Texts of custom ops, and graphs of one."""

from __future__ import annotations

from typing import Any

from hipdnn_iree import Graph

V = "!torch.vtensor<[2,3],f32>"


ERF = """
func.func private @{FUNC_NAME}(%x: {IN0_TYPE}) -> {OUT0_TYPE} {
  %y = torch.aten.erf %x : {IN0_TYPE} -> {OUT0_TYPE}
  return %y : {OUT0_TYPE}
}"""


def body(*lines: str, result: str = "%y", to: str = V, takes: str = f"%x: {V}") -> str:
    text = "\n  ".join(lines)
    return f"func.func @f({takes}) -> {to} {{\n  {text}\n  return {result} : {to}\n}}"


def graph_of(text: str, *, inputs: int = 1, **options: Any) -> Graph:
    """A graph of one custom op on [2, 3] floats."""
    graph = Graph(io_data_type="float")
    tensors = [graph.tensor(dims=(2, 3), name=f"x{i}") for i in range(inputs)]
    options.setdefault("outputs", [((2, 3), "float")])
    for result in graph.custom_op(mlir=text, inputs=tensors, name="mine", **options):
        result.set_output()
    return graph


SORT = body(
    "%d = torch.constant.int 1",
    "%f = torch.constant.bool false",
    f"%y, %i = torch.aten.sort %x, %d, %f : {V}, !torch.int, !torch.bool"
    f" -> {V}, !torch.vtensor<[2,3],si64>",
)
