"""Batches of matrix products, in forms that IREE 3.13 compiles right for gfx9."""

from __future__ import annotations

from ...graph_api.dtypes import DataType
from ..emit import narrow
from ..emit.builder import Builder, T, Value

__all__ = ["products"]

TILE = 16
"""Rows and columns of gfx9's smaller matrix instructions."""


def products(
    b: Builder, left: Value, right: Value, dtype: DataType, *, transposed: bool = False
) -> Value:
    """Return left · right of rank 3, accumulated in ``dtype``.

    ``transposed`` says that the left operand may be a transpose, which the compiler would fold
    into the product.  Operands of 8-bit floats stay such where ``operands`` left them.
    """
    (count, m, k), n = left.shape, right.shape[-1]
    if count == 1:
        # A batch of one only keeps the compiler from its matmul code.
        flat = _product(b, b.reshape(left, (m, k)), b.reshape(right, (k, n)), dtype)
        return b.reshape(flat, (1, m, n))
    if b.target.is_gfx9 and transposed and m % TILE and n % TILE:
        # Without a whole tile the matrices of a batch are mixed up (found by emulation).
        left = b.materialise(left)
    if b.target.is_gfx9 and count % 2 == 0 and m < TILE and m % 8 and 1 < n < TILE:
        # Two such matrices would go to a workgroup, which writes only one of them when the left
        # one is transposed, or ends the compiler by SIGSEGV.
        ends = ((0, count - 1), (count - 1, count))
        parts = [[b.slice(x, 0, *end) for x in (left, right)] for end in ends]
        return b.concatenate([products(b, x, y, dtype) for x, y in parts], 0)
    return _product(b, left, right, dtype)


def _product(b: Builder, left: Value, right: Value, dtype: DataType) -> Value:
    op = T.AtenMmOp if left.rank == 2 else T.AtenBmmOp
    shape = (*left.shape[:-1], right.shape[-1])
    return b.call(op, shape, dtype, *(narrow.native(b, x) for x in (left, right)))
