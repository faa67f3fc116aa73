# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-058: Padding of one dilated channel of one image, concatenated with zeros for W-059."""

from __future__ import annotations

from ...ops.conv_geometry import Convolution
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _one_channel(conv: Convolution) -> bool:
    channels = (1, 2) if conv.doubled else (1,)
    return conv.x[0] == 1 and conv.x[1] in channels and max(conv.op.dilation) > 1


WORKAROUND = Workaround(
    id="W-058",
    title="Padding of one dilated channel of one image, concatenated with zeros for W-059",
    symptom="wrong numbers",
    targets=GFX9,
    instead="zeros are concatenated before the channel is doubled",
    applies=_one_channel,
)
