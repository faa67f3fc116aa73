# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-143: One window along a dim, whose elements are apart, of what is stored before.

The dim of the one result is left out, and the dilation stays as a factor of the filter's dim.  The
kernel that is made of such a sum has more waves than its layout has places for: all of them write
the same bytes of LDS.
"""

from __future__ import annotations

from ...emit.dims import Dim
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _apart(n: int, size: int, stride: int, dilation: int, pre: int, post: int) -> bool:
    """Whether a dim of extent n has one window, without padding, for a filter's size."""
    reach = dilation * (size - 1) + 1
    fixed = not isinstance(n, Dim)
    return fixed and dilation > 1 < size and pre == post == 0 and 0 <= n - reach < stride


WORKAROUND = Workaround(
    id="W-143",
    title="A dilated convolution with one window along a dim is computed by waves that race",
    symptom="wrong numbers",
    targets=GFX9,
    instead="the elements of that window are sliced, and the dilation is 1",
    applies=_apart,
)
