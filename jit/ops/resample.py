# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What pooling, resizing and their gradients share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from ...graph_api.enums import ResampleMode
from ...graph_api.errors import Problem
from ...graph_api.ops.resample_fwd import ResampleOp
from ..node_context import NodeContext
from .hoisting import KEEP_EXPRESSIONS
from .op_info import Dims, problem

__all__ = ["MOST_TERMS", "RULES", "flags", "resize_declines", "work"]

RULES: dict[str, str] = {
    "IREE-POOL-01": "a window whose position is kept has at most 128 elements, and another one "
    "at most 128 along a dim, unless it is the whole of it",
    "IREE-POOL-02": "at most 128 windows cover one element when a gradient is computed",
    "IREE-RESIZE-01": "the extents of a resized dim, before and after, multiply to less than 2^59",
}

# Each window position is an op of its own; compile time grows faster than their number.
MOST_TERMS = 128


def work(port: str) -> Callable[[object, Dims], tuple[int, int]]:
    """Count each element of a window once for each of the pooled positions.

    Resizing weighs and adds the elements around each position.
    """

    def count(op: object, dims: Dims) -> tuple[int, int]:
        assert isinstance(op, ResampleOp)
        if op.resizes:
            linear = op.resample_mode is ResampleMode.BILINEAR
            return 0, linear * 2 ** (len(dims[port]) - 1) * prod(dims[port])
        return 0, prod(dims[port]) * prod(op.window)

    return count


def resize_declines(context: NodeContext, before: str, after: str) -> Iterator[Problem]:
    """Yield the dims whose positions do not fit the 64-bit integers that they are computed in."""
    pairs = zip(context.dims(before), context.dims(after), strict=True)
    for axis, (n, out) in enumerate(pairs):
        if n != out and n * out >= 2**59:
            got = f"dim {axis} resized from {n} to {out}"
            yield problem(context.node, "IREE-RESIZE-01", after, got, "a product below 2^59")


def flags(context: NodeContext) -> Iterator[str]:
    """Keep positions in the input expressions."""
    yield KEEP_EXPRESSIONS
