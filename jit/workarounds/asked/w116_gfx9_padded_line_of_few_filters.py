# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-116: Padding of a convolution along one dim, with at most four filters.

There are no matrix instructions for so few.  A thread's part of the padded input is private
memory, which is read before the loop over channels that fills it.
"""

from __future__ import annotations

from ...ops.conv_geometry import Convolution
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]

_FEW = 4


def _few_filters(conv: Convolution) -> bool:
    return conv.linear and conv.w[0] <= _FEW


WORKAROUND = Workaround(
    id="W-116",
    title="Padding of a convolution along one dim, with at most four filters",
    symptom="wrong numbers",
    targets=GFX9,
    instead="zeros are concatenated",
    applies=_few_filters,
)
