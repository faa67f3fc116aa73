# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-106: float64 converted to bfloat16 is rounded twice."""

from __future__ import annotations

from ....graph_api.dtypes import DataType
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


def _brain(given: DataType, wanted: DataType) -> bool:
    return (given, wanted) == (DataType.DOUBLE, DataType.BFLOAT16)


WORKAROUND = Workaround(
    id="W-106",
    title="float64 converted to bfloat16 is rounded twice",
    symptom="wrong numbers",
    targets=CPU,
    instead="the number is rounded to the bits of the type in float64 first",
    applies=_brain,
)
