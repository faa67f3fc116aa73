# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-070: Even batch of matmuls with m < 16, m % 8, 1 < n < 16.

One is unwritten where the left operand is transposed; else the compiler ends by SIGSEGV.
"""

from __future__ import annotations

from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


_TILE = 16


def _small(count: int, m: int, n: int) -> bool:
    """Whether two such matrices would go to a workgroup, which writes only one of them."""
    return count % 2 == 0 and bool(m < _TILE and m % 8) and 1 < n < _TILE


WORKAROUND = Workaround(
    id="W-070",
    title="Even batch of matmuls with m < 16, m % 8, 1 < n < 16",
    symptom="wrong numbers",
    targets=GFX9,
    instead="the last matmul is done by itself and concatenated",
    applies=_small,
)
