# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-077: Ragged rows (W-076) concatenated with zeros are transposed in a layernorm gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....graph_api.ops.layernorm_backward import LayernormBackward
from ...node_context import GraphContext, NodeContext
from ...ops.row_norms import row_length
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _flags(around: GraphContext, nodes: Sequence[NodeContext]) -> Iterator[str]:
    """Keep rows and the zeros behind them as they are in memory.

    Transposed, one thread adds up a row, with all of it unrolled: 210 f16 elements take over a
    minute.
    """
    if any(_own_statistics(node) for node in nodes):
        yield "--iree-opt-outer-dim-concat=false"


def _own_statistics(context: NodeContext) -> bool:
    if not isinstance(context.op, LayernormBackward) or "mean" in context.node.inputs:
        return False
    return row_length(context) > 64 and row_length(context) % 64 != 0


WORKAROUND = Workaround(
    id="W-077",
    title="Ragged rows (W-076) concatenated with zeros are transposed in a layernorm gradient",
    symptom="slow",
    targets=GFX9,
    instead="concatenations are not transposed",
    flags=_flags,
)
