# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sampling positions of a resized dim, in integer arithmetic.

Element o of the result is sampled at ``(step · o + start) / unit`` of the input.  Nothing is
rounded, so that ties and long dims are exact; weights are counted in units, ``unit`` being 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np

from ....graph_api.dtypes import DataType
from ....graph_api.enums import ResampleMode, ResizeCoordinates
from ....graph_api.ops.resample_fwd import ResampleOp
from ...emit.builder import Builder, T, Value
from .windows import Positions

__all__ = ["Line", "Neighbours", "Numbers", "Table", "ends", "lines", "users"]

Ints = tuple[int, ...]
Table = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class Line:
    """One dim: ``out`` elements of the result, at ``(step · o + start) / unit`` of ``n`` elements.

    ``dim`` is its index in memory order.  For NEAREST the position, rounded down, is the element.
    """

    dim: int
    n: int
    out: int
    step: int
    start: int
    unit: int
    nearest: bool

    @property
    def top(self) -> int:
        """The position of the input's last element, in units."""
        return (self.n - 1) * self.unit

    @property
    def first(self) -> int:
        """The element that NEAREST takes for the first one of the result."""
        return self.start // self.unit

    @property
    def whole(self) -> bool:
        """Whether NEAREST takes elements at equal distances, each equally often."""
        # What is asked is linear in the element, so that it holds for all if for both ends.
        step, start, unit = self.step, self.start, self.unit
        if self.out > self.n:
            times = self.out // self.n
            return self.out % self.n == 0 and all(
                unit * i <= step * times * i + start
                and step * (times * i + times - 1) + start < unit * (i + 1)
                for i in (0, self.n - 1)
            )
        by = self.n // self.out
        return self.n % self.out == 0 and all(
            0 <= step * o + start - unit * (self.first + by * o) < unit for o in (0, self.out - 1)
        )

    @cached_property
    def users(self) -> int:
        """How many elements of the result use an element of the input, at most.

        Found without looking at each of them: dims may have 2^40 elements.
        """
        n, out, step, start, unit = self.n, self.out, self.step, self.start, self.unit
        if not step or n == 1:
            return out
        # Where neither end of the result cuts the users of element i off, their number depends
        # on where i lies between two of the result's elements, and grows with that remainder.
        back = 0 if self.nearest else 1
        low = max(0, back - (step - start) // unit)
        high = min(n - 1, (step * out + start) // unit - 1)
        ends = (0, low - 1, low, high, high + 1, n - 1)
        most = max(self._users(i) for i in ends if 0 <= i < n)
        if low <= high:
            shift = -start - 1 if self.nearest else -unit - start
            rest = _largest_rest(unit, unit * low + shift, step, high - low + 1)
            if self.nearest:
                most = max(most, -((step - 1 - rest - unit) // step))
            else:
                most = max(most, -((-rest - 2 * unit) // step) - 1)
        return most

    def _users(self, i: int) -> int:
        """Return how many elements of the result use element i of the input."""

        def before(position: int) -> int:
            """Return how many elements of the result are sampled before a position, in units."""
            return min(max(-((self.start - position) // self.step), 0), self.out)

        if self.nearest:
            return before(self.unit * (i + 1)) - before(self.unit * i)
        first = before(self.unit * (i - 1) + 1) if i else 0
        return (before(self.unit * (i + 1)) if i < self.n - 1 else self.out) - first

    def end_weights(self, neighbour: int) -> Table:
        """Return the weights of ``ends`` of BILINEAR, for each element of the result."""
        at = np.arange(self.out, dtype=np.int64) * self.step + self.start
        at = at.clip(0, self.top)
        beyond = at - np.minimum(at // self.unit, self.n - 2) * self.unit
        weights: Table = (beyond if neighbour else self.unit - beyond) / self.unit
        return weights


def _largest_rest(factor: int, offset: int, divisor: int, count: int) -> int:
    """Return the largest (factor · i + offset) mod divisor of the first ``count`` i."""
    below, largest = _floor_sum(count, divisor, factor, offset), 0
    for bit in reversed(range(divisor.bit_length())):
        # Numbers whose rest is that large get into the next multiple with what is missing.
        wanted = largest + (1 << bit)
        if wanted < divisor and (
            _floor_sum(count, divisor, factor, offset + divisor - wanted) > below
        ):
            largest = wanted
    return largest


def _floor_sum(count: int, divisor: int, factor: int, offset: int) -> int:
    """Return the sum of (factor · i + offset) // divisor over the first ``count`` i.

    Points of a lattice below a line, counted as in Euclid's algorithm.
    """
    total = 0
    while True:
        whole, factor = divmod(factor, divisor)
        total += whole * count * (count - 1) // 2
        whole, offset = divmod(offset, divisor)
        total += whole * count
        top = factor * count + offset
        if top < divisor:
            return total
        count, offset = divmod(top, divisor)
        divisor, factor = factor, divisor


def lines(op: ResampleOp, x: Sequence[int], result: Sequence[int], order: Ints) -> list[Line]:
    """Return the dims whose extents change, of inputs whose dims are permuted to ``order``."""
    return [
        _line(op, order.index(dim), x[dim], result[dim])
        for dim in range(2, len(x))
        if x[dim] != result[dim]
    ]


def _line(op: ResampleOp, dim: int, n: int, out: int) -> Line:
    nearest = op.resample_mode is ResampleMode.NEAREST
    if op.coordinates is ResizeCoordinates.ALIGN_CORNERS:
        step, start, unit = (n - 1 if out > 1 else 0), 0, max(out - 1, 1)
    elif op.coordinates is ResizeCoordinates.ASYMMETRIC:
        step, start, unit = n, 0, out
    else:
        step, start, unit = 2 * n, n - out, 2 * out
    if nearest and op.coordinates is not ResizeCoordinates.ASYMMETRIC:
        step, start, unit = 2 * step, 2 * start + unit, 2 * unit  # 1/2 more
    common = gcd(step, start, unit)
    return Line(dim, n, out, step // common, start // common, unit // common, nearest)


class Numbers:
    """Integers along one of ``rank`` dims."""

    def __init__(self, b: Builder, rank: int, line: Line) -> None:
        extent = max((line.out + line.users) * line.step, (line.n + 1) * line.unit + line.step)
        self.kind = DataType.INT32 if extent + abs(line.start) < 2**31 else DataType.INT64
        self.b, self.rank, self.line = b, rank, line
        self.positions = Positions(b, rank, self.kind)

    def literal(self, value: int) -> Value:
        """Return a number."""
        return self.b.literal(value, self.kind, ())

    def run(self, count: int, at: int, start: int, step: int) -> Value:
        """Return start, start + step... along dim ``at``."""
        if step:
            return self.positions.every(count, at, start, step)
        shape = [count if i == at else 1 for i in range(self.rank)]
        return self.b.literal(start, self.kind, shape)

    def weight(self, units: Value, compute: DataType) -> Value:
        """Return a number of units as a weight."""
        # Narrower types do not hold all of them.
        wide = DataType.DOUBLE if compute is DataType.DOUBLE else DataType.FLOAT
        whole = self.b.literal(self.line.unit, wide, ())
        share = self.b.binary(T.AtenDivTensorOp, self.b.convert(units, wide), whole)
        return self.b.convert(share, compute)


Neighbours = Callable[[Numbers, int, int | None], tuple[Value, Value]]
"""From numbers, the line's dim, and which neighbour (None: all, in the dim after it) to the
indices of the elements that are read, and their weights in units."""


def ends(of: Numbers, at: int, neighbour: int | None) -> tuple[Value, Value]:
    """Return the lower (0) or upper (1) element around the result's positions; or the nearest."""
    b, a, numbers = of.b, of.line, of.positions
    position = of.run(a.out, at, a.start, a.step)
    if a.nearest:
        return numbers.divided(position, a.unit), of.literal(a.unit)
    position = numbers.clamped(position, 0, a.top)
    low = numbers.clamped(numbers.divided(position, a.unit), 0, a.n - 2)
    beyond = b.sub(position, numbers.scaled(low, a.unit))
    if neighbour:
        return b.add(low, of.literal(1)), beyond
    return low, b.sub(of.literal(a.unit), beyond)


def users(of: Numbers, at: int, neighbour: int | None) -> tuple[Value, Value]:
    """Return the elements of the result that use each element of the input.

    They are consecutive from the first candidate on; those after the last one have no weight.
    """
    b, a, numbers = of.b, of.line, of.positions
    index = of.run(a.users, at + 1, 0, 1) if neighbour is None else of.literal(neighbour)
    first = of.run(a.n, at, 0, 0)
    if a.step:
        # The least o with step · o + start > unit · (i - 1), or for NEAREST ≥ unit · i.
        ahead = a.step - 1 if a.nearest else a.step - a.unit
        bound = of.run(a.n, at, ahead - a.start, a.unit)
        bound = numbers.clamped(bound, 0, a.n * a.unit + a.step + abs(a.start))
        first = numbers.divided(bound, a.step)
    index = b.add(first, index)
    inside = numbers.clamped(index, 0, a.out - 1)
    position = b.unary(T.AtenMulScalarOp, inside, a.step)
    position = b.add(position, of.literal(a.start)) if a.start else position
    used = numbers.within(index, a.out)
    if a.nearest:
        taken = numbers.divided(position, a.unit)
        used = b.compare(
            T.AtenLogicalAndOp, used, b.compare(T.AtenEqTensorOp, taken, of.run(a.n, at, 0, 1))
        )
        return inside, b.where(used, of.literal(a.unit), of.literal(0))
    away = b.sub(numbers.clamped(position, 0, a.top), of.run(a.n, at, 0, a.unit))
    sides = [side(of.literal(a.unit), away) for side in (b.sub, b.add)]
    units = numbers.clamped(b.binary(T.AtenMinimumOp, *sides), 0, a.unit)
    return inside, b.where(used, units, of.literal(0))
