# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-082: Sum of the exponentials of long attention rows, and these, from one matmul."""

from __future__ import annotations

from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


_WAVE = 64


def _long(keys: int) -> bool:
    return keys > _WAVE


WORKAROUND = Workaround(
    id="W-082",
    title="Sum of the exponentials of long attention rows, and these, from one matmul",
    symptom="does not compile",
    targets=GFX9,
    instead="the exponentials come from a second matmul",
    applies=_long,
)
