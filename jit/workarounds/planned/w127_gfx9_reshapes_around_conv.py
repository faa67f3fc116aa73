# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-127: Reshapes that move through what a convolution reads, computed by elementwise loops.

A reshape of any value among these moves up to their arguments and down to the convolution, whose
padding has more dims then and is not fused into it (W-054).
"""

from __future__ import annotations

from collections.abc import Iterator

from ....graph_api.ops.conv_fprop import ConvOp
from ...node_context import NodeContext
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _operands(context: NodeContext) -> Iterator[str]:
    """Yield the operand of a reshape, if it is computed."""
    if context.named("reshape") and context.around.has(ConvOp):
        uid = context.node.inputs["x"]
        yield from ("x",) if uid in context.around.makers else ()


def _results(context: NodeContext) -> bool:
    """Whether the node has a matmul by a vector, or without a sum; its batch dims are reshaped."""
    if not context.around.has(ConvOp):
        return False
    if context.named("matmul"):
        return 1 in (*context.dims("a")[-2:], context.dims("b")[-1])
    attention = context.named("sdpa", "sdpa_backward")
    return attention and any(1 in context.dims(port)[-2:] for port in "qkv")


WORKAROUND = Workaround(
    id="W-127",
    title="Reshapes that move through what a convolution reads, computed by elementwise loops",
    symptom="wrong numbers",
    targets=GFX9,
    instead="what is reshaped is materialised, and what a matmul with m, n or k = 1 results in",
    operands=_operands,
    results=_results,
)
