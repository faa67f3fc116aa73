# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Windows of pooling: which positions they cover.

Positions are computed where they are used, from the element's index: a table of them would be
read from memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ....graph_api.dtypes import DataType
from ....graph_api.enums import ResampleMode
from ....graph_api.ops.resample_fwd import ResampleOp
from ...emit.builder import Builder, T, Value

__all__ = ["Axis", "Positions", "axes", "both", "covered"]

Ints = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """A spatial dim of ``n`` elements: ``count`` windows of extent ``window``, ``stride`` apart.

    The first window begins ``before`` positions before the input; ``dim`` counts in memory order.
    """

    dim: int
    n: int
    window: int
    stride: int
    before: int
    count: int

    @property
    def behind(self) -> int:
        """How many positions after the input the last window covers."""
        return max((self.count - 1) * self.stride - self.before + self.window - self.n, 0)

    def inside(self, i: int) -> tuple[int, int]:
        """Return which positions of a window are in the input: the first, and one past the last."""
        start = i * self.stride - self.before
        return max(-start, 0), min(self.n - start, self.window)


def axes(op: ResampleOp, dims: Sequence[int], order: Ints) -> tuple[Axis, ...]:
    """Return the spatial dims of an input (N, C, spatial...) that is permuted to memory order."""
    counts = op.extents(tuple(dims[2:]))
    return tuple(
        Axis(order.index(dim), dims[dim], op.window[i], op.stride[i], op.pre_padding[i], counts[i])
        for i, dim in enumerate(range(2, len(dims)))
    )


class Positions:
    """Integers along one dim, with extent 1 in all others."""

    def __init__(self, b: Builder, rank: int, kind: DataType) -> None:
        self.b, self.rank, self.kind = b, rank, kind

    def every(self, count: int, dim: int, start: int = 0, step: int = 1) -> Value:
        """Return start, start + step... along a dim."""
        code, stop = self.kind.value.torch_code, start + count * step
        call = (T.AtenArangeStartStepOp, (count,), self.kind, start, stop, step, code)
        flat = self.b.call(*call, None, None, None)
        return self.b.reshape(flat, [count if i == dim else 1 for i in range(self.rank)])

    def clamped(self, x: Value, low: int, high: int) -> Value:
        """Return the numbers, not below ``low`` and not above ``high``."""
        return self.b.unary(T.AtenClampOp, x, low, high)

    def scaled(self, x: Value, factor: int) -> Value:
        """Return the numbers times a number."""
        return x if factor == 1 else self.b.unary(T.AtenMulScalarOp, x, factor)

    def divided(self, x: Value, by: int) -> Value:
        """Return the numbers, which are not negative, divided and rounded down."""
        if by == 1:
            return x
        return self.b.binary(T.AtenDivTensorModeOp, x, self.b.literal(by, self.kind, ()), "trunc")

    def within(self, x: Value, n: int) -> Value:
        """Return which numbers are at least 0 and below ``n``."""
        b = self.b
        low = b.call(T.AtenGeScalarOp, x.shape, DataType.BOOLEAN, x, 0)
        high = b.call(T.AtenLtScalarOp, x.shape, DataType.BOOLEAN, x, n)
        return b.compare(T.AtenLogicalAndOp, low, high)


def both(b: Builder, conditions: Sequence[Value]) -> Value | None:
    """Return where all conditions hold; None without conditions."""
    found: Value | None = None
    for condition in conditions:
        found = condition if found is None else b.compare(T.AtenLogicalAndOp, found, condition)
    return found


def covered(b: Builder, op: ResampleOp, spatial: Sequence[Axis], compute: DataType) -> Value:
    """Return how many elements each window's average counts."""
    rank = len(spatial) + 2
    include = op.resample_mode is ResampleMode.AVGPOOL_INCLUDE_PADDING
    cut = [] if include else [a for a in spatial if a.before or a.behind]
    count = b.literal(prod(a.window for a in spatial if a not in cut), compute, (1,) * rank)
    numbers = Positions(b, rank, DataType.INT32)
    for a in cut:
        begin = numbers.every(a.count, a.dim, -a.before, a.stride)
        end = numbers.every(a.count, a.dim, a.window - a.before, a.stride)
        inside = b.sub(numbers.clamped(end, 0, a.n), numbers.clamped(begin, 0, a.n))
        count = b.mul(count, b.convert(inside, compute))
    return count
