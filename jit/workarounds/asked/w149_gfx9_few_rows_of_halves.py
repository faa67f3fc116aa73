# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-149: half matmuls of 2 to 8 rows get instructions that the MI100 and MI200 do not have.

The compiler chooses a tile of 8 rows, 16 columns and 128 of k for them, which it makes of sparse
matrix instructions, whatever the target.
"""

from __future__ import annotations

from ....graph_api.dtypes import DataType
from ..rule import Workaround

__all__ = ["WORKAROUND"]

_FEW, _DEPTH = 8, 128


def _few(rows: int, k: int, dtype: DataType) -> bool:
    return dtype is DataType.HALF and 2 <= rows <= _FEW and k % _DEPTH == 0


WORKAROUND = Workaround(
    id="W-149",
    title="Half matmuls of 2 to 8 rows get instructions that gfx908 and gfx90a do not have",
    symptom="does not compile",
    targets=("gfx908", "gfx90a"),
    instead="the operands change places, or are converted to the type that is added up in",
    applies=_few,
)
