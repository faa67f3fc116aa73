# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-078: Both sums of a batch norm's short channels in one kernel, a channel unrolled.

14x14 inputs, batch 4, do not compile within half a minute; with the copy 3 s, 2 dispatches.
"""

from __future__ import annotations

from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


SPLIT = 1024
"""Sums from this length on are split in two dispatches, which nothing is fused with."""


def _short(count: int) -> bool:
    return count < SPLIT


WORKAROUND = Workaround(
    id="W-078",
    title="Both sums of a batch norm's short channels in one kernel, a channel unrolled",
    symptom="slow",
    targets=GFX9,
    instead="x - mean is materialised between the sums",
    applies=_short,
)
