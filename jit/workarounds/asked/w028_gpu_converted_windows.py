# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-028: Pooling windows over bytes converted in the same kernel."""

from __future__ import annotations

from ....graph_api.dtypes import DataType
from ..rule import GPU, Workaround

__all__ = ["WORKAROUND"]


def _bytes(dtype: DataType) -> bool:
    return dtype.bits <= 8


WORKAROUND = Workaround(
    id="W-028",
    title="Pooling windows over bytes converted in the same kernel",
    symptom="does not compile",
    targets=GPU,
    instead="the converted input is materialised",
    applies=_bytes,
)
