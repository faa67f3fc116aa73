# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-099: An elementwise op reads one result twice, along different dims: part is unwritten.

Seen with a sum, least value, matmul or convolution of n elements and its transpose, and with a norm
of n x n.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...node_context import GraphContext, NodeContext
from ..rule import ALL, Workaround

__all__ = ["WORKAROUND"]


def _operands(context: NodeContext) -> Iterator[str]:
    around = context.around
    met = around.once("rows meet columns", lambda: _met(around))
    yield from met.get(min(context.node.outputs.values()), ())


def _met(around: GraphContext) -> Mapping[int, tuple[str, ...]]:
    """Return the ports to copy, by the first result of a node.

    Of each tensor that pointwise nodes, transposes and reshapes make is known from which results
    of other nodes, and which of these moves each of them came through last.
    """
    known: dict[int, dict[int, int]] = {}
    ports: dict[int, tuple[str, ...]] = {}
    for node in around.graph.nodes:
        here = NodeContext(around, node)
        came: dict[int, int] = {}
        copied = []
        for port, uid in node.inputs.items():
            ways = known.get(uid, {})
            if any(came.get(source, way) != way for source, way in ways.items()):
                copied.append(port)
            else:
                came |= ways
        one_term = here.named("matmul") and here.dims("a")[-1] == 1
        if copied and (here.pointwise or one_term):
            ports[min(node.outputs.values())] = tuple(copied)
        for uid in node.outputs.values():
            if here.pointwise:
                known[uid] = came
            elif here.named("transpose", "reshape"):
                known[uid] = dict.fromkeys(came, uid)
            elif here.moves:
                # A slice of everything is what it slices; any other is computed by itself.
                dims = {around.graph.tensors[u].dims for u in (*node.inputs.values(), uid)}
                part = {uid: 0} if came and here.named("slice") else {}
                known[uid] = came if len(dims) == 1 else part
            else:
                known[uid] = {uid: 0} | (came if one_term else {})
    return ports


WORKAROUND = Workaround(
    id="W-099",
    title="A result that one elementwise op reads along two dims: part is unwritten",
    symptom="wrong numbers",
    targets=ALL,
    instead="the operand is materialised",
    operands=_operands,
)
