# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-123: Zeros concatenated with an input that the filter spans in one dim, but not in another.

The concatenation is made along the outermost dim.  The dims that are summed over then stand in
another order in the input than in the filter, as in W-050.
"""

from __future__ import annotations

from ...ops.conv_geometry import Convolution
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _spanned(conv: Convolution) -> bool:
    """Whether there is one window along some dims, and several along others."""
    alone = {extent == 1 for k, extent in zip(conv.w[2:], conv.extents, strict=True) if k > 1}
    return len(alone) == 2


WORKAROUND = Workaround(
    id="W-123",
    title="Zeros concatenated with an input that the filter spans in one dim, but not in another",
    symptom="wrong numbers",
    targets=GFX9,
    instead="the concatenated input and the filter are materialised",
    applies=_spanned,
)
