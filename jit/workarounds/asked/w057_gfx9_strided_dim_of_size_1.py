# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-057: Padding beside a dim with stride > 1 and filter size 1."""

from __future__ import annotations

from ...ops.conv_geometry import Convolution
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _cut(conv: Convolution) -> bool:
    """Whether the input is cut before it is padded."""
    return any(k == 1 < s for k, s in zip(conv.w[2:], conv.op.stride, strict=True))


WORKAROUND = Workaround(
    id="W-057",
    title="Padding beside a dim with stride > 1 and filter size 1",
    symptom="wrong numbers",
    targets=GFX9,
    instead="zeros are concatenated",
    applies=_cut,
)
