# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-137: The single window of a convolution along a dim lies in the padding in front.

Only padding is read.  That slice is folded into the pad, and nothing of the input is left in it:
the convolution has an operand of other extents than it was built for.
"""

from __future__ import annotations

from ...ops.conv_geometry import Convolution
from ..rule import ALL, Workaround

__all__ = ["WORKAROUND"]


def _in_padding(conv: Convolution) -> bool:
    op = conv.op
    dims = zip(op.pre_padding, conv.w[2:], op.dilation, conv.extents, strict=True)
    return any(pre > (k - 1) * step and extent == 1 for pre, k, step, extent in dims)


WORKAROUND = Workaround(
    id="W-137",
    title="The single window of a convolution along a dim lies in the padding in front",
    symptom="does not compile",
    targets=ALL,
    instead="zeros are concatenated",
    applies=_in_padding,
)
