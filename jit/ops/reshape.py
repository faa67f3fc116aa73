# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reshape: a view of the operand."""

from __future__ import annotations

from ..node_context import Layout, NodeContext
from .counts import no_arithmetic
from .op_info import OpInfo

__all__ = ["INFO"]


def _layout(context: NodeContext) -> Layout:
    x = context.operands["x"]
    same = context.dims("x") == context.dims("y")
    return x if same else Layout((), x.broadcast)


INFO = OpInfo(work=no_arithmetic, fuses=True, layout=_layout)
