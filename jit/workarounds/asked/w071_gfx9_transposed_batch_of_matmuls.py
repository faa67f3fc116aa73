# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-071: Batch of matmuls, left operand transposed, m and n no multiples of 16."""

from __future__ import annotations

from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


_TILE = 16


def _ragged(m: int, n: int) -> bool:
    """Whether there is no whole tile: the matrices of a batch are mixed up then."""
    return bool(m % _TILE and n % _TILE)


WORKAROUND = Workaround(
    id="W-071",
    title="Batch of matmuls, left operand transposed, m and n no multiples of 16",
    symptom="wrong numbers",
    targets=GFX9,
    instead="the left operand is materialised",
    applies=_ragged,
)
