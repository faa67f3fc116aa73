"""What of convolutions and their gradients is declined."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph_api.dtypes import DataType
from ...graph_api.errors import Problem
from ...graph_api.frozen import FrozenGraph, FrozenNode
from ...graph_api.ops.conv_fprop import ConvOp
from ..target import Target
from .base import problem

__all__ = ["RULES", "problems"]

RULES: dict[str, str] = {
    "IREE-CONV-01": "filters of convolutions for gfx9, of 16 bits or int8, lie without gaps",
    "IREE-CONV-02": "strided weight gradients for gfx9 with some dims of one tap have no padding",
}

# Types in which matrix instructions take the filter; IREE 3.13 then mixes up address spaces.
_STAY_NARROW = (DataType.HALF, DataType.BFLOAT16, DataType.INT8)


def problems(graph: FrozenGraph, node: FrozenNode, target: Target) -> Iterator[Problem]:
    """Yield what IREE 3.13 compiles to wrong numbers for gfx9 (found by emulation), or not."""
    op = node.op
    assert isinstance(op, ConvOp)
    if not target.is_gfx9:
        return
    dims = {
        port: graph.tensors[uid].dims for port, uid in (*node.inputs.items(), *node.outputs.items())
    }
    w = graph.tensors[node.inputs["w"]] if "w" in node.inputs else None
    if w and w.layout.padded and w.data_type in _STAY_NARROW:
        got = f"strides {list(w.strides)} of dims {list(w.dims)}"
        yield problem(node, "IREE-CONV-01", "w", got, "strides without gaps", "copy the filter")
    taps = dims["dw"][2:] if op.NAME == "conv_wgrad" else ()
    padded = any((*op.pre_padding, *op.post_padding))
    if 1 in taps and max(taps) > 1 and padded and max(op.stride) > 1:
        got = f"{list(op.pre_padding)} with taps {list(taps)} and stride {list(op.stride)}"
        yield problem(node, "IREE-CONV-02", "pre_padding", got, "no padding", "pad x beforehand")
