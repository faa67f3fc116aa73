# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-061: A convolution and the gradient of its filter read the same input."""

from __future__ import annotations

from collections.abc import Iterator

from ....graph_api.ops.conv_fprop import ConvFprop
from ....graph_api.ops.conv_wgrad import ConvWgrad
from ...node_context import NodeContext
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _operands(context: NodeContext) -> Iterator[str]:
    if isinstance(context.op, ConvWgrad):
        nodes = context.graph.nodes
        convolved = context.around.once(
            _operands, lambda: {n.inputs["x"] for n in nodes if isinstance(n.op, ConvFprop)}
        )
        yield from (port for port, uid in context.node.inputs.items() if uid in convolved)


WORKAROUND = Workaround(
    id="W-061",
    title="A convolution and the gradient of its filter read the same input",
    symptom="does not compile",
    targets=GFX9,
    instead="the gradient's operand is materialised",
    operands=_operands,
)
