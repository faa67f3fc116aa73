# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-016: float64 below 2^-14 converted to float16 gives 0."""

from __future__ import annotations

from ....graph_api.dtypes import DataType
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


def _halved(given: DataType, wanted: DataType) -> bool:
    return (given, wanted) == (DataType.DOUBLE, DataType.HALF)


WORKAROUND = Workaround(
    id="W-016",
    title="float64 below 2^-14 converted to float16 gives 0",
    symptom="wrong numbers",
    targets=CPU,
    instead="the conversion goes by way of a multiple of 2^-24 in float32",
    applies=_halved,
)
