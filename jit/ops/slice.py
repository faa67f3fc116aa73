# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Slice: the result is laid out as the operand."""

from __future__ import annotations

from ..node_context import Layout, NodeContext
from .counts import no_arithmetic
from .op_info import OpInfo

__all__ = ["INFO"]


def _layout(context: NodeContext) -> Layout:
    x, same = context.operands["x"], context.dims("x") == context.dims("y")
    return Layout(x.order, x.broadcast, x.argument and x.channels_first and same)


INFO = OpInfo(work=no_arithmetic, fuses=True, reads_part=True, layout=_layout)
