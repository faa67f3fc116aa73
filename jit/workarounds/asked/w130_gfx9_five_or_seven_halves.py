# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-130: Half matmuls with 2 to 4 rows or columns, where k's smallest prime factor is 5 or 7.

They get no matrix instructions; a thread multiplies vectors along k, as long as that factor.
LLVM cannot select the sum of 5 or 7 products of halves.
"""

from __future__ import annotations

from ....graph_api.dtypes import DataType
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]

_FEW = range(2, 5)


def _odd_vectors(m: int, k: int, n: int, dtype: DataType) -> bool:
    few = min(m, n) in _FEW
    factor = next((p for p in (2, 3, 5, 7) if k % p == 0), 0)
    return dtype is DataType.HALF and few and factor in (5, 7)


WORKAROUND = Workaround(
    id="W-130",
    title="Half matmuls with 2 to 4 rows or columns, where k's smallest prime factor is 5 or 7",
    symptom="does not compile",
    targets=GFX9,
    instead="the operands are converted to the type that is added up in, and materialised",
    applies=_odd_vectors,
)
