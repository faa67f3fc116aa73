# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph_api.ops.reduction import Reduction
from ..node_context import NodeContext
from .counts import per_element
from .op_info import Marks, OpInfo, Refusal
from .row_norms import open_rows

__all__ = ["INFO"]


def _dynamic_gfx9(context: NodeContext, marks: Marks) -> Iterator[Refusal]:
    op, x = context.op, context.dims("x")
    assert isinstance(op, Reduction)
    yield from open_rows(context, [axis for axis in op.axes or () if x[axis] != 1], marks)


INFO = OpInfo(
    work=per_element("x", 1),
    adds_up=True,
    dynamic=lambda context, marks: (),
    dynamic_gfx9=_dynamic_gfx9,
)
