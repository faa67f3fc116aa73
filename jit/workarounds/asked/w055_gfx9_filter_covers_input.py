# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-055: Padding of a convolution whose filter covers the padded input, a matmul then.

As 3x3 on 1x1 with a padding of 1, or 3x1 on 1x8 with a padding of 1 and 0.
"""

from __future__ import annotations

from ...ops.conv_geometry import Convolution
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _covered(conv: Convolution) -> bool:
    return all(1 in sizes for sizes in zip(conv.extents, conv.w[2:], strict=True))


WORKAROUND = Workaround(
    id="W-055",
    title="Padding of a convolution whose filter covers the padded input, a matmul then",
    symptom="wrong numbers",
    targets=GFX9,
    instead="zeros are concatenated",
    applies=_covered,
)
