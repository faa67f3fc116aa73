# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-066: 16-bit weight gradient with strides and fewer than 64 channels: too much LDS."""

from __future__ import annotations

from collections.abc import Sequence

from ....graph_api.dtypes import DataType
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


_FEW_CHANNELS = 64


def _few(kind: DataType, dw_dims: Sequence[int], stride: Sequence[int]) -> bool:
    narrow = kind.is_float and kind.bits == 16
    return narrow and min(dw_dims[:2]) < _FEW_CHANNELS and max(stride) > 1


WORKAROUND = Workaround(
    id="W-066",
    title="16-bit weight gradient with strides and fewer than 64 channels: too much LDS",
    symptom="does not compile",
    targets=GFX9,
    instead="the operands are converted to float32 and materialised",
    applies=_few,
)
