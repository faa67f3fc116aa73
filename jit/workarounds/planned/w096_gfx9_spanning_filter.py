# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-096: Convolution of a channels-last input whose filter spans it in a dim, in another layout.

The spanned dim is dropped, and those of the filter are taken in another order, or do not fit.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....graph_api.ops.conv_fprop import ConvFprop
from ...node_context import NodeContext
from ...ops.conv_geometry import Convolution
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _operands(context: NodeContext) -> Iterator[str]:
    op = context.op
    if not isinstance(op, ConvFprop):
        return
    conv, x = Convolution(context.dims("x"), context.dims("w"), op), context.operands["x"]
    spans = any(k > 1 == extent for k, extent in zip(conv.w[2:], conv.extents, strict=True))
    if spans and x.channels_last and not context.operands["w"].channels_last:
        yield "x"


WORKAROUND = Workaround(
    id="W-096",
    title="Convolution of a channels-last input whose filter spans it in a dim, in another layout",
    symptom="wrong numbers",
    targets=GFX9,
    instead="the input is materialised",
    operands=_operands,
)
