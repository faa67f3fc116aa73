# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions: every mode works on rows, the reduced elements contiguous."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.enums import ReductionMode
from ...graph_api.ops.reduction import Reduction
from .analysis import accumulated, sum_range
from .base import Arrays, Context, Domain, Reference
from .convert import Array, wrap

__all__ = ["REFERENCE"]

_M = ReductionMode
Dims = tuple[int, ...]


def _no_zeros(rows: Array) -> Array:
    return np.where(rows == 0, 1, rows)


_FLOAT: dict[ReductionMode, Callable[[Array], Array]] = {
    _M.ADD: lambda r: r.sum(-1),
    _M.MUL: lambda r: r.prod(-1),
    _M.MIN: lambda r: r.min(-1),
    _M.MAX: lambda r: r.max(-1),
    _M.AMAX: lambda r: np.abs(r).max(-1),
    _M.AVG: lambda r: r.mean(-1),
    _M.NORM1: lambda r: np.abs(r).sum(-1),
    _M.NORM2: lambda r: np.sqrt(np.square(r).sum(-1)),
    _M.MUL_NO_ZEROS: lambda r: _no_zeros(r).prod(-1),
}


def _integer(mode: ReductionMode, rows: Array, compute: DataType) -> Array:
    """Return a reduction in integers; |x|, sums and products wrap."""
    if mode in (_M.AMAX, _M.NORM1):
        rows, mode = wrap(np.abs(rows), compute), _M.MAX if mode is _M.AMAX else _M.ADD
    return wrap(_FLOAT[mode](rows), compute)


def _axes(ctx: Context) -> Dims:
    x, y = ctx.inputs["x"].dims, ctx.outputs["y"].dims
    return tuple(i for i, (m, n) in enumerate(zip(x, y, strict=True)) if n == 1 and m > 1)


def _rows(x: Array, ctx: Context) -> Array:
    """Return (kept..., n), contiguous, so that NumPy adds pairwise."""
    axes = _axes(ctx)
    moved = np.moveaxis(x, axes, range(-len(axes), 0)) if axes else x[..., None]
    return np.ascontiguousarray(moved).reshape(*moved.shape[: x.ndim - len(axes)], -1)


def evaluate(op: Reduction, inputs: Arrays, ctx: Context) -> Arrays:
    rows = _rows(inputs["x"], ctx)
    real = ctx.compute.is_float
    y = _FLOAT[op.mode](rows) if real else _integer(op.mode, rows, ctx.compute)
    return {"y": y.reshape(ctx.outputs["y"].dims)}


def bound(op: Reduction, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    x = _rows(inputs["x"], ctx)
    e = _rows(np.broadcast_to(errors["x"], inputs["x"].shape), ctx)
    y = outputs["y"].reshape(x.shape[:-1]).astype(np.float64)
    return {"y": _BOUNDS[op.mode](x, e, y, ctx).reshape(ctx.outputs["y"].dims)}


def _beyond(magnitude: Array, ctx: Context) -> Array:
    """Return infinity where sums, in some order, leave the compute type: a mean is not then."""
    return np.where(magnitude > (ctx.compute.largest or np.inf), np.inf, 0.0)


def _sum_bound(x: Array, e: Array, y: Array, ctx: Context) -> Array:
    error = e.sum(-1)
    if not ctx.compute.is_float:
        return error
    magnitude = np.abs(x).sum(-1)
    return (
        error
        + accumulated(magnitude, x.shape[-1], ctx, x)
        + _beyond(magnitude.astype(np.float64) + error, ctx)
    )


def _mean_bound(x: Array, e: Array, y: Array, ctx: Context) -> Array:
    # Two more roundings where the sum is multiplied by a rounded 1/n.
    return _sum_bound(x, e, y, ctx) / x.shape[-1] + 2 * ctx.roundoff * np.abs(y)


def _product_bound(x: Array, e: Array, y: Array, ctx: Context) -> Array:
    size = np.abs(x).astype(np.float64)
    each = np.prod(size + e, -1)
    return each - np.prod(size, -1) + x.shape[-1] * ctx.roundoff * each


def _no_zeros_bound(x: Array, e: Array, y: Array, ctx: Context) -> Array:
    known = _product_bound(_no_zeros(x), np.where(x == 0, 0.0, e), y, ctx)
    # Where an error decides whether an element counts as zero, there is no bound.
    return np.where(((e > 0) & (np.abs(x) <= e)).any(-1), np.inf, known)


def _norm_bound(x: Array, e: Array, y: Array, ctx: Context) -> Array:
    squares = np.square(x.astype(np.float64)).sum(-1)
    error = accumulated(squares, x.shape[-1], ctx, x) + _beyond(squares, ctx)
    # |sqrt(s + d) - sqrt(s)| <= d / sqrt(s); the root itself is good to 3 units.
    root = np.where(y > 0, error / np.where(y > 0, y, 1.0), np.sqrt(error))
    return root + np.sqrt(np.square(e).sum(-1)) + 3 * ctx.roundoff * y


def _largest_bound(x: Array, e: Array, y: Array, ctx: Context) -> Array:
    return e.max(-1)


_BOUNDS: dict[ReductionMode, Callable[[Array, Array, Array, Context], Array]] = {
    _M.ADD: _sum_bound,
    _M.MUL: _product_bound,
    _M.MIN: _largest_bound,
    _M.MAX: _largest_bound,
    _M.AMAX: _largest_bound,
    _M.AVG: _mean_bound,
    _M.NORM1: _sum_bound,
    _M.NORM2: _norm_bound,
    _M.MUL_NO_ZEROS: _no_zeros_bound,
}


def domain(op: Reduction, port: str, ctx: Context) -> Domain:
    n = int(np.prod([ctx.inputs["x"].dims[a] for a in _axes(ctx)], dtype=np.int64))
    if op.mode in (_M.MUL, _M.MUL_NO_ZEROS):
        spread = min(0.25, 2.0 / n**0.5)
        zeros = 0.25 if op.mode is _M.MUL_NO_ZEROS else 0.0
        top = 2 if n <= 24 else 1
        return Domain(
            low=-1 - spread,
            high=1 + spread,
            away=1 - spread,
            zeros=zeros,
            ints=(-top, top),
            strict=True,
        )
    return Domain(ints=sum_range(n, ctx, "x", factors=1))


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain, leaves_type=True)
