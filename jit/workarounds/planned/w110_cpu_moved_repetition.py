# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-110: An argument that is repeated along a dim, moved, stored and read again: no code.

Seen with rows of 9 and 33, transposed and concatenated with something.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...node_context import GraphContext, NodeContext
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


def _operands(context: NodeContext) -> Iterator[str]:
    if context.moves:
        moved = context.around.once("moved repetitions", lambda: _moved(context.around))
        for port, uid in context.node.inputs.items():
            if uid in moved and not context.graph.tensors[uid].virtual:
                yield port


def _moved(around: GraphContext) -> set[int]:
    """Return what moves make of arguments with stride 0."""
    tensors = around.graph.tensors
    repeated = {
        uid
        for uid in around.graph.inputs
        if not tensors[uid].runtime_scalar and tensors[uid].layout.broadcast
    }
    found = set(repeated)
    for node in around.graph.nodes:
        if NodeContext(around, node).moves and not found.isdisjoint(node.inputs.values()):
            found.update(node.outputs.values())
    return found - repeated


WORKAROUND = Workaround(
    id="W-110",
    title="An argument that is repeated along a dim, moved, stored and read again: no code",
    symptom="does not compile",
    targets=CPU,
    instead="the operand is materialised",
    operands=_operands,
)
