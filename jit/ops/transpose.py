# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Transpose: memory does not move, so that the order of the result is known."""

from __future__ import annotations

from ...graph_api.ops.transpose import Transpose
from ..node_context import Layout, NodeContext
from .counts import no_arithmetic
from .op_info import OpInfo

__all__ = ["INFO"]


def _layout(context: NodeContext) -> Layout:
    op, x = context.op, context.operands["x"]
    assert isinstance(op, Transpose)
    order = x.order or range(len(op.permutation))
    moved = tuple(op.permutation.index(axis) for axis in order)
    as_it_is = op.permutation == tuple(range(len(op.permutation)))
    return Layout(moved, x.broadcast, x.argument and as_it_is)


INFO = OpInfo(work=no_arithmetic, fuses=True, layout=_layout)
