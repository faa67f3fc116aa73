# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-010: A filter's transpose or conversion, folded into a convolution, makes scalar code.

The loop nest is not vectorised: 4 to 60 times slower.
"""

from __future__ import annotations

from math import prod

from ...node_context import NodeContext
from ...ops.conv_geometry import GEMM
from ...ops.multiply_types import multiply_type
from ..rule import CPU, Workaround
from .w013_cpu_conv_16_bits import is_widened

__all__ = ["WORKAROUND"]


def _node(context: NodeContext) -> bool:
    if not context.named("conv_fprop"):
        return False
    from ...ops.conv_cost import WIDENING

    # What reorders the filter is a copy in any case.
    if context.strategy in GEMM | WIDENING | {"channels_last"}:
        return False
    kinds = [context.kind(port) for port in ("x", "w")]
    widen = is_widened(context)
    if multiply_type(context.target, context.compute, *kinds, widen=widen) is not kinds[1]:
        return True
    w = context.operands["w"]
    transposed = bool(w.order) and not w.channels_first and not w.broadcast
    return transposed and prod(context.dims("w")[2:]) > 1


WORKAROUND = Workaround(
    id="W-010",
    title="A filter's transpose or conversion, folded into a convolution, makes scalar code",
    symptom="slow",
    targets=CPU,
    instead="the filter is materialised",
    node=_node,
)
