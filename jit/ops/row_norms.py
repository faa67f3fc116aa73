# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What norms over rows and their gradients share: declines, dynamic dims, flags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ...graph_api.errors import Problem
from ...graph_api.ops.row_norms import normalised_dims
from ..node_context import NodeContext
from ..workarounds import strikes
from .hoisting import KEEP_EXPRESSIONS
from .op_info import Marks, Refusal, dynamic_axes, problem

__all__ = [
    "RULES",
    "are_last",
    "axes_of",
    "declines",
    "dynamic",
    "dynamic_gfx9",
    "flags",
    "in_pieces",
    "open_rows",
    "row_length",
]

RULES: dict[str, str] = {
    "IREE-NORM-01": "norms for gfx9 whose long rows are the last dims, or a multiple of 64 long",
}

# Rows of other lengths are unrolled by one thread (up to 64 in good time), or padded.
_WAVE = 64


def axes_of(context: NodeContext) -> tuple[int, ...]:
    """Return the normalised dims of x."""
    x, scale = context.dims("x"), context.dims("scale")
    return normalised_dims(x, scale, getattr(context.op, "normalized_dim_count", 0))


def row_length(context: NodeContext) -> int:
    """Return how many elements a row has."""
    x = context.dims("x")
    return prod(x[axis] for axis in axes_of(context))


def flags(context: NodeContext) -> Iterator[str]:
    """Keep places expressions: ragged rows are read by a list of them."""
    if context.target.is_gfx9 and row_length(context) % _WAVE != 0:
        yield KEEP_EXPRESSIONS


def in_pieces(context: NodeContext) -> bool:
    """Whether the rows of an argument lie in pieces, and would not in the order of its dims."""
    x = context.spec("x")
    rank = len(x.dims)
    in_order = x.virtual or (x.layout.order == (*range(rank),) and not x.layout.broadcast)
    return not in_order and are_last(axes_of(context), rank)


def are_last(axes: Sequence[int], rank: int) -> bool:
    """Whether the axes are the last dims, in order."""
    return [*axes] == [*range(rank - len(axes), rank)]


def declines(context: NodeContext) -> Iterator[Problem]:
    """Yield why a norm over rows is not served."""
    axes, length = axes_of(context), row_length(context)
    last = are_last(axes, len(context.dims("x")))
    if not last and strikes("W-076", context.target, length, scattered=True):
        got = f"rows of {length} elements over dims {list(axes)}"
        hint = "transpose x, so that the normalised dims are the last ones"
        wanted = "at most 210 elements a row"
        yield problem(context.node, "IREE-NORM-01", "x", got, wanted, hint)


def dynamic(context: NodeContext, marks: Marks) -> Iterator[tuple[str, int]]:
    """Yield dynamic dims that the code depends on: the length of rows."""
    yield from dynamic_axes(marks, "scale", "bias", "epsilon", "dscale", "dbias")


def dynamic_gfx9(context: NodeContext, marks: Marks) -> Iterator[Refusal]:
    """Yield which rows are not served."""
    yield from open_rows(context, axes_of(context), marks)


def open_rows(context: NodeContext, axes: Sequence[int], marks: Marks) -> Iterator[Refusal]:
    """Yield why rows over some dims of x are not served where other dims are dynamic."""
    x = context.spec("x")
    rank = len(x.dims)
    in_order = x.virtual or x.layout.order == tuple(range(rank))
    if not (in_order and are_last(axes, rank)):
        got = f"rows over dims {list(axes)}, strides {list(x.strides)}"
        yield "x", got, "rows over the last dims that lie in one piece"
    elif any(marks["x"][axis] for axis in axes):
        yield "x", "rows of an open length", "a fixed length"
    elif (length := prod(x.dims[axis] for axis in axes)) > _WAVE and length % _WAVE:
        yield "x", f"rows of {length} elements", f"at most {_WAVE}, or a multiple of it"
