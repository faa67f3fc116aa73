# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-014: Rows left over behind the only window of a strided convolution.

The input is taken for as large as that one window.
"""

from __future__ import annotations

from ...emit.dims import Dim
from ..rule import ALL, Workaround

__all__ = ["WORKAROUND"]


def _left_over(n: int, size: int, stride: int, dilation: int, pre: int, post: int) -> bool:
    """Whether a dim of extent n has one window, and rows behind it, for a filter's size.

    W-015: a filter of size 1 is compiled as it is, and crashes the compiler where it is sliced.
    """
    reach = dilation * (size - 1) + 1
    fixed = not isinstance(n, Dim)
    return fixed and 0 < pre + n + post - reach < stride and reach > pre and size > 1


WORKAROUND = Workaround(
    id="W-014",
    title="Rows left over behind the only window of a strided convolution",
    symptom="does not compile",
    targets=ALL,
    instead="the input is sliced to what the window reads, and the stride is 1",
    applies=_left_over,
)
