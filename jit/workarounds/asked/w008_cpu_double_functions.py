# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-008: erf, tanh, sin, cos and tan of float64 do not compile or link."""

from __future__ import annotations

from ....graph_api.dtypes import DataType
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


def _double(dtype: DataType) -> bool:
    return dtype is DataType.DOUBLE


WORKAROUND = Workaround(
    id="W-008",
    title="erf, tanh, sin, cos and tan of float64 do not compile or link",
    symptom="does not compile",
    targets=CPU,
    instead="the function is composed from arithmetic",
    applies=_double,
)
