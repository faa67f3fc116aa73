# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-098: A data-tiled batch of matmuls that reads what a convolution or attention made.

Numbers are wrong from the second matrix on; seen with 2x5x8 behind a 1x1 convolution, and behind
attention.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ...node_context import GraphContext, NodeContext
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


def _operands(context: NodeContext) -> Iterator[str]:
    if context.named("matmul") and prod(context.dims("c")[:-2]) > 1:
        around = context.around
        made = around.once("made of convolutions and attention", lambda: _made(around))
        yield from (port for port, uid in context.node.inputs.items() if uid in made)


def _made(around: GraphContext) -> set[int]:
    """Return what such nodes make, and what pointwise nodes and moves make of that."""
    found: set[int] = set()
    for node in around.graph.nodes:
        passes_on = NodeContext(around, node)
        product = passes_on.named("conv", "attention")
        fed = not found.isdisjoint(node.inputs.values())
        if product or (fed and (passes_on.pointwise or passes_on.moves)):
            found.update(node.outputs.values())
    return found


WORKAROUND = Workaround(
    id="W-098",
    title="A data-tiled batch of matmuls behind a convolution or attention gives wrong numbers",
    symptom="wrong numbers",
    targets=CPU,
    instead="the operand is materialised",
    operands=_operands,
)
