# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batches of matmuls on a CPU in tiles of our own choice."""

from __future__ import annotations

from ..emit.blocked import blocked_matmul
from ..emit.builder import Builder, Value
from ..ops.blocking import BLOCKED, blocking, reads_columns
from ..ops.dots import DOTS
from ..ops.rows import ROWS
from .few_rows import by_rows, dot_products

__all__ = ["TILED", "takes_columns", "tiled_matmul"]

TILED = frozenset({BLOCKED, DOTS, ROWS})
"""The strategies that are computed so."""


def takes_columns(strategy: str, *, columns: bool) -> bool:
    """Return whether the right operand is given with its columns as rows.

    ``columns``: whether these come one after the other in memory.
    """
    return strategy == DOTS or (columns and strategy == BLOCKED)


def tiled_matmul(
    b: Builder,
    strategy: str,
    left: Value,
    right: Value,
    *,
    columns: bool,
    turned: bool = False,
) -> Value:
    """Return left · right, dims (count, m, n).

    Parameters
    ----------
    b : Builder
    strategy : str
        Of `TILED`.
    left : Value
        Dims (count, m, k).
    right : Value
        Dims (count, k, n), or (count, n, k) where `takes_columns`.  The wider operand has 32 bits,
        both if the strategy is ``blocked``.
    columns : bool
        What `takes_columns` says.
    turned : bool
        Whether the left operand is the transpose of what was computed before.
    """
    if strategy == BLOCKED:
        (_, m, k), n = left.shape, right.shape[1 if columns else 2]
        blocks = blocking(b.target, m, n, k)
        in_place = turned and reads_columns(b.target, m, k)
        left = b.permute(left, (0, 2, 1)) if in_place else left
        return blocked_matmul(b, left, right, blocks, columns=columns, turned=in_place)
    return dot_products(b, left, right) if columns else by_rows(b, left, right)
