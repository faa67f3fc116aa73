# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-132: Every n-th element along one dim, with another dim of one element, is added up.

The kernel loads a part of the tensor with that other dim left out, and takes its steps from a
tensor that has it: steps behind it are another dim's, so that other elements are read.  The windows
of pooling are such parts.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, cast

from ...node_context import GraphContext, NodeContext
from ..rule import GPU, Workaround

if TYPE_CHECKING:
    from ....graph_api.ops.resample_fwd import ResampleFwd
    from ....graph_api.ops.slice import Slice

__all__ = ["WORKAROUND"]


def _results(context: NodeContext) -> bool:
    if context.named("resample_fwd"):
        return _steps(context) and 1 in context.dims("y")[1:]
    if not context.named("slice") or 1 not in context.dims("y"):
        return False
    around = context.around
    return context.uid("y") in around.once("parts with steps", lambda: _stepped(around))


def _stepped(around: GraphContext) -> Set[int]:
    """Return what takes steps, and what is moved or computed from that element by element."""
    found: set[int] = set()
    for node in around.graph.nodes:
        here = NodeContext(around, node)
        follows = here.moves or here.pointwise
        if _steps(here) or (follows and not found.isdisjoint(node.inputs.values())):
            found.update(node.outputs.values())
    return found


def _steps(context: NodeContext) -> bool:
    if context.named("slice"):
        steps, extents = cast("Slice", context.op).strides, context.dims("y")
    elif context.named("resample_fwd"):
        steps, extents = cast("ResampleFwd", context.op).stride, context.dims("y")[2:]
    else:
        return False
    return any(step > 1 and y > 1 for step, y in zip(steps, extents, strict=True))


WORKAROUND = Workaround(
    id="W-132",
    title="Every n-th element along one dim, with another dim of one element, is added up",
    symptom="wrong numbers",
    targets=GPU,
    instead="the part is materialised",
    results=_results,
)
