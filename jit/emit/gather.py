# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reading parts of a tensor by a list of indices."""

from __future__ import annotations

from .builder import Builder, T, Value

__all__ = ["gather"]


def gather(b: Builder, x: Value, axis: int, index: Value) -> Value:
    """Return the parts of x along an axis that a list of indices names, none of them outside."""
    x = b.standing_alone(x)
    shape = (*x.shape[:axis], index.shape[0], *x.shape[axis + 1 :])
    return b.call(T.AtenIndexSelectOp, shape, x.dtype, x, axis, index)
