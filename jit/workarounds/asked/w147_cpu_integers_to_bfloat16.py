# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-147: integers converted to bfloat16 want a function that is not linked."""

from __future__ import annotations

from ....graph_api.dtypes import DataType
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


def _brain(given: DataType, wanted: DataType) -> bool:
    return (given, wanted) == (DataType.FLOAT, DataType.BFLOAT16)


WORKAROUND = Workaround(
    id="W-147",
    title="integers converted to bfloat16 want a function that is not linked",
    symptom="does not compile",
    targets=CPU,
    instead="an op between the conversion to float32 and the one to bfloat16",
    applies=_brain,
)
