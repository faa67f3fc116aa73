# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-136: A strided 1x1 convolution of one channel leaves out what others read of its input.

Without sums the convolution is an elementwise loop over its results, into which the compiler fuses
what computes the input.  The loop stores the input too, for those others, but goes only to the
elements that the stride takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from ...node_context import NodeContext
from ..rule import CPU, Workaround

if TYPE_CHECKING:
    from ....graph_api.ops.conv_fprop import ConvFprop

__all__ = ["WORKAROUND"]


def _operands(context: NodeContext) -> Iterator[str]:
    if not context.named("conv_fprop") or not context.spec("x").virtual:
        return
    strided = any(step > 1 for step in cast("ConvFprop", context.op).stride)
    one_channel = set(context.dims("w")[1:]) == {1}
    if strided and one_channel and context.around.readers[context.uid("x")] > 1:
        yield "x"


WORKAROUND = Workaround(
    id="W-136",
    title="A strided 1x1 convolution of one channel leaves out what others read of its input",
    symptom="wrong numbers",
    targets=CPU,
    instead="the operand is materialised",
    operands=_operands,
)
