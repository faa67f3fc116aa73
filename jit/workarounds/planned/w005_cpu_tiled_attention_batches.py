# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-005: Data-tiled batched matmuls beside a division of their rows mix up batches.

Wrong numbers from the second batch entry on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...node_context import GraphContext, NodeContext
from ...ops.blocking import BLOCKED
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


def _in_batches(context: NodeContext) -> bool:
    if not context.named("attention"):
        return False
    return context.strategy != BLOCKED


def _flags(around: GraphContext, nodes: Sequence[NodeContext]) -> Iterator[str]:
    if any(map(_in_batches, nodes)):
        yield "--iree-dispatch-creation-data-tiling=false"


WORKAROUND = Workaround(
    id="W-005",
    title="Data-tiled batched matmuls beside a division of their rows mix up batches",
    symptom="wrong numbers",
    targets=CPU,
    instead="operands are not repacked into tiles, but by strategy blocked",
    flags=_flags,
)
