# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-095: Depthwise 3-D convolutions are not legalized."""

from __future__ import annotations

from ..rule import ALL, Workaround

__all__ = ["WORKAROUND"]


def _depthwise(rank: int, groups: int, channels: int) -> bool:
    return groups > 1 and rank == 5 and channels == 1


WORKAROUND = Workaround(
    id="W-095",
    title="Depthwise 3-D convolutions are not legalized",
    symptom="does not compile",
    targets=ALL,
    instead="one convolution per group",
    applies=_depthwise,
)
