# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pooling as strided slices of the padded input, one per window position, combined in one loop.

Window positions are taken in row-major order and compared strictly, so that the index is that of
the first of several largest elements.  Everything is computed in the input's memory order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, prod

import numpy as np

from ....graph_api.dtypes import DataType
from ....graph_api.enums import PaddingMode
from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.resample_fwd import ResampleFwd
from ...emit.builder import Builder, T, Value, integer_range
from ...emit.dims import Dim
from ..padding import pad_with
from . import resize
from .windows import Axis, Positions, axes, both, covered

__all__ = ["lower"]

# With larger windows one dim after the other is pooled: more dispatches, far fewer positions.
_JOINT_POSITIONS = 36
# Loads from which a dispatch of its own for the last dim pays (it costs some microseconds).
_GATHERED_APART = 1 << 16


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

    def prepared(self, x: Value, dims: Sequence[Axis]) -> Value:
        """Return the input with its padding."""
        padding = [(0, 0)] * x.rank
        for a in dims:
            padding[a.dim] = (a.before, a.behind)
        lowest = -inf if x.dtype.is_float else integer_range(x.dtype)[0]
        return pad_with(self.b, x, padding, lowest if self.blind else 0)

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
        for group in self.groups(rest, y):
            y = self.pooled(y, group)
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
        # An open batch counts as a large one.
        many = loads >= _GATHERED_APART or any(isinstance(d, Dim) for d in x.shape)
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
        shape = [1 if i in over else d for i, d in enumerate(x.shape)]
        if self.op.averages:
            x = b.convert(x, self.compute)
            return b.call(T.AtenSumDimIntListOp, shape, self.compute, x, over, True, None)
        return b.call(T.AtenAmaxOp, shape, x.dtype, x, over, True)

    def pooled(self, x: Value, dims: Sequence[Axis]) -> Value:
        """Return the largest elements, or the sums, of windows over some dims."""
        b, result = self.b, None
        padded = self.prepared(x, dims)
        for offset in np.ndindex(*(a.window for a in dims)):
            seen = self.at(padded, dims, offset)
            if self.op.averages:
                seen = b.convert(seen, self.compute)
                result = seen if result is None else b.add(result, seen)
            else:
                result = seen if result is None else b.maximum(result, seen)
        assert result is not None
        return result

    def chosen(self, x: Value, spatial: Sequence[Axis]) -> tuple[Value, Value]:
        """Return the largest elements and their positions."""
        b, best, index = self.b, None, None
        padded = self.prepared(x, spatial)
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
