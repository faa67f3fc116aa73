# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-122: Transposed convolution of more padding than its filter reaches, and output padding.

Torch-mlir crops its operand at both ends then, also where output padding asks for zeros behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....graph_api.ops.conv_fprop import ConvOp
from ..rule import ALL, Workaround

__all__ = ["WORKAROUND"]


def _overpadded(dx: Sequence[int], dy: Sequence[int], w: Sequence[int], op: ConvOp) -> bool:
    """Whether along a dim the operand is cropped before, but padded behind.

    ``dx``, ``dy``, ``w``: spatial dims of the gradient, of its operand and of the filter.
    """
    for n, o, k, s, d, pre in zip(dx, dy, w, op.stride, op.dilation, op.pre_padding, strict=True):
        reach = d * (k - 1)
        output_padding = n - ((o - 1) * s + reach + 1 - 2 * pre)
        if 0 < pre - reach < output_padding:
            return True
    return False


WORKAROUND = Workaround(
    id="W-122",
    title="Transposed convolution of more padding than its filter reaches, and output padding",
    symptom="wrong numbers",
    targets=ALL,
    instead="such a data gradient has the strategy flipped",
    applies=_overpadded,
)
