# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-013: 16-bit convolutions are scalar code.

Four times slower than float32.
"""

from __future__ import annotations

from ....graph_api.dtypes import DataType
from ...node_context import NodeContext
from ...ops.conv_geometry import GEMM
from ...ops.multiply_types import multiply_type
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


def is_widened(context: NodeContext) -> bool:
    """Return whether a convolution of 16-bit floats is computed in wider ones."""
    if not context.named("conv"):
        return False
    kinds = [context.kind(port) for port in context.node.inputs]
    # Matmuls of bfloat16 are quicker than those of float32, those of float16 are not.
    if context.strategy in GEMM and set(kinds) == {DataType.BFLOAT16}:
        return False
    narrow = multiply_type(context.target, context.compute, *kinds)
    return narrow.is_float and narrow.bits == 16


WORKAROUND = Workaround(
    id="W-013",
    title="16-bit convolutions are scalar code",
    symptom="slow",
    targets=CPU,
    instead="the operands are converted to float32",
    node=is_widened,
)
