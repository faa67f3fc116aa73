# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Running sums: NumPy's cumsum, from either end."""

from __future__ import annotations

import numpy as np

from ...graph_api.ops.cumsum import Cumsum
from .analysis import accumulated, sum_range
from .base import Arrays, Context, Domain, Reference
from .convert import Array

__all__ = ["REFERENCE"]


def _sums(op: Cumsum, x: Array) -> Array:
    rows = np.moveaxis(x, op.axis, -1)
    rows = rows[..., ::-1] if op.reverse else rows
    if op.exclusive:
        rows = np.concatenate([np.zeros_like(rows[..., :1]), rows[..., :-1]], -1)
    sums = np.cumsum(rows, -1)
    return np.moveaxis(sums[..., ::-1] if op.reverse else sums, -1, op.axis)


def evaluate(op: Cumsum, inputs: Arrays, ctx: Context) -> Arrays:
    return {"y": ctx.finish(_sums(op, inputs["x"]))}


def bound(op: Cumsum, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    x = inputs["x"]
    error = _sums(op, np.broadcast_to(errors["x"], x.shape))
    if ctx.compute.is_float:
        # Every sum is one of at most all elements, added in any order.
        magnitude = _sums(op, np.abs(x))
        error = error + accumulated(magnitude, x.shape[op.axis], ctx, x)
    return {"y": error}


def domain(op: Cumsum, port: str, ctx: Context) -> Domain:
    return Domain(ints=sum_range(ctx.inputs["x"].dims[op.axis], ctx, "x", factors=1))


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain)
