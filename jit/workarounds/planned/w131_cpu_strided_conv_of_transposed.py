# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-131: A 1x1 convolution with a stride reads what is converted and transposed on the way.

The convolution is a matmul of every n-th element.  Where the input is also the gradient's operand,
the conversion of narrow numbers is repeated in the matmul's kernel, there transposed; the kernel
then takes the wrong elements of a tile.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....graph_api.ops.conv_fprop import ConvFprop
from ....graph_api.ops.conv_wgrad import ConvWgrad
from ...node_context import NodeContext
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


def _operands(context: NodeContext) -> Iterator[str]:
    op, around = context.op, context.around
    if not isinstance(op, ConvFprop) or not context.spec("x").virtual:
        return
    strided = any(n > 1 and k == 1 for n, k in zip(op.stride, context.dims("w")[2:], strict=True))
    nodes = context.graph.nodes
    differentiated = around.once(
        _operands, lambda: {n.inputs["x"] for n in nodes if isinstance(n.op, ConvWgrad)}
    )
    if strided and context.uid("x") in differentiated:
        yield "x"


WORKAROUND = Workaround(
    id="W-131",
    title="A 1x1 convolution with a stride reads what is converted and transposed on the way",
    symptom="wrong numbers",
    targets=CPU,
    instead="the operand is materialised",
    operands=_operands,
)
