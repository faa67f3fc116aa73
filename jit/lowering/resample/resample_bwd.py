# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of pooling: each element of dx gathers from the windows that cover it.

With windows of extent w and step s, at most ⌈w / s⌉ windows cover a position in each dim.  Each
element of dy (and of the index) is repeated s times, so that those windows are s elements apart;
each is then counted where it really covers the position.  All in the memory order of dy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from ....graph_api.dtypes import DataType
from ....graph_api.enums import ResampleMode as Mode
from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.resample_bwd import ResampleBwd
from ...emit.builder import Builder, T, Value
from ..padding import pad_with
from . import resize
from .windows import Axis, Positions, axes, both, covered

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit dx = the sum of what each window gives to its elements."""
    op, compute = node.op, node.compute_data_type
    assert isinstance(op, ResampleBwd)
    if op.resizes:
        return resize.lower_backward(b, node, inputs)
    order = inputs["dy"].order or tuple(range(inputs["dy"].rank))
    spatial = axes(op, op.dx_dims, order)
    given = {port: b.permute(value, order) for port, value in inputs.items()}
    if op.resample_mode is Mode.AVGPOOL_EXCLUDE_PADDING:
        share = covered(b, op, spatial, compute)
        given["dy"] = b.binary(T.AtenDivTensorOp, b.convert(given["dy"], compute), share)
    given = {port: _repeated(b, value, spatial) for port, value in given.items()}
    total: Value | None = None
    for back in np.ndindex(*(windows_over(a) for a in spatial)):
        term = _term(b, op, given, spatial, back, compute)
        total = term if total is None else b.add(total, term)
    assert total is not None
    if op.resample_mode is Mode.AVGPOOL_INCLUDE_PADDING:
        total = b.binary(T.AtenDivTensorOp, total, b.literal(prod(op.window), compute, ()))
    if prod(op.window) == 1:
        total = b.copy(total)
    return {"dx": b.permute(total, [order.index(axis) for axis in range(len(order))])}


def windows_over(a: Axis) -> int:
    """Return how many windows may cover a position; a single one is the same for all."""
    return 1 if a.count == 1 else -(-a.window // a.stride)


def _repeated(b: Builder, x: Value, spatial: Sequence[Axis]) -> Value:
    """Return the windows at all positions of dx, and before it as far as windows reach.

    Each is repeated ``stride`` times; positions beyond the first and the last count nowhere.
    """
    padding = [(0, 0)] * x.rank
    for a in spatial:
        times = a.n if a.count == 1 else a.stride
        before, behind = x.shape[: a.dim + 1], x.shape[a.dim + 1 :]
        if times > 1:
            x = b.expand(b.reshape(x, (*before, 1, *behind)), (*before, times, *behind))
            x = b.reshape(x, (*before[:-1], a.count * times, *behind))
    for a in spatial:
        reach = (windows_over(a) - 1) * a.stride
        start = 0 if a.count == 1 else a.before - reach
        stop, most = start + a.n + reach, x.shape[a.dim]
        x = b.slice(x, a.dim, max(start, 0), min(stop, most))
        padding[a.dim] = (max(-start, 0), max(stop - most, 0))
    return pad_with(b, x, padding, 0)


def _term(
    b: Builder,
    op: ResampleBwd,
    given: Mapping[str, Value],
    spatial: Sequence[Axis],
    back: Sequence[int],
    compute: DataType,
) -> Value:
    """Return what the windows ``back`` before the last covering one give to each position."""
    seen, conditions = dict(given), []
    farthest = max(a.n + a.before + a.window for a in spatial)
    kind = DataType.INT32 if farthest < 2**31 else DataType.INT64
    numbers = Positions(b, len(spatial) + 2, kind)
    for a, steps in zip(spatial, back, strict=True):
        start = (windows_over(a) - 1 - steps) * a.stride
        seen = {port: b.slice(v, a.dim, start, start + a.n) for port, v in seen.items()}
        if not _all_valid(a, steps):
            conditions.append(_valid(b, numbers, a, steps))
    if op.resample_mode is Mode.MAXPOOL:
        index = seen["index"]
        wide = DataType.INT64 if index.dtype is DataType.INT64 else DataType.INT32
        here = _indices(b, spatial, wide)
        conditions.append(b.compare(T.AtenEqTensorOp, b.convert(index, wide), here))
    dy = b.convert(seen["dy"], compute)
    known = both(b, conditions)
    return dy if known is None else b.where(known, dy, b.literal(0, compute, ()))


def _all_valid(a: Axis, steps: int) -> bool:
    """Whether the window ``steps`` before the last one covers every position."""
    first, last = a.before, a.before + a.n - 1
    if a.count == 1:
        return last < a.window
    low, high = first // a.stride, last // a.stride
    rest = last % a.stride if low == high else a.stride - 1  # the farthest from its window's start
    return low >= steps and high - steps < a.count and rest + steps * a.stride < a.window


def _valid(b: Builder, numbers: Positions, a: Axis, steps: int) -> Value:
    """Return where that window exists and covers the position."""
    shifted = numbers.every(a.n, a.dim, a.before)
    if a.count == 1:
        return numbers.within(shifted, a.window)
    last = numbers.divided(shifted, a.stride)
    window = b.sub(last, b.literal(steps, numbers.kind, ())) if steps else last
    inside = b.sub(shifted, numbers.scaled(window, a.stride))
    return b.compare(
        T.AtenLogicalAndOp, numbers.within(window, a.count), numbers.within(inside, a.window)
    )


def _indices(b: Builder, spatial: Sequence[Axis], kind: DataType) -> Value:
    """Return the index of each element of the input, counted row by row."""
    numbers, index = Positions(b, len(spatial) + 2, kind), None
    for i, a in enumerate(spatial):
        part = numbers.every(a.n, a.dim)
        part = numbers.scaled(part, prod(c.n for c in spatial[i + 1 :]))
        index = part if index is None else b.add(index, part)
    assert index is not None
    return index
