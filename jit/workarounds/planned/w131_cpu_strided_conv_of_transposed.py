# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-131: A 1x1 convolution with a stride reads what is converted and transposed on the way.

The convolution is a matmul of every n-th element.  Where the input is also the gradient's operand,
the conversion of narrow numbers is repeated in the matmul's kernel, there transposed; the kernel
then takes the wrong elements of a tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from ...node_context import NodeContext, is_named
from ..rule import CPU, Workaround

if TYPE_CHECKING:
    from ....graph_api.ops.conv_fprop import ConvFprop

__all__ = ["WORKAROUND"]


def _operands(context: NodeContext) -> Iterator[str]:
    if not context.named("conv_fprop") or not context.spec("x").virtual:
        return
    window = zip(cast("ConvFprop", context.op).stride, context.dims("w")[2:], strict=True)
    strided = any(n > 1 and k == 1 for n, k in window)
    nodes = context.graph.nodes
    differentiated = context.around.once(
        _operands, lambda: {n.inputs["x"] for n in nodes if is_named(n.op, "conv_wgrad")}
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
