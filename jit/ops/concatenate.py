# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Concatenate: one operand is passed on as it is."""

from __future__ import annotations

from ..node_context import Layout, NodeContext
from .counts import no_arithmetic
from .op_info import OpInfo

__all__ = ["INFO"]


def _layout(context: NodeContext) -> Layout:
    parts = list(context.operands.values())
    if len(parts) == 1 and parts[0].channels_first:
        return parts[0]
    return Layout((), any(part.broadcast for part in parts))


INFO = OpInfo(work=no_arithmetic, fuses=True, layout=_layout)
