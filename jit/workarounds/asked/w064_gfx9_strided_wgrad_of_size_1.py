# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-064: Strided weight gradient, some dims of filter size 1, others larger, padding."""

from __future__ import annotations

from collections.abc import Sequence

from ....graph_api.ops.conv_fprop import ConvOp
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _mixed_sizes(size: Sequence[int], op: ConvOp) -> bool:
    padded = any((*op.pre_padding, *op.post_padding))
    return 1 in size and max(size) > 1 and padded and max(op.stride) > 1


WORKAROUND = Workaround(
    id="W-064",
    title="Strided weight gradient, some dims of filter size 1, others larger, padding",
    symptom="wrong numbers",
    targets=GFX9,
    instead="x is concatenated with its padding",
    applies=_mixed_sizes,
)
