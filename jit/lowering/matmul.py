# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix multiplication, with hipDNN's repetition of the smaller batch."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ...graph_api.dtypes import DataType
from ...graph_api.frozen import FrozenNode
from ..emit.builder import Builder, T, Value
from ..ops.blocking import BLOCKED
from ..ops.dots import DOTS
from ..ops.split_k import SPLIT_K, split_of
from .accumulate import copied, operands
from .batched_matmul import batched_matmul, swapped
from .tiled_matmul import TILED, takes_columns, tiled_matmul

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit c = a · b over all batches, as ``mm`` or ``bmm``."""
    left, right, compute = inputs["a"], inputs["b"], node.compute_data_type
    batch = tuple(max(m, n) for m, n in zip(left.shape[:-2], right.shape[:-2], strict=True))
    m, k, n = left.shape[-2], left.shape[-1], right.shape[-1]
    count = prod(batch)
    if b.strategy in TILED:
        columns, turned = _by_columns(right), _by_columns(left)
        given = _in_float(b, left, right, compute)
        return {"c": _as_one(b, *given, batch, columns=columns, turned=turned)}
    # Other sizes of 8-bit floats do not fill matrix instructions.
    whole = all(d % 32 == 0 for x in inputs.values() for d in x.shape[-2:])
    left, right, accumulate = operands(b, left, right, compute, codes=whole, fuse=True)
    left = b.reshape(_repeat(b, left, batch), (count, m, k))
    right = b.reshape(_repeat(b, right, batch), (count, k, n))
    if b.strategy == "plain":
        shape = (*batch, m, n)
        c = b.call(
            T.AtenMatmulOp,
            shape,
            accumulate,
            *(b.reshape(x, (*batch, *x.shape[-2:])) for x in (left, right)),
        )
        return {"c": c}
    if b.strategy == SPLIT_K:
        return {"c": b.reshape(_split(b, left, right, accumulate), (*batch, m, n))}
    # Computed operands may be transposes that the compiler finds.
    rows = inputs["a"].order[-1:] == (len(batch) + 1,)
    columns = inputs["b"].order[-1:] == (len(batch),)
    c = batched_matmul(b, left, right, accumulate, transposed=not rows, columns=columns)
    return {"c": b.reshape(c, (*batch, m, n))}


def _in_float(b: Builder, left: Value, right: Value, compute: DataType) -> tuple[Value, Value]:
    """Return what is multiplied in float32, also where the CPU multiplies 16 bits.

    The larger operand is converted where it is read, if it is not packed: each element is read
    once, or a few times (1 x 4096 x 6144 of bfloat16: 1.3 ms instead of 8.5, PyTorch 2.6).
    """
    longer = b.strategy == DOTS and prod(left.shape) > prod(right.shape)
    read = (False, False) if b.strategy == BLOCKED else (longer, not longer)

    def prepared(x: Value, *, in_place: bool) -> Value:
        x = b.materialise(x) if b.strikes("W-002", x.repeated) else x
        return x if in_place or x.dtype is compute else copied(b, x, compute)

    return prepared(left, in_place=read[0]), prepared(right, in_place=read[1])


def _by_columns(x: Value) -> bool:
    """Return whether the columns of a matrix come one after the other in memory."""
    return x.order[-1:] == (x.rank - 2,)


def _as_one(
    b: Builder,
    left: Value,
    right: Value,
    batch: tuple[int, ...],
    *,
    columns: bool,
    turned: bool,
) -> Value:
    """Return left · right in tiles of our own choice.

    Rows of several matrices that are multiplied with the same one are those of one matrix.
    ``columns``, ``turned``: whether the columns of the right and of the left operand come one after
    the other.
    """
    m, k, n = left.shape[-2], left.shape[-1], right.shape[-1]
    count, shape = prod(batch), (*batch, m, n)
    if prod(right.shape[:-2]) == 1:
        turned = turned and count == 1
        count, m = 1, count * m
    else:
        right = _repeat(b, right, batch)
    left = _repeat(b, left, batch)
    if turned:
        left = b.permute(b.reshape(swapped(b, left), (count, k, m)), (0, 2, 1))
    else:
        left = b.reshape(left, (count, m, k))
    columns = takes_columns(b.strategy, columns=columns)
    if columns:
        right = b.reshape(swapped(b, right), (count, n, k))
    else:
        right = b.reshape(right, (count, k, n))
    c = tiled_matmul(b, b.strategy, left, right, columns=columns, turned=turned)
    return b.reshape(c, shape)


def _split(b: Builder, left: Value, right: Value, dtype: DataType) -> Value:
    """Return a row times a matrix, dims (1, 1, k) and (1, k, n), as two sums of products."""
    found, n = split_of(left.shape[-1]), right.shape[-1]
    assert found is not None
    factors = (b.convert(b.reshape(x, (*found, d)), dtype) for x, d in ((left, 1), (right, n)))
    products = b.mul(*factors)
    some = b.call(T.AtenSumDimIntListOp, (found[1], n), dtype, products, [0, 2], False, None)
    return b.call(T.AtenSumDimIntListOp, (n,), dtype, some, [0], False, None)


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
