# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-030: A matmul fused with a change of layout computes what follows in a bad order."""

from __future__ import annotations

from ...node_context import NodeContext
from ...ops.conv_geometry import GEMM
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


def _node(context: NodeContext) -> bool:
    """Whether matmuls, which are channels-last, compute one channels-first sample.

    64x56x56, bias and ReLU: 1.7 ms, with a copy 1.28.
    """
    if not context.named("conv_fprop") or context.strategy not in GEMM:
        return False
    return context.dims("x")[0] == 1 and context.operands["x"].channels_first


WORKAROUND = Workaround(
    id="W-030",
    title="A matmul fused with a change of layout computes what follows in a bad order",
    symptom="slow",
    targets=CPU,
    instead="the result is materialised",
    node=_node,
)
