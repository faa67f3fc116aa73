# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matmuls of few rows, whose larger operand is read once, as it lies in memory."""

from __future__ import annotations

from ..emit.builder import Builder, T, Value
from ..emit.tiled_sum import tiled_sum
from ..ops.dots import dots
from ..ops.rows import rows

__all__ = ["by_rows", "dot_products"]


def dot_products(b: Builder, left: Value, right: Value) -> Value:
    """Return left · right, dims (count, m, k) and (count, n, k): the products of their rows.

    Each is a vector of sums, added up (`Dots`).  The sums are of the wider of the operands' types.
    """
    (count, m, k), n = left.shape, right.shape[1]
    tiles = dots(b.target, m, n, k)
    block = {"b": 1, "m": tiles.block_rows, "n": tiles.block_columns}
    vector = {"b": 1, "m": tiles.rows, "n": tiles.columns}
    if tiles.vectors:
        levels = {
            "distribution": block,
            "vector_common_parallel": vector,
            "vector_reduction": {"k": tiles.vectors * tiles.lanes},
        }
        extents = {"b": count, "m": m, "n": n, "k": k}
        dims = ("bmk", "bnk", "bmn")
        return tiled_sum(b, (left, right), dims, extents, levels, side_by_side=True)
    steps = k // tiles.lanes
    extents = {"b": count, "m": m, "n": n, "l": tiles.lanes, "k": steps}
    rows = b.reshape(left, (count, m, steps, tiles.lanes))
    columns = b.reshape(right, (count, n, steps, tiles.lanes))
    levels = {
        "distribution": block,
        "vector_common_parallel": {**vector, "l": tiles.lanes},
        "vector_reduction": {"k": 1},
    }
    dims = ("bmkl", "bnkl", "bmnl")
    sums = tiled_sum(b, (rows, columns), dims, extents, levels, side_by_side=True)
    return b.call(T.AtenSumDimIntListOp, (count, m, n), sums.dtype, sums, [3], False, None)


def by_rows(b: Builder, left: Value, right: Value) -> Value:
    """Return left · right, dims (count, m, k) and (count, k, n), of which the right is by rows.

    The sums are of the wider of the operands' types.
    """
    (count, m, k), n = left.shape, right.shape[2]
    tiles = rows(b.target, m, n, k)
    block = {"b": 1, "m": tiles.rows, "n": tiles.block}
    levels = {
        "distribution": block,
        "cache_parallel": block,
        "cache_reduction": {"k": tiles.steps},
        "vector_common_parallel": {"b": 1, "m": tiles.rows, "n": tiles.columns},
        "vector_reduction": {"k": tiles.steps},
    }
    extents = {"b": count, "m": m, "n": n, "k": k}
    return tiled_sum(b, (left, right), ("bmk", "bkn", "bmn"), extents, levels)
