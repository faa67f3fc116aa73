# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How a vector times a matrix on gfx9 is summed by parts of k.

The compiler makes few waves of a matrix whose rows lie in one piece, each of which walks through
all of k: 12 waves for 4096x6144, on 304 compute units.
"""

from __future__ import annotations

from math import prod

from ..node_context import NodeContext
from .stored import stored

__all__ = ["SPLIT_K", "fits_split_k", "prefers_split_k", "split_of"]

SPLIT_K = "split_k"
"""The strategy of matmuls that are computed so."""

# Sums of at most so many elements are unrolled; a multiple of 64 of them is shared out over lanes,
# which then read single elements of different rows.
_MOST_SUMMED, _LEAST_SUMMED = 32, 8
# Elements of the matrix; a smaller one is read within some microseconds.
_LEAST_ELEMENTS = 1 << 16


def split_of(k: int) -> tuple[int, int, int] | None:
    """Return k as a product of an outer extent, parts, and an inner extent; None if it has none.

    The parts are summed by a second kernel, outer and inner within the first.
    """
    inner = _factor(k)
    parts = _factor(k // inner) if inner else 0
    return (k // (parts * inner), parts, inner) if parts else None


def _factor(k: int) -> int:
    return next((d for d in range(_MOST_SUMMED, _LEAST_SUMMED - 1, -1) if k % d == 0), 0)


def fits_split_k(context: NodeContext) -> bool:
    """Return whether a matmul is a vector times a matrix, with a k that can be split."""
    *batch, rows, k = context.dims("a")
    one = prod((*batch, *context.dims("b")[:-2], rows)) == 1
    return one and not context.dynamic and context.compute.is_float and split_of(k) is not None


def prefers_split_k(context: NodeContext) -> bool:
    """Return whether that gives a matmul more waves than one op does."""
    by_rows = stored(context, "b").strides[-1] == 1
    large = prod(context.dims("b")) >= _LEAST_ELEMENTS
    return context.target.is_gfx9 and by_rows and large and fits_split_k(context)
