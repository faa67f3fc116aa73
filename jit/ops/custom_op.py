# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Custom ops: served are those whose data is MLIR."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ...graph_api.dtypes import DataType
from ...graph_api.errors import Problem
from ...graph_api.mlir_text import placeholders
from ...graph_api.ops.custom_op import CustomOp
from ..node_context import NodeContext
from .op_info import Dims, OpInfo, problem

__all__ = ["INFO", "PREFIXES", "RULES"]

PREFIXES = ("hipdnn_iree.", "fusilli.")
"""Ids of custom ops whose data is MLIR text: our own, and those of hipDNN's Fusilli plugin."""

_TYPES = (
    DataType.FLOAT,
    DataType.HALF,
    DataType.BFLOAT16,
    DataType.DOUBLE,
    DataType.INT8,
    DataType.UINT8,
    DataType.INT32,
    DataType.INT64,
    DataType.BOOLEAN,
)

RULES: dict[str, str] = {
    "IREE-CUSTOM-01": "a custom op's id begins with 'hipdnn_iree.' or 'fusilli.'",
    "IREE-CUSTOM-02": "a custom op's data is UTF-8 text",
    "IREE-CUSTOM-03": "placeholders in a custom op's text name tensors and dims that it has",
    "IREE-CUSTOM-04": "tensors of a custom op have types that the compiler computes with itself",
}


def _work(op: object, dims: Dims) -> tuple[int, int]:
    """A function of the user's: at least one operation for each element of its largest tensor."""
    return 0, max(map(prod, dims.values()))


def _declines(context: NodeContext) -> Iterator[Problem]:
    """Yield why a custom op is not served; the text itself is read when it is lowered."""
    op, node, graph = context.op, context.node, context.graph
    assert isinstance(op, CustomOp)
    if not op.custom_op_id.startswith(PREFIXES):
        wanted = f"an id that begins with {' or '.join(PREFIXES)}"
        yield problem(node, "IREE-CUSTOM-01", "custom_op_id", repr(op.custom_op_id), wanted)
        return
    try:
        text = op.data.decode()
    except UnicodeDecodeError as error:
        yield problem(node, "IREE-CUSTOM-02", "data", str(error), "UTF-8 text")
        return
    if not text.strip() or "\0" in text:
        got = "a NUL character" if text.strip() else "nothing"
        yield problem(node, "IREE-CUSTOM-02", "data", got, "the text of a function in MLIR")
        return
    for port, uid in (*node.inputs.items(), *node.outputs.items()):
        kind = graph.tensors[uid].data_type
        if kind not in _TYPES:  # narrower ones are handled as bytes
            wanted = f"one of {', '.join(t.json for t in _TYPES)}"
            hint = "convert it by an identity op before or after"
            yield problem(node, "IREE-CUSTOM-04", port, kind.json, wanted, hint)
    tensors = {"IN": list(node.inputs.values()), "OUT": list(node.outputs.values())}
    for spelled, side, index, word, dim in placeholders(text):
        if not side:
            continue
        count = len(tensors[side])
        if index >= count:
            wanted = f"{side}0 to {side}{count - 1}"
            yield problem(node, "IREE-CUSTOM-03", "data", spelled, wanted)
        elif not word and dim >= (rank := len(graph.tensors[tensors[side][index]].dims)):
            wanted = f"{side}{index}_DIM0 to {side}{index}_DIM{rank - 1}"
            yield problem(node, "IREE-CUSTOM-03", "data", spelled, wanted)


INFO = OpInfo(work=_work, declines=_declines)
