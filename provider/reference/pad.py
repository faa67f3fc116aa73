# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pad: x written into an array that is full of the value."""

from __future__ import annotations

import numpy as np

from ...graph_api.ops.pad import Pad
from .base import Arrays, Context
from .convert import Array, scalar
from .movement import moving

__all__ = ["REFERENCE"]


def _move(op: Pad, inputs: Arrays, ctx: Context, errors: bool) -> Array:
    x, y = inputs["x"], ctx.outputs["y"].dims
    fill = 0 if errors else scalar(op.value, ctx.inputs["x"].data_type)[0]
    result = np.full(y, fill, dtype=x.dtype)
    # Element i of x stands at i + pre, where that is inside of y.
    first = [max(pre, 0) for pre in op.pre_padding]
    last = [min(pre + n, m) for pre, n, m in zip(op.pre_padding, x.shape, y, strict=True)]
    to = tuple(slice(a, b) for a, b in zip(first, last, strict=True))
    given = zip(first, last, op.pre_padding, strict=True)
    result[to] = x[tuple(slice(a - pre, b - pre) for a, b, pre in given)]
    return result


REFERENCE = moving(_move)
