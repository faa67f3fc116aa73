# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-079: Batch norm, channels of 1,024 elements or more: x - mean is stored for y."""

from __future__ import annotations

from ..rule import GFX9, Workaround
from .w078_gfx9_short_channel_statistics import SPLIT

__all__ = ["WORKAROUND"]


def _long(count: int) -> bool:
    return count >= SPLIT


WORKAROUND = Workaround(
    id="W-079",
    title="Batch norm, channels of 1,024 elements or more: x - mean is stored for y",
    symptom="slow",
    targets=GFX9,
    instead="y is computed from mean - x with a negative factor",
    applies=_long,
)
