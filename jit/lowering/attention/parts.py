# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention in parts: of samples, of heads or of queries, so many that the caches hold the scores.

Scores are written once and read or written by each of the steps between the two matmuls.  One head
of 4096 queries and keys has 64 MB of them; in parts of 8 MB, 8 such heads take 134 ms instead of
221 (two threads of an Intel Xeon; PyTorch 115), and 24 MB of transient memory instead of 1,084.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby, pairwise
from math import ceil
from typing import NamedTuple

from ....graph_api.dtypes import DataType
from ....graph_api.ops.attention import AttentionOp
from ...emit.builder import Builder, Value

__all__ = ["Part", "in_parts", "parts_of"]

Inputs = Mapping[str, Value]

# Ports whose tensors are gathered, or cut, before attention is computed.
_KEYS = frozenset({"k", "v", "page_table_k", "page_table_v"})
# Bytes of the scores of a part, at most, and of all scores from which on there are parts.  Of 10 MB
# in three parts the calls cost more than they save (7.4 ms instead of 5.9).
_HELD, _WORTH = 8 << 20, 32 << 20
# More take longer to compile than they save.
_MOST_PARTS = 64


class Part(NamedTuple):
    """Where a part begins and ends along samples, heads of k and queries."""

    samples: tuple[int, int]
    heads: tuple[int, int]
    queries: tuple[int, int]


def parts_of(samples: int, heads: int, queries: int, row: int, *, cut: bool) -> list[Part]:
    """Return the parts, in the order in which they follow each other.

    Parameters
    ----------
    samples, heads, queries : int
        All of them; heads of k.
    row : int
        Bytes of the scores of one query, of all heads of q that share a head of k.
    cut : bool
        Whether queries may be apart from each other.
    """
    total = samples * heads * queries * row
    held = max(_HELD, ceil(total / _MOST_PARTS)) if total > _WORTH else total
    queries_each = queries if queries * row <= held or not cut else max(held // row, 1)
    matrices = max(held // (queries * row), 1)
    heads_each, samples_each = min(matrices, heads), max(matrices // heads, 1)
    return [
        Part(of_samples, of_heads, of_queries)
        for of_samples in _even(samples, samples_each)
        for of_heads in _even(heads, heads_each)
        for of_queries in _even(queries, queries_each)
    ]


def _even(extent: int, most: int) -> list[tuple[int, int]]:
    """Return ranges of about the same length, of at most so many."""
    count = ceil(extent / most)
    bounds = [extent * i // count for i in range(count + 1)]
    return list(pairwise(bounds))


def in_parts(
    b: Builder,
    op: AttentionOp,
    inputs: Inputs,
    k: Value,
    v: Value,
    compute: DataType,
    attention: Callable[[Inputs, Value, Value], Inputs],
    *,
    cut: bool,
) -> Inputs:
    """Return results of attention, (B, H, S, ...), of the parts one behind the other.

    Parameters
    ----------
    b : Builder
    op : AttentionOp
    inputs : mapping
        By port; those of keys are left out.
    k, v : Value
        Gathered from their pages, if they have any.
    compute : DataType
        Of the scores.
    attention : function
        Makes the results of one part.
    cut : bool
        Whether queries may be apart from each other.
    """
    inputs = {port: x for port, x in inputs.items() if port not in _KEYS}
    (batch, heads, queries, _), (key_heads, keys) = inputs["q"].shape, k.shape[1:3]
    group = heads // key_heads
    parts = parts_of(batch, key_heads, queries, group * keys * compute.bits // 8, cut=cut)
    apart = any(part.heads != (0, key_heads) for part in parts)
    # What ALiBi adds goes by the place of a head.
    if len(parts) == 1 or (op.alibi_mask and apart):
        return attention(inputs, k, v)

    def of(part: Part) -> Inputs:
        bounds = part.samples, _times(part.heads, group), part.queries
        mine = {port: _cut(b, x, bounds, (batch, heads, queries)) for port, x in inputs.items()}
        of_keys = part.samples, part.heads
        return attention(mine, *(_cut(b, x, of_keys, x.shape[:2]) for x in (k, v)))

    def joined(results: list[Inputs], axis: int) -> Inputs:
        if len(results) == 1:
            return results[0]
        return {port: b.concatenate([one[port] for one in results], axis) for port in results[0]}

    by_samples = [
        joined(
            [
                joined([of(part) for part in same_heads], 2)
                for _, same_heads in groupby(same_samples, lambda part: part.heads)
            ],
            1,
        )
        for _, same_samples in groupby(parts, lambda part: part.samples)
    ]
    return joined(by_samples, 0)


def _times(bounds: tuple[int, int], group: int) -> tuple[int, int]:
    return bounds[0] * group, bounds[1] * group


def _cut(b: Builder, x: Value, bounds: tuple[tuple[int, int], ...], full: tuple[int, ...]) -> Value:
    """Return what a part needs of a value: of dims of one element, or of a scalar, all of it."""
    if x.rank == 0:
        return x
    x = b.reshape(x, (1,) * (4 - x.rank) + x.shape)
    for axis, ((start, stop), extent) in enumerate(zip(bounds, full, strict=True)):
        if x.shape[axis] == extent and stop - start < extent:
            x = b.slice(x, axis, start, stop)
    return x
