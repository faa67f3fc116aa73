# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-052: Result of a convolution whose spatial dims are out of order in memory, (N, C, W, H)."""

from __future__ import annotations

from ....graph_api.ops.conv_fprop import ConvOp
from ...node_context import NodeContext
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _outputs(context: NodeContext, port: str) -> bool:
    spatial = [axis for axis in context.spec(port).layout.order if axis >= 2]
    return spatial != sorted(spatial) and context.around.has(ConvOp)


WORKAROUND = Workaround(
    id="W-052",
    title="Result of a convolution whose spatial dims are out of order in memory, (N, C, W, H)",
    symptom="wrong numbers",
    targets=GFX9,
    instead="the output is materialised before its transpose",
    outputs=_outputs,
)
