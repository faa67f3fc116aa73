# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-092: Attention with one key, as one op, ends the compiler."""

from __future__ import annotations

from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _one(keys: int) -> bool:
    return keys == 1


WORKAROUND = Workaround(
    id="W-092",
    title="Attention with one key, as one op, ends the compiler",
    symptom="crash",
    targets=GFX9,
    instead="matmuls and a softmax of rows",
    applies=_one,
)
