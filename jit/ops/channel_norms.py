# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the forms of batch normalisation share."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph_api.errors import Problem
from ...graph_api.ops.channel_norms import of_one_device
from ..node_context import NodeContext
from .counts import per_element
from .op_info import Marks, OpInfo, dynamic_axes

__all__ = ["INFERENCE", "declines"]


def declines(context: NodeContext) -> Iterator[Problem]:
    """Yield why a form that calculates the statistics is not served."""
    yield from of_one_device(context.node.label, context.node.inputs)


def _dynamic(context: NodeContext, marks: Marks) -> Iterator[tuple[str, int]]:
    yield from ((port, axis) for port, axis in dynamic_axes(marks, "x") if axis == 1)


INFERENCE = OpInfo(
    work=per_element("x", 4), dynamic=_dynamic, dynamic_gfx9=lambda context, marks: ()
)
"""Of batch normalisation with a fixed mean and deviation (or variance)."""
