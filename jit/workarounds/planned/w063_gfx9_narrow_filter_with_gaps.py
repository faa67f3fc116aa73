# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-063: 16-bit or int8 filter with gaps between its elements."""

from __future__ import annotations

from collections.abc import Iterator

from ....graph_api.dtypes import DataType
from ...node_context import NodeContext
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


# Types in which matrix instructions take the filter; address spaces are mixed up then.
_STAY_NARROW = (DataType.HALF, DataType.BFLOAT16, DataType.INT8)


def _operands(context: NodeContext) -> Iterator[str]:
    if context.named("conv") and "w" in context.node.inputs:
        w = context.spec("w")
        if w.layout.padded and w.data_type in _STAY_NARROW:
            yield "w"


WORKAROUND = Workaround(
    id="W-063",
    title="16-bit or int8 filter with gaps between its elements",
    symptom="does not compile",
    targets=GFX9,
    instead="the filter is materialised",
    operands=_operands,
)
