# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-053: Convolution of an input that is not channels-first or channels-last, (W, N, C, H)."""

from __future__ import annotations

from ....graph_api.ops.conv_fprop import ConvFprop
from ...node_context import NodeContext
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _node(context: NodeContext) -> bool:
    if not isinstance(context.op, ConvFprop):
        return False
    x = context.operands["x"]
    return bool(x.order) and not x.channels_first and not x.channels_last


WORKAROUND = Workaround(
    id="W-053",
    title="Convolution of an input that is not channels-first or channels-last, (W, N, C, H)",
    symptom="does not compile",
    targets=GFX9,
    instead="the input (of a weight gradient: x and dy) is materialised",
    node=_node,
)
