# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-073: Matmul with split or moved dims, operands copied straight to LDS.

Where the wavefronts of a workgroup do not divide the rows of a tile, as with 3 heads, all but the
first wavefront copy nothing (found by emulation).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....graph_api.ops.conv_fprop import ConvOp
from ....graph_api.ops.matmul import Matmul
from ....graph_api.ops.reshape import Reshape
from ....graph_api.ops.transpose import Transpose
from ...node_context import GraphContext, NodeContext
from ..rule import Workaround

__all__ = ["WORKAROUND"]


def _flags(around: GraphContext, nodes: Sequence[NodeContext]) -> Iterator[str]:
    if around.has(Matmul | ConvOp) and around.has(Reshape | Transpose):
        yield "--iree-llvmgpu-use-direct-load=false"


WORKAROUND = Workaround(
    id="W-073",
    title="Matmul with split or moved dims, operands copied straight to LDS",
    symptom="wrong numbers",
    targets=("gfx950",),
    instead="operands are not copied straight to LDS",
    flags=_flags,
)
