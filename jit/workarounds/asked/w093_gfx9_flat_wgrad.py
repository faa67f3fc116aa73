# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-093: Weight gradient of an image with one channel or a dim of extent 1, padded along another.

The unit dim is dropped, and the pad becomes a kernel of its own, which loses its offset (W-054).
With one channel that happens where the input is a copy (W-061).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _flat(extents: Sequence[int], padding: Sequence[int]) -> bool:
    """Whether one of channels and spatial extents is 1, and any padding is there."""
    return 1 in extents and any(padding)


WORKAROUND = Workaround(
    id="W-093",
    title="Weight gradient of an image with one channel or a dim of extent 1, padded along another",
    symptom="wrong numbers",
    targets=GFX9,
    instead="zeros are concatenated",
    applies=_flat,
)
