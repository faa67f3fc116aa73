# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-124: Padding of a convolution with a single, dilated window along a dim.

The elements of the only window become a slice with steps, which stands between the pad and the
convolution: the pad is not fused, and races (W-054).
"""

from __future__ import annotations

from ...ops.conv_geometry import Convolution
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _stepped(conv: Convolution) -> bool:
    dims = zip(conv.w[2:], conv.op.dilation, conv.extents, strict=True)
    return any(k > 1 < dilation and extent == 1 for k, dilation, extent in dims)


WORKAROUND = Workaround(
    id="W-124",
    title="Padding of a convolution with a single, dilated window along a dim",
    symptom="wrong numbers",
    targets=GFX9,
    instead="zeros are concatenated",
    applies=_stepped,
)
