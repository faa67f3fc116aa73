# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-067: Weight gradient of computed operands."""

from __future__ import annotations

from collections.abc import Sequence

from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _computed(order: Sequence[int]) -> bool:
    """Whether the memory order is open, or (W-053) not a usual one."""
    rank = len(order)
    return tuple(order) not in (tuple(range(rank)), (0, *range(2, rank), 1)) or not order


WORKAROUND = Workaround(
    id="W-067",
    title="Weight gradient of computed operands",
    symptom="does not compile",
    targets=GFX9,
    instead="the operands are materialised",
    applies=_computed,
)
