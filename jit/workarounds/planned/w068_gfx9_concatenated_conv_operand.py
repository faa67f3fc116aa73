# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-068: Concatenated, padded or reshaped values taken by a convolution."""

from __future__ import annotations

from ....graph_api.ops.conv_fprop import ConvOp
from ....graph_api.ops.slice import Slice
from ....graph_api.ops.transpose import Transpose
from ...node_context import NodeContext
from ..rule import GFX9, Workaround
from .w120_any_concatenated_output import part_by_part

__all__ = ["WORKAROUND"]


def _results(context: NodeContext) -> bool:
    """Whether the node moves elements, other than by a view, in a graph with a convolution.

    No convolution takes what is written part by part to an output (W-120).

    The padding of a convolution is fused with concatenated parts, and then the border is never
    written; the parts are transposed before they are concatenated, so that their order is not
    known to who chooses the convolution's form.
    """
    joins = context.moves and not isinstance(context.op, Slice | Transpose)
    return joins and context.around.has(ConvOp) and not part_by_part(context)


WORKAROUND = Workaround(
    id="W-068",
    title="Concatenated, padded or reshaped values taken by a convolution",
    symptom="wrong numbers",
    targets=GFX9,
    instead="the result of the op that moves elements is materialised",
    results=_results,
)
