"""What of convolutions and their gradients is declined."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph_api.errors import Problem
from ...graph_api.frozen import FrozenGraph, FrozenNode
from ...graph_api.ops.conv_fprop import ConvOp
from ..target import Target
from .base import problem

__all__ = ["RULES", "problems"]

RULES: dict[str, str] = {
    "IREE-CONV-01": "convolutions for gfx9 that sum over one channel have no dilation",
    "IREE-CONV-02": "strided weight gradients for gfx9 with some dims of one tap have no padding",
}


def problems(graph: FrozenGraph, node: FrozenNode, target: Target) -> Iterator[Problem]:
    """Yield what IREE 3.13 compiles to wrong numbers for gfx9 (found by emulation)."""
    op = node.op
    assert isinstance(op, ConvOp)
    if not target.is_gfx9:
        return
    dims = {
        port: graph.tensors[uid].dims for port, uid in (*node.inputs.items(), *node.outputs.items())
    }
    summed = {"conv_fprop": ("x", 1), "conv_dgrad": ("dy", 1)}.get(op.NAME)
    if summed and dims[summed[0]][summed[1]] == 1 and max(op.dilation) > 1:
        got = f"{list(op.dilation)} with one channel"
        hint = "add a channel of zeros to both operands"
        yield problem(node, "IREE-CONV-01", "dilation", got, "1 in each dim", hint)
    taps = dims["dw"][2:] if op.NAME == "conv_wgrad" else ()
    padded = any((*op.pre_padding, *op.post_padding))
    if 1 in taps and max(taps) > 1 and padded and max(op.stride) > 1:
        got = f"{list(op.pre_padding)} with taps {list(taps)} and stride {list(op.stride)}"
        yield problem(node, "IREE-CONV-02", "pre_padding", got, "no padding", "pad x beforehand")
