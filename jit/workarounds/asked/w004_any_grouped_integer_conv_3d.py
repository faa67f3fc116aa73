# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-004: Grouped 3-D convolutions of integers are multiplied as floats, and fail."""

from __future__ import annotations

from ....graph_api.dtypes import DataType
from ..rule import ALL, Workaround

__all__ = ["WORKAROUND"]


def _grouped(rank: int, groups: int, compute: DataType) -> bool:
    return groups > 1 and rank == 5 and compute.is_integer


WORKAROUND = Workaround(
    id="W-004",
    title="Grouped 3-D convolutions of integers are multiplied as floats, and fail",
    symptom="does not compile",
    targets=ALL,
    instead="one convolution per group",
    applies=_grouped,
)
