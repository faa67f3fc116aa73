# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Resizing by BILINEAR and NEAREST, and its gradient.

Every element of the result is a weighted sum of a few neighbouring elements: those around its
position, or for the gradient those that it had a weight in.  Their indices and weights follow
from integers that are computed where they are used (``resize_lines``).  All dims are gathered at
once, so that one dispatch is enough for every layout and factor.  NEAREST by integer factors
repeats or skips elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np
from torch_mlir import ir

from ....graph_api.dtypes import DataType
from ....graph_api.enums import ResampleMode
from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.resample_bwd import ResampleBwd
from ....graph_api.ops.resample_fwd import ResampleFwd
from ...emit.builder import Builder, T, Value
from ...emit.dims import broadcast
from .. import sums
from .resize_lines import Line, Neighbours, Numbers, ends, lines, users
from .windows import Positions

__all__ = ["lower_backward", "lower_forward"]

Ints = tuple[int, ...]

# More neighbours become a dim that is summed over: two dispatches, and code that stays short.
_UNROLLED = 36
# On the CPU weights of the forward op are read from tables, of at most so many: where
# nothing is read along single dims, one loop of all dims finds indices by division (measured: the
# tables halve the time, channels-first and last; the gradient's time stays).
_TABLE = 4096


def lower_forward(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y = x resized."""
    op, x = node.op, inputs["x"]
    assert isinstance(op, ResampleFwd)
    order = _order(x)
    given = b.permute(x, order)
    changed = lines(op, x.shape, (*x.shape[:2], *op.size), order)
    if op.resample_mode is ResampleMode.NEAREST and all(a.whole for a in changed):
        y = given if changed else b.copy(given)
        for a in changed:
            y = _by_whole_factor(b, y, a)
    else:
        y = _resized(b, given, changed, node.compute_data_type)
    return {"y": b.permute(y, [order.index(axis) for axis in range(x.rank)])}


def lower_backward(
    b: Builder, node: FrozenNode, inputs: Mapping[str, Value]
) -> Mapping[str, Value]:
    """Emit dx = the sum of dy's elements, each times the weight that x's element had in it."""
    op, dy, compute = node.op, inputs["dy"], node.compute_data_type
    assert isinstance(op, ResampleBwd)
    order = _order(dy)
    given = b.permute(dy, order)
    changed = lines(op, op.dx_dims, dy.shape, order)
    repeats = op.resample_mode is ResampleMode.NEAREST and all(
        a.whole and a.out > a.n for a in changed
    )
    if not changed:
        dx = b.copy(b.convert(given, compute))
    elif repeats:
        dx = _summed_copies(b, b.convert(given, compute), changed)
    elif prod(a.users for a in changed) > _UNROLLED:
        dx = _summed(b, b.standing_alone(given), changed, compute)
    else:
        counts = [a.users for a in changed]
        given = b.standing_alone(given)
        dx = _added(b, given, changed, counts, users, compute)
    return {"dx": b.permute(dx, [order.index(axis) for axis in range(dy.rank)])}


def _order(x: Value) -> Ints:
    """Return the order of dims to work in: memory order, if spatial dims are adjacent there."""
    positions = [i for i, dim in enumerate(x.order) if dim >= 2]
    run = bool(positions) and positions[-1] - positions[0] == len(positions) - 1
    return x.order if run else tuple(range(x.rank))


def _resized(b: Builder, x: Value, changed: Sequence[Line], compute: DataType) -> Value:
    """Return the elements around each position, weighted; the nearest one by itself."""
    read = [a for a in changed if a.n > 1]
    if read:
        x = b.standing_alone(x)
        if read[0].nearest:
            run = _Run.of(x, read)
            x = run.gather(b, x, [ends(run.numbers(b, a), run.at(a), 0)[0] for a in read])
        else:
            x = _added(b, x, read, [2] * len(read), ends, compute)
    else:
        x = b.copy(x)
    alone = {a.dim: a.out for a in changed if a.n == 1}
    return b.expand(x, [alone.get(i, d) for i, d in enumerate(x.shape)])


def _by_whole_factor(b: Builder, x: Value, a: Line) -> Value:
    """Return each element several times, or one of several elements."""
    if a.out < a.n:
        first, step = a.first, a.n // a.out
        return b.slice(x, a.dim, first, first + (a.out - 1) * step + 1, step)
    before, behind = x.shape[: a.dim + 1], x.shape[a.dim + 1 :]
    x = b.expand(b.reshape(x, (*before, 1, *behind)), (*before, a.out // a.n, *behind))
    return b.reshape(x, (*before[:-1], a.out, *behind))


def _summed_copies(b: Builder, dy: Value, changed: Sequence[Line]) -> Value:
    """Return the sums of elements that are copies of one."""
    shape, copies = list(dy.shape), []
    for i, a in enumerate(sorted(changed, key=lambda a: a.dim)):
        shape[a.dim + i : a.dim + i + 1] = [a.n, a.out // a.n]
        copies.append(a.dim + i + 1)
    return sums.total(b, b.reshape(dy, shape), copies, keep=False)


@dataclass(frozen=True, slots=True)
class _Run:
    """Adjacent dims that are gathered by index: some lines, and the dims between them.

    ``own`` is the number of dims of a line's indices: one, or two with all its neighbours.
    """

    first: int
    extents: Ints
    lines: tuple[Line, ...]
    own: int = 1

    @staticmethod
    def of(x: Value, read: Sequence[Line], own: int = 1) -> _Run:
        """Return the shortest run that holds the dims of x that are read."""
        first, last = min(a.dim for a in read), max(a.dim for a in read)
        return _Run(first, x.shape[first : last + 1], tuple(read), own)

    @property
    def rank(self) -> int:
        """The rank of the indices."""
        return len(self.extents) + len(self.lines) * (self.own - 1)

    def at(self, a: Line) -> int:
        """Return which of them is a line's (first)."""
        before = sum(c.dim < a.dim for c in self.lines)
        return a.dim - self.first + before * (self.own - 1)

    def numbers(self, b: Builder, a: Line) -> Numbers:
        """Return the numbers of a line, shaped as the indices."""
        return Numbers(b, self.rank, a)

    def gather(self, b: Builder, x: Value, positions: Sequence[Value]) -> Value:
        """Return x at indices of the lines' dims, the others as they are."""
        by_dim = {a.dim: position for a, position in zip(self.lines, positions, strict=True)}
        indices = []
        for dim, extent in enumerate(self.extents, self.first):
            if dim not in by_dim:
                before = sum(a.dim < dim for a in self.lines)
                at = dim - self.first + before * (self.own - 1)
                by_dim[dim] = Positions(b, self.rank, DataType.INT32).every(extent, at)
            indices.append(b.convert(by_dim[dim], DataType.INT64))  # as torch-mlir wants them
        found = broadcast(*(index.shape for index in indices))
        shape = (*x.shape[: self.first], *found, *x.shape[self.first + len(self.extents) :])
        kind = ir.Type.parse("!torch.list<optional<vtensor>>")
        values = [b.constant(None)] * self.first + [index.ssa for index in indices]
        listed = T.PrimListConstructOp(kind, values).result
        op = T.AtenIndexTensorOp(b.type(shape, x.dtype), x.ssa, listed)
        return b.value(op.result, shape, x.dtype)


def _added(
    b: Builder,
    x: Value,
    read: Sequence[Line],
    counts: Sequence[int],
    find: Neighbours,
    compute: DataType,
) -> Value:
    """Return the weighted sums, with a term for each neighbour."""
    run, total = _Run.of(x, read), None
    positions = [
        [find(run.numbers(b, a), run.at(a), neighbour)[0] for neighbour in range(count)]
        for a, count in zip(read, counts, strict=True)
    ]
    weights = [
        [_weight(b, x.rank, a, find, neighbour, compute) for neighbour in range(count)]
        for a, count in zip(read, counts, strict=True)
    ]
    for neighbours in np.ndindex(*counts):
        at, by = (
            [of[k] for of, k in zip(each, neighbours, strict=True)] for each in (positions, weights)
        )
        term = b.convert(run.gather(b, x, at), compute)
        term = _weighted(b, term, by, masked=find is users)
        total = term if total is None else b.add(total, term)
    assert total is not None
    return total


def _summed(b: Builder, dy: Value, changed: Sequence[Line], compute: DataType) -> Value:
    """Return the gradient's sums, over a dim of neighbours after each dim that is read."""
    read = sorted(changed, key=lambda a: a.dim)
    run, extents = _Run.of(dy, read, own=2), list(dy.shape)
    at = [a.dim + i for i, a in enumerate(read)]
    for a, position in zip(read, at, strict=True):
        extents[position : position + 1] = [a.n, a.users]
    positions = [users(run.numbers(b, a), run.at(a), None)[0] for a in read]
    rank = len(extents)
    shares = [users(Numbers(b, rank, a), i, None)[1] for a, i in zip(read, at, strict=True)]
    seen = b.convert(run.gather(b, dy, positions), compute)
    weights = [
        Numbers(b, rank, a).weight(share, compute) for a, share in zip(read, shares, strict=True)
    ]
    parts = _weighted(b, seen, weights, masked=True)
    return sums.total(b, parts, [position + 1 for position in at], keep=False)


def _weight(
    b: Builder, rank: int, a: Line, find: Neighbours, neighbour: int, compute: DataType
) -> Value:
    """Return the weights of a neighbour: computed, or as a constant table."""
    if find is users or not b.target.is_cpu or a.out > _TABLE:
        numbers = Numbers(b, rank, a)
        return numbers.weight(find(numbers, a.dim, neighbour)[1], compute)
    table = a.end_weights(neighbour)
    return b.table(table.reshape([table.size if i == a.dim else 1 for i in range(rank)]), compute)


def _weighted(b: Builder, terms: Value, weights: Sequence[Value], *, masked: bool) -> Value:
    """Return terms times the weights of all lines.

    Masked, those without a weight, which stand for what is outside, do not count even as infinity.
    """
    weight = reduce(b.mul, weights)
    if masked:
        some = b.call(T.AtenGtScalarOp, weight.shape, DataType.BOOLEAN, weight, 0.0)
        terms = b.where(some, terms, b.literal(0, terms.dtype, ()))
    return b.mul(terms, weight)
