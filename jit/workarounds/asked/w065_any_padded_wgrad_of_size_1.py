# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-065: Weight gradient with padding in a dim of filter size 1.

Part of the result is left unwritten on gfx9; the slices cost nothing elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....graph_api.ops.conv_fprop import ConvOp
from ..rule import ALL, Workaround

__all__ = ["WORKAROUND"]


def _padded(size: Sequence[int], op: ConvOp) -> bool:
    return 1 in size and any((*op.pre_padding, *op.post_padding))


WORKAROUND = Workaround(
    id="W-065",
    title="Weight gradient with padding in a dim of filter size 1",
    symptom="wrong numbers",
    targets=ALL,
    instead="x and dy are sliced to where they overlap, without padding there",
    applies=_padded,
)
