# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pooling as strided slices of the padded input, one per window position, combined in one loop.

Window positions are taken in row-major order and compared strictly, so that the index is that of
the first of several largest elements.  Everything is computed in the input's memory order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from math import inf, prod
from typing import NamedTuple

import numpy as np

from ....graph_api.dtypes import DataType
from ....graph_api.enums import PaddingMode
from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.resample_fwd import ResampleFwd
from ...emit.builder import Builder, T, Value, integer_range
from ...emit.dims import dynamic
from ...emit.neighbours import combined_neighbours, fits_integer, with_neighbours
from ...emit.structured import inserted
from ..padding import pad_with
from ..sums import largest, total
from . import resize
from .windows import Axis, Positions, axes, both, covered

__all__ = ["lower"]

# With larger windows one dim after the other is pooled: more dispatches, far fewer positions.
_JOINT_POSITIONS = 36
# Loads from which a dispatch of its own for the last dim pays (it costs some microseconds).
_GATHERED_APART = 1 << 16
# Elements whose copy, with padding, takes as long as a dispatch.
_COPIED = 1 << 12


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y = the largest or the average element of each window (and the index)."""
    op, x = node.op, inputs["x"]
    assert isinstance(op, ResampleFwd)
    if op.resizes:
        return resize.lower_forward(b, node, inputs)
    order = x.order or tuple(range(x.rank))
    spatial = axes(op, x.shape, order)
    view = _View(b, op, node.compute_data_type)
    given = b.permute(view.typed(x), order)
    inverse = [order.index(axis) for axis in range(x.rank)]
    if op.generate_index:
        y, index = view.chosen(given, spatial)
        return {"y": b.permute(y, inverse), "index": b.permute(index, inverse)}
    return {"y": b.permute(view.all_pooled(given, spatial), inverse)}


def _kept(b: Builder, best: Value, seen: Value) -> Value:
    """Return where the best so far stays: the first of equals, and the first NaN."""
    largest = b.compare(T.AtenGeTensorOp, best, seen)
    if not best.dtype.is_float:
        return largest
    return b.compare(T.AtenLogicalOrOp, largest, b.compare(T.AtenNeTensorOp, best, best))


class _Padded(NamedTuple):
    """An input with its padding, of ``dtype``; ``together`` elements of a row are an integer."""

    x: Value
    together: int
    dtype: DataType


class _View:
    """Slices of an input, one per position in the windows."""

    def __init__(self, b: Builder, op: ResampleFwd, compute: DataType) -> None:
        self.b, self.op, self.compute = b, op, compute
        # Whether padding is never chosen; else it is 0.
        self.blind = not op.averages and op.padding_mode is not PaddingMode.ZERO_PAD

    def typed(self, x: Value) -> Value:
        """Return the input in the type in which it is padded and compared."""
        # 16-bit floats compare exactly; only sums need the compute type.
        fits = x.dtype.is_float and x.dtype.bits >= 16 and self.compute.holds(x.dtype)
        if fits:
            return x
        wide = self.b.convert(x, self.compute)
        return self.b.materialise(wide) if self.b.strikes("W-028", x.dtype) else wide

    def apart(self, x: Value, a: Axis) -> int:
        """Return how many neighbours along a strided dim are read as one integer."""
        last = self.b.target.is_cpu and a.dim == x.rank - 1 and not self.op.generate_index
        return a.stride if last and not dynamic(x.shape) and fits_integer(x.dtype, a.stride) else 1

    def padding(self, x: Value, dims: Sequence[Axis]) -> tuple[list[tuple[int, int]], int]:
        """Return what is padded in each dim, and how many elements are one integer then."""
        padding, together = [(0, 0)] * x.rank, 1
        for a in dims:
            count = self.apart(x, a)
            together *= count
            padding[a.dim] = (a.before, a.behind + -(a.before + a.n + a.behind) % count)
        return padding, together

    def lowest(self, dtype: DataType) -> float:
        """Return what padding holds."""
        if not self.blind:
            return 0
        return -inf if dtype.is_float else integer_range(dtype)[0]

    def prepared(self, x: Value, dims: Sequence[Axis]) -> _Padded:
        """Return the input with its padding."""
        padding, together = self.padding(x, dims)
        padded = pad_with(self.b, x, padding, self.lowest(x.dtype))
        return self.together(padded, together)

    def together(self, x: Value, count: int) -> _Padded:
        """Return a padded input with so many elements of a row as one integer."""
        return _Padded(with_neighbours(self.b, x, count) if count > 1 else x, count, x.dtype)

    def at(self, padded: Value, dims: Sequence[Axis], offset: Sequence[int]) -> Value:
        """Return the elements of a padded input at one position of all windows."""
        for a, t in zip(dims, offset, strict=True):
            padded = self.b.slice(padded, a.dim, t, t + (a.count - 1) * a.stride + 1, a.stride)
        return padded

    def all_pooled(self, x: Value, spatial: Sequence[Axis]) -> Value:
        """Return the largest elements, or the averages."""
        b, op = self.b, self.op
        whole = [a for a in spatial if a.count == 1 and not op.padded]
        y = self.whole(x, whole) if whole else x
        rest = [a for a in spatial if a not in whole and (a.window, a.stride) != (1, 1)]
        rest.sort(key=lambda a: a.dim)
        groups = self.groups(rest, y)
        padded: _Padded | None = None
        for group, following in pairwise([*groups, []]):
            if padded is None and (padded := self.uncut(y, group, following)):
                y = padded.x  # which is all where nothing follows
            else:
                y, padded = self.pooled(padded or self.prepared(y, group), group), None
        if prod(op.window) == 1:
            return b.copy(y)
        if op.averages:
            divisor = covered(b, op, spatial, self.compute)
            return b.binary(T.AtenDivTensorOp, b.convert(y, self.compute), divisor)
        return y

    def groups(self, dims: Sequence[Axis], x: Value) -> list[list[Axis]]:
        """Return the dims of an input that are pooled together, in order."""
        positions = prod(a.window for a in dims)
        if positions > _JOINT_POSITIONS:
            return [[a] for a in dims]
        counts = {a.dim: a.count for a in dims}
        loads = positions * prod(counts.get(i, d) for i, d in enumerate(x.shape))
        # Along a strided last dim elements are loaded one by one on a CPU: fewer, once the other
        # dims are pooled (3x3, stride 2, 64x112x112: 2.29 ms of CPU time, now 1.28).
        many = loads >= _GATHERED_APART or dynamic(x.shape)
        apart = many and self.b.target.is_cpu
        last = [a for a in dims if apart and a.dim == x.rank - 1 and a.stride > 1]
        return [group for group in ([a for a in dims if a not in last], last) if group]

    def whole(self, x: Value, dims: Sequence[Axis]) -> Value:
        """Return x reduced over dims in which there is one window."""
        b = self.b
        for a in dims:
            x = b.slice(x, a.dim, 0, a.window)
        over = [a.dim for a in dims if a.window > 1]
        if not over:
            return x
        if self.op.averages:
            return total(b, b.convert(x, self.compute), over)
        return largest(b, x, over)

    def pooled(self, padded: _Padded, dims: Sequence[Axis]) -> Value:
        """Return the largest elements, or the sums, of windows over some dims."""
        b, offsets = self.b, [*np.ndindex(*(a.window for a in dims))]
        if padded.together == 1:
            return self.combined(self.at(padded.x, dims, offset) for offset in offsets)
        # The last of the dims, where an integer holds as many elements as it has strides.
        *others, last = dims
        along = replace(last, stride=1)
        seen: dict[tuple[int, ...], Value] = {}
        found = []
        for *offset, t in offsets:
            place = (*offset, t // last.stride)
            if place not in seen:
                seen[place] = self.at(padded.x, [*others, along], place)
            found.append((seen[place], t % last.stride))
        kind = self.compute if self.op.averages else padded.dtype
        return combined_neighbours(b, found, padded.dtype, kind, added=self.op.averages)

    def combined(self, seen: Iterable[Value]) -> Value:
        """Return the largest, or the sum, of what is seen at some positions."""
        b, averages = self.b, self.op.averages
        given = (b.convert(one, self.compute) if averages else one for one in seen)
        return reduce(b.add if averages else b.maximum, given)

    def uncut(self, x: Value, dims: Sequence[Axis], following: Sequence[Axis]) -> _Padded | None:
        """Return the results of windows over one dim, whose input is not padded, but they are.

        Windows that lap over the input have fewer elements, and are computed apart.  None where
        that costs more than a padded copy, or elements of the padding count.
        """
        b, (a, *more) = self.b, dims
        counted = not (self.op.averages or self.blind)
        padded = a.before or a.behind
        if (
            more
            or counted
            or not padded
            or not b.target.is_cpu
            or dynamic(x.shape)
            or self.apart(x, a) > 1
        ):
            return None
        counts = Counter(a.inside(i) for i in range(a.count))
        if prod(x.shape) <= _COPIED * (len(counts) - 1):
            return None
        kind = self.compute if self.op.averages else x.dtype
        shape = [*x.shape]
        shape[a.dim] = a.count
        padding, together = self.padding(Value(x.ssa, tuple(shape), kind), following)
        whole = [pre + d + post for d, (pre, post) in zip(shape, padding, strict=True)]
        y, first, parts = b.literal(self.lowest(kind), kind, whole), 0, []
        for (low, high), count in counts.items():
            starts = (first * a.stride - a.before + t for t in range(low, high))
            span = (count - 1) * a.stride + 1
            seen = (b.slice(x, a.dim, start, start + span, a.stride) for start in starts)
            place = [pre + first * (i == a.dim) for i, (pre, _) in enumerate(padding)]
            parts.append((self.combined(seen), place))
            first += count
        # The first one is written where it is computed, the others are copied.
        for part, place in sorted(parts, key=lambda one: -one[0].shape[a.dim]):
            y = inserted(b, part, y, place)
        return self.together(y, together)

    def chosen(self, x: Value, spatial: Sequence[Axis]) -> tuple[Value, Value]:
        """Return the largest elements and their positions."""
        b, best, index = self.b, None, None
        padded = self.prepared(x, spatial).x
        for offset in np.ndindex(*(a.window for a in spatial)):
            seen, position = self.at(padded, spatial, offset), self.index(spatial, offset, x.rank)
            if best is None or index is None:
                best, index = seen, b.expand(position, seen.shape)
                continue
            kept = _kept(b, best, seen)
            best, index = b.where(kept, best, seen), b.where(kept, index, position)
        assert best is not None
        assert index is not None
        return b.copy(best) if prod(self.op.window) == 1 else best, index

    def index(self, spatial: Sequence[Axis], offset: Sequence[int], rank: int) -> Value:
        """Return the index, counted row by row, of one position of each window."""
        b, position, valid = self.b, None, []
        kind = DataType.INT32 if prod(a.n for a in spatial) < 2**31 else DataType.INT64
        numbers = Positions(b, rank, kind)
        for i, (a, t) in enumerate(zip(spatial, offset, strict=True)):
            part = numbers.every(a.count, a.dim, t - a.before, a.stride)
            if a.before or a.behind:
                if not self.blind:
                    valid.append(numbers.within(part, a.n))
                part = numbers.clamped(part, 0, a.n - 1)
            part = numbers.scaled(part, prod(c.n for c in spatial[i + 1 :]))
            position = part if position is None else b.add(position, part)
        assert position is not None
        inside = both(b, valid)
        return position if inside is None else b.where(inside, position, b.literal(-1, kind, ()))
