# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matmuls on a CPU in blocks of our own choice.

Without more than the op the compiler packs both operands and runs along all of k for each tile.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from ..ops.blocking import Blocking
from .builder import Builder, Value
from .structured import from_builtin, to_builtin
from .tiled_sum import constant, empty, tiled_sum

__all__ = ["blocked_matmul"]


def blocked_matmul(
    b: Builder,
    left: Value,
    right: Value,
    blocks: Blocking,
    *,
    columns: bool = False,
    turned: bool = False,
) -> Value:
    """Return left · right.

    Parameters
    ----------
    left : Value
        Dims (count, m, k), or (1, m, k) for the same matrix each time; with ``turned`` (count, k,
        m), which is read as it lies.
    right : Value
        Dims (count, k, n) of the same type, a float of 32 bits; with ``columns`` (count, n, k).
        One matrix may stand for all here too.
    blocks : Blocking
        Of m, n and k.
    columns : bool
        Whether the columns of the right operand come one after the other.
    turned : bool
        Whether those of the left one do.

    Returns
    -------
    Value
        Dims (count, m, n).
    """
    same, m, k = (left.shape[i] for i in ((0, 2, 1) if turned else (0, 1, 2)))
    each, n = right.shape[0], right.shape[1 if columns else 2]
    count = max(same, each)
    whole = blocks.panels * blocks.panel
    if columns and whole != n:  # packing such operands and adding zeros in one go is slow
        ends = [b.literal(0, right.dtype, (each, whole - n, k))]
        right = b.concatenate([right, *ends], 1)
    shape = (each, blocks.panels, k, blocks.panel)
    packed = from_builtin(b, _packed(to_builtin(right), shape, columns), shape, left.dtype)
    extents = {"b": count, "p": blocks.panels, "m": m, "n": blocks.panel, "k": k}
    batch = ["b" if operand == count else "" for operand in (same, each)]
    dims = (batch[0] + ("km" if turned else "mk"), batch[1] + "pkn", "bmpn")
    cut = blocks.depth < k  # each part adds to what is there: not zeroed in the same kernel
    total = tiled_sum(b, (left, packed), dims, extents, _tiles(blocks, cut=cut), zeroed=cut)
    return b.slice(b.reshape(total, (count, m, whole)), 2, 0, n)


def _packed(x: ir.Value, shape: Sequence[int], columns: bool) -> ir.Value:
    """Return the panels of the right operand."""
    _, panels, _, panel = shape
    element, given = x.type.element_type, x.type.shape
    full = given[1 if columns else 2] == panels * panel
    order = [0, 1, 2] if columns else [0, 2, 1]
    kind = ir.RankedTensorType.get(shape, element)
    op = ir.Operation.create(
        "linalg.pack",
        [kind],
        [x, empty(kind), *([] if full else [constant(0.0, element)])],
        {
            "outer_dims_perm": ir.DenseI64ArrayAttr.get(order),
            "inner_dims_pos": ir.DenseI64ArrayAttr.get([1 if columns else 2]),
            "static_inner_tiles": ir.DenseI64ArrayAttr.get([panel]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1, int(not full), 0]),
        },
    )
    return op.result


def _tiles(blocks: Blocking, *, cut: bool) -> dict[str, dict[str, int]]:
    workgroup = {"b": 1, "p": blocks.shared, "m": blocks.block, "n": blocks.panel}
    return {
        "distribution": workgroup,
        "cache_parallel": workgroup,
        **({"cache_reduction": {"k": blocks.depth}} if cut else {}),
        "vector_common_parallel": {**workgroup, "p": 1, "m": blocks.rows},
        "vector_reduction": {"k": 1},
    }
