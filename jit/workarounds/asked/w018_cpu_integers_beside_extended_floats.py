# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-018: Integers converted to floats beside floats that are extended, in a matmul."""

from __future__ import annotations

from ....graph_api.dtypes import DataType
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


def _converted(dtype: DataType) -> bool:
    return not dtype.is_float


WORKAROUND = Workaround(
    id="W-018",
    title="Integers converted to floats beside floats that are extended, in a matmul",
    symptom="does not compile",
    targets=CPU,
    instead="the converted operand is materialised",
    applies=_converted,
)
