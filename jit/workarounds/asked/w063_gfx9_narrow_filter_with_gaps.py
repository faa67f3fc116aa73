# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-063: 16-bit or int8 filter with gaps between its elements."""

from __future__ import annotations

from ....graph_api.dtypes import DataType
from ....graph_api.tensor import TensorSpec
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


# Types in which matrix instructions take the filter; address spaces are mixed up then.
_STAY_NARROW = (DataType.HALF, DataType.BFLOAT16, DataType.INT8)


def _gaps(w: TensorSpec) -> bool:
    return w.layout.padded and w.data_type in _STAY_NARROW


WORKAROUND = Workaround(
    id="W-063",
    title="16-bit or int8 filter with gaps between its elements",
    symptom="does not compile",
    targets=GFX9,
    instead="declined: IREE-CONV-01",
    applies=_gaps,
)
