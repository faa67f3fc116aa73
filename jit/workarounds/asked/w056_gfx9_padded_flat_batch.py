# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-056: Padding of a computed input with an unpadded dim of extent 1, in a batch."""

from __future__ import annotations

from ...ops.conv_geometry import Convolution
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _flat(conv: Convolution) -> bool:
    """Whether a batch has one channel, or an unpadded spatial dim of extent 1: it is dropped."""
    pairs = zip(conv.x[2:], conv.padding, strict=True)
    flat = conv.x[1] == 1 or any(n == 1 and not any(pair) for n, pair in pairs)
    return conv.computed and flat and conv.x[0] > 1


WORKAROUND = Workaround(
    id="W-056",
    title="Padding of a computed input with an unpadded dim of extent 1, in a batch",
    symptom="wrong numbers",
    targets=GFX9,
    instead="zeros are concatenated",
    applies=_flat,
)
