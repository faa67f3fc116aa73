# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-123: Zeros concatenated along a dim of extent 1 of an image that the filter spans otherwise.

The concatenation is made along the outermost dim, which costs nothing with an extent of 1.  The
dims that are summed over then stand in another order in the image than in the filter, as in W-050.
"""

from __future__ import annotations

from ...ops.conv_geometry import Convolution
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _moved(conv: Convolution) -> bool:
    """Whether a dim of extent 1 is padded, and the filter spans a larger one."""
    dims = list(zip(conv.x[2:], conv.extents, conv.padding, strict=True))
    moved = any(n == 1 and any(padding) for n, _, padding in dims)
    return moved and any(n > 1 == extent for n, extent, _ in dims)


WORKAROUND = Workaround(
    id="W-123",
    title="Zeros concatenated along a dim of extent 1 of an image that the filter spans otherwise",
    symptom="wrong numbers",
    targets=GFX9,
    instead="the concatenated image is materialised",
    applies=_moved,
)
