# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the lowerings of layernorm, rmsnorm and their gradients share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from ....graph_api.dtypes import DataType
from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.row_norms import aligned, normalised_dims
from ...emit.builder import Builder, T, Value
from ...emit.gather import gather
from ...ops.row_norms import are_last
from ..sums import Axes, kept, total

__all__ = ["Rows", "aligned_operand", "gradients", "inverse_root", "whole"]

WAVE = 64


def whole(b: Builder, x: Value) -> Value:
    """Return an operand of a dot product, copied where it is broadcast."""
    return b.materialise(x) if b.target.is_cpu and b.strikes("W-006", x.repeated) else x


@dataclass(frozen=True, slots=True)
class Rows:
    """The shape in which a node normalises.

    That is x's own but for gfx9, where rows that are contiguous become a matrix and are completed
    to whole wavefronts: a row of another length is unrolled by one thread (W-076).

    Attributes
    ----------
    b : Builder
    shape : tuple of int
        x's dims.
    axes : sequence of int
        Normalised axes of the values that are summed.
    n : int
        Elements of a row.
    flat : bool
        Whether those values are matrices.
    """

    b: Builder
    shape: tuple[int, ...]
    axes: Axes
    n: int
    flat: bool

    @classmethod
    def of(cls, b: Builder, x: Value, scale: Value, count: int = 0) -> Rows:
        """Return what suits x."""
        axes = normalised_dims(x.shape, scale.shape, count)
        n = prod(x.shape[a] for a in axes)
        dense = x.order in ((), tuple(range(x.rank))) and not x.repeated
        flat = b.target.is_gfx9 and dense and are_last(axes, x.rank) and n > WAVE
        return cls(b, x.shape, (1,) if flat else axes, n, flat)

    def load(self, x: Value, dtype: DataType) -> Value:
        """Return an operand of x's dims in this shape and the compute type."""
        if self.flat:
            x = self.b.reshape(x, (prod(self.shape) // self.n, self.n))
            x = self.b.pad(x, (0,), (-self.n % WAVE,))
        return self.b.convert(x, dtype)

    @property
    def ragged(self) -> bool:
        """Whether rows have to be completed to whole wavefronts."""
        return self.flat and self.n % WAVE != 0

    def gather(self, x: Value, dtype: DataType) -> Value:
        """Return an operand as `load` does, completed while it is read: no padded copy is made.

        What is behind the end of a row is read from its last element, and replaced by 0.
        """
        if not self.ragged:
            return self.load(x, dtype)
        b, rows, long = self.b, prod(self.shape) // self.n, self.n + -self.n % WAVE
        line = self._line(long)
        index = b.call(T.AtenClampOp, (long,), DataType.INT64, line, 0, self.n - 1)
        x = b.reshape(x, (rows, self.n))
        x = gather(b, x, 1, index)
        # Types of 8 bits are no numbers before they are converted.
        return b.where(self._inside(line), b.convert(x, dtype), b.literal(0, dtype, ()))

    def load_statistic(self, x: Value, dtype: DataType) -> Value:
        """Return an operand with one value per row."""
        shape = (prod(self.shape) // self.n, 1) if self.flat else x.shape
        return self.b.convert(self.b.reshape(x, shape), dtype)

    def store(self, y: Value) -> Value:
        """Return a value in x's dims."""
        if not self.flat:
            return y
        return self.b.reshape(self.b.slice(y, 1, 0, self.n), self.shape)

    def store_statistic(self, y: Value) -> Value:
        """Return a statistic with x's dims, 1 where it is normalised."""
        if not self.flat:
            return y
        outer, length = [], 1
        for d in self.shape:
            if length * d > prod(self.shape) // self.n:
                break
            outer.append(d)
            length *= d
        return self.b.reshape(y, (*outer, *(1,) * (len(self.shape) - len(outer))))

    def average(self, x: Value) -> Value:
        """Return the mean over a row."""
        if not self.b.avoids("W-128"):
            return self.b.scale(total(self.b, x, self.axes), 1 / self.n)
        # In one dim each: what materialises a single row would be read dim by dim.
        rest = [i for i in range(x.rank) if i not in self.axes]
        rows = self.b.reshape(
            self.b.permute(x, (*rest, *self.axes)), (*(x.shape[i] for i in rest), self.n)
        )
        sums = total(self.b, self.b.materialise(rows), (len(rest),))
        return self.b.scale(self.b.reshape(sums, kept(x, self.axes)), 1 / self.n)

    def centre(self, x: Value, mean: Value) -> Value:
        """Return x - mean, and 0 behind the end of a row."""
        b, centred = self.b, self.b.sub(x, mean)
        long = x.shape[-1]
        if not self.flat or long == self.n:
            return centred
        return b.where(self._inside(self._line(long)), centred, b.literal(0, x.dtype, ()))

    def _line(self, long: int) -> Value:
        dtype = DataType.INT64
        code = dtype.value.torch_code
        op = T.AtenArangeStartStepOp
        return self.b.call(op, (long,), dtype, 0, long, 1, code, None, None, None)

    def _inside(self, line: Value) -> Value:
        line = self.b.reshape(line, (1, *line.shape))
        return self.b.call(T.AtenLtScalarOp, line.shape, DataType.BOOLEAN, line, self.n)


def aligned_operand(b: Builder, x: Value, rank: int, node: FrozenNode) -> Value:
    """Return scale, bias or epsilon in the compute type, with leading ones up to a rank."""
    return b.convert(b.reshape(x, aligned(x.shape, rank)), node.compute_data_type)


def inverse_root(b: Builder, square: Value, epsilon: Value, node: FrozenNode) -> Value:
    """Return 1 / √(square + epsilon)."""
    return b.unary(T.AtenRsqrtOp, b.add(square, aligned_operand(b, epsilon, square.rank, node)))


def gradients(
    b: Builder,
    node: FrozenNode,
    inputs: Mapping[str, Value],
    rows: Rows,
    normalised: Value,
    inverse: Value,
    *,
    centred: bool,
) -> dict[str, Value]:
    """Return dx, dscale and dbias of y = normalised · scale + bias, all in the compute type.

    ``normalised`` and ``inverse`` have the shape of ``rows``; ``centred`` means that normalised is
    (x - mean) · inverse, not x · inverse.
    """
    rank = len(rows.shape)
    dy = b.convert(whole(b, inputs["dy"]), node.compute_data_type)
    scale = aligned_operand(b, inputs["scale"], rank, node)
    g = b.mul(dy, scale)
    g = rows.load(g, g.dtype)
    rest = b.mul(normalised, rows.average(b.mul(g, normalised)))
    if centred:
        rest = b.add(rest, rows.average(g))
    columns = tuple(i for i, d in enumerate(scale.shape) if d == 1)
    found = {"dx": rows.store(b.mul(b.sub(g, rest), inverse))}
    for port, value in (("dscale", b.mul(dy, rows.store(normalised))), ("dbias", b.copy(dy))):
        if port in node.outputs:
            found[port] = b.reshape(total(b, value, columns), inputs["scale"].shape)
    return found
