# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-112: A sum over several dims, some of them open, that is stored or read more than once.

Its kernel reads and writes memory of others; seen where a dim that is kept is open as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ....graph_api.enums import ReductionMode
from ...node_context import NodeContext
from ..rule import CPU, Workaround

if TYPE_CHECKING:
    from ....graph_api.ops.reduction import Reduction

__all__ = ["WORKAROUND"]

_CHOICES = (ReductionMode.MAX, ReductionMode.MIN, ReductionMode.AMAX)


def _results(context: NodeContext) -> bool:
    if not (context.dynamic and context.named("reduction")):
        return False
    op, x = cast("Reduction", context.op), context.spec("x")
    names = x.dynamic or ("",) * len(x.dims)
    axes = [axis for axis in op.axes or () if x.dims[axis] != 1 or names[axis]]
    if op.mode in _CHOICES or len(axes) < 2 or not any(names[axis] for axis in axes):
        return False
    y = context.uid("y")
    return context.around.readers[y] + (not context.graph.tensors[y].virtual) > 1


WORKAROUND = Workaround(
    id="W-112",
    title="A sum over several dims, some of them open, that is stored or read more than once",
    symptom="wrong numbers",
    targets=CPU,
    instead="the sum is materialised",
    results=_results,
)
