# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pad: without any padding the operand is passed on as it is."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph_api.ops.pad import Pad
from ..node_context import Layout, NodeContext
from .counts import no_arithmetic
from .hoisting import KEEP_EXPRESSIONS
from .op_info import OpInfo

__all__ = ["INFO"]


def _layout(context: NodeContext) -> Layout:
    op, x = context.op, context.operands["x"]
    assert isinstance(op, Pad)
    as_it_is = x.channels_first and not any((*op.pre_padding, *op.post_padding))
    return x if as_it_is else Layout((), x.broadcast)


def _flags(context: NodeContext) -> Iterator[str]:
    """Keep the padding an expression: W-054, it is concatenated."""
    if context.target.is_gfx9:
        yield KEEP_EXPRESSIONS


INFO = OpInfo(work=no_arithmetic, fuses=True, flags=_flags, layout=_layout)
