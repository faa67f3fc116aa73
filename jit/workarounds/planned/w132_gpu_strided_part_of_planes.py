# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-132: Every n-th element along one dim, at one position of two or more others, is added up.

The kernel loads a part of the tensor with those others left out, and takes its steps along the
dim from a tensor that has them: it reads other elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...node_context import NodeContext
from ..rule import GPU, Workaround

if TYPE_CHECKING:
    from ....graph_api.ops.slice import Slice

__all__ = ["WORKAROUND"]


def _results(context: NodeContext) -> bool:
    if not context.named("slice"):
        return False
    dims = zip(context.dims("x"), context.dims("y"), strict=True)
    left_out = sum(y == 1 < x for x, y in dims)
    steps = zip(cast("Slice", context.op).strides, context.dims("y"), strict=True)
    return left_out > 1 and any(step > 1 and y > 1 for step, y in steps)


WORKAROUND = Workaround(
    id="W-132",
    title="Every n-th element along one dim, at one position of two others, is added up",
    symptom="wrong numbers",
    targets=GPU,
    instead="the part is materialised",
    results=_results,
)
