# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-071: A batch of matmuls reads rows behind k, which are those of the next matrix.

A thread loads part of one row of an operand, under a mask of rows and columns.  Where a part of it
may lie behind the last column, only the mask of columns is kept.  The other operand has zeros for
such a row, unless the same is true of it; but zero times NaN or infinity is NaN.
"""

from __future__ import annotations

from ....graph_api.dtypes import DataType
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


_TILE = 16  # sizes of matrix instructions along k divide it
_LOAD_BITS = 128  # what a thread loads at a time, at most


def _ragged(columns: int, k: int, dtype: DataType) -> bool:
    """Whether rows are masked, and parts of a row: `columns` are what is not summed over."""
    return bool(k % _TILE and columns % (_LOAD_BITS // dtype.bits))


WORKAROUND = Workaround(
    id="W-071",
    title="A batch of matmuls reads rows behind k, which are those of the next matrix",
    symptom="wrong numbers",
    targets=GFX9,
    instead="an operand whose rows are along k is materialised as its transpose",
    applies=_ragged,
)
