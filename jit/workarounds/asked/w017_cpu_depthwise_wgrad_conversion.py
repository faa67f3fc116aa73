# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-017: Depthwise weight gradient: a conversion from 16 bits fused into the sum."""

from __future__ import annotations

from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


def _depthwise(channels: int, filters: int, groups: int) -> bool:
    return channels == 1 and filters == groups


WORKAROUND = Workaround(
    id="W-017",
    title="Depthwise weight gradient: a conversion from 16 bits fused into the sum",
    symptom="does not compile",
    targets=CPU,
    instead="x and dy are materialised",
    applies=_depthwise,
)
