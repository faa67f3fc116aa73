"""Matrix multiplication, with hipDNN's repetition of the smaller batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ...graph_api.dtypes import DataType
from ...graph_api.frozen import FrozenNode
from ..emit import narrow
from ..emit.builder import Builder, T, Value
from .accumulate import operands

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit c = a · b over all batches, as ``mm`` or ``bmm``."""
    # Other sizes of 8-bit floats do not fill matrix instructions.
    whole = all(d % 32 == 0 for x in inputs.values() for d in x.shape[-2:])
    left, right, accumulate = operands(
        b, inputs["a"], inputs["b"], node.compute_data_type, codes=whole
    )
    batch = tuple(max(m, n) for m, n in zip(left.shape[:-2], right.shape[:-2], strict=True))
    m, k, n = left.shape[-2], left.shape[-1], right.shape[-1]
    if not batch:
        return {"c": _multiply(b, T.AtenMmOp, (m, n), accumulate, left, right)}
    count = prod(batch)
    left = b.reshape(_repeat(b, left, batch), (count, m, k))
    right = b.reshape(_repeat(b, right, batch), (count, k, n))
    return {"c": b.reshape(_products(b, left, right, accumulate), (*batch, m, n))}


def _products(b: Builder, left: Value, right: Value, accumulate: DataType) -> Value:
    """Return left · right of rank 3."""
    (count, m, k), n = left.shape, right.shape[-1]
    if b.target.is_gfx9 and count % 2 == 0 and m < 16 and m % 8 and 1 < n < 16:
        # IREE 3.13 gives two such matrices to a workgroup, and writes only one of them when the
        # left one is transposed, or ends by SIGSEGV.
        ends = ((0, count - 1), (count - 1, count))
        parts = [[b.slice(x, 0, *end) for x in (left, right)] for end in ends]
        return b.concatenate([_products(b, x, y, accumulate) for x, y in parts], 0)
    if count > 1:
        return _multiply(b, T.AtenBmmOp, (count, m, n), accumulate, left, right)
    # A batch of one only keeps the compiler from its matmul code.
    flat = (b.reshape(left, (m, k)), b.reshape(right, (k, n)))
    return b.reshape(_multiply(b, T.AtenMmOp, (m, n), accumulate, *flat), (1, m, n))


def _multiply(
    b: Builder, op: Any, shape: Sequence[int], accumulate: DataType, *factors: Value
) -> Value:
    """Return a product, of 8-bit floats as such where ``operands`` left them."""
    return b.call(op, shape, accumulate, *(narrow.native(b, x) for x in factors))


def _repeat(b: Builder, x: Value, batch: tuple[int, ...]) -> Value:
    """Repeat each batch entry so often that the batch dims are ``batch``.

    Entry i of the result is entry i // repeats of x (hipDNN's CPU reference; numpy.repeat).
    """
    for axis, wanted in enumerate(batch):
        have = x.shape[axis]
        if have == wanted:
            continue
        outer, inner = x.shape[: axis + 1], x.shape[axis + 1 :]
        repeats = wanted // have
        x = b.reshape(x, (*outer, 1, *inner))
        x = b.expand(x, (*outer, repeats, *inner))
        x = b.reshape(x, (*outer[:-1], wanted, *inner))
    return x
