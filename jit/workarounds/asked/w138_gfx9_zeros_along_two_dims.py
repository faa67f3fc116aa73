# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-138: Zeros concatenated along two dims of a batch, one of extent 1 or beside a strided one.

Each concatenation is made along the outermost dim.  The dims that are summed over then stand in
another order in the input than in the filter, as in W-123, where one window spans a dim.
"""

from __future__ import annotations

from ...ops.conv_geometry import Convolution
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _crossed(conv: Convolution) -> bool:
    dims = list(zip(conv.x[2:], conv.w[2:], conv.op.stride, conv.padding, strict=True))
    padded = [n for n, k, _, pair in dims if k > 1 and any(pair)]
    cut = any(k == 1 < stride for _, k, stride, _ in dims)
    return len(padded) > 1 and (cut or 1 in padded) and 1 not in (conv.x[0], conv.w[1])


WORKAROUND = Workaround(
    id="W-138",
    title="Zeros concatenated along two dims of a batch, one of extent 1 or beside a strided one",
    symptom="wrong numbers",
    targets=GFX9,
    instead="the concatenated input is materialised",
    applies=_crossed,
)
