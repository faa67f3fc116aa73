"""Reductions."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph_api.enums import ReductionMode
from ...graph_api.ops.reduction import Reduction
from ..node_context import NodeContext
from .counts import per_element
from .op_info import Marks, OpInfo, Refusal
from .row_norms import open_rows

__all__ = ["INFO"]

_CHOICES = (ReductionMode.MAX, ReductionMode.MIN, ReductionMode.AMAX)


def _dynamic_gfx9(context: NodeContext, marks: Marks) -> Iterator[Refusal]:
    op, x = context.op, context.dims("x")
    assert isinstance(op, Reduction)
    yield from open_rows(context, [axis for axis in op.axes or () if x[axis] != 1], marks)


def _dynamic_cpu(context: NodeContext, marks: Marks) -> Iterator[Refusal]:
    """Yield why a sum with two readers has no code: IREE 3.13's touches memory of others.

    It was seen for sums, means and norms of two dims, one of them dynamic, that are stored or read
    twice; a maximum, or a sum of one dim, is right.
    """
    op, x = context.op, context.dims("x")
    assert isinstance(op, Reduction)
    names = marks.get("x", ("",) * len(x))
    axes = [axis for axis in op.axes or () if x[axis] != 1 or names[axis]]
    if op.mode in _CHOICES or len(axes) < 2 or not any(names[axis] for axis in axes):
        return
    y = context.uid("y")
    if context.around.readers[y] + (not context.graph.tensors[y].virtual) > 1:
        got = f"a sum over dims {axes} that is stored, or read, more than once"
        yield "y", got, "a sum over one dim, or one reader"


INFO = OpInfo(
    work=per_element("x", 1),
    dynamic=lambda node, marks: (),
    dynamic_cpu=_dynamic_cpu,
    dynamic_gfx9=_dynamic_gfx9,
)
