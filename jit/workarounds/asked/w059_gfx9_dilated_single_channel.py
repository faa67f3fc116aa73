# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-059: Dilation of a convolution that sums over one channel is left out."""

from __future__ import annotations

from collections.abc import Sequence

from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _skipped(summed: int, dilation: Sequence[int]) -> bool:
    """Whether one element is summed over; strides are the dilation of a weight gradient."""
    return summed == 1 and max(dilation) > 1


WORKAROUND = Workaround(
    id="W-059",
    title="Dilation of a convolution that sums over one channel is left out",
    symptom="wrong numbers",
    targets=GFX9,
    instead="zeros are concatenated to both operands: a second channel (weight gradient: image)",
    applies=_skipped,
)
