"""W-011: Row sums fused with the packing of a data-tiled matmul: vectors too large.

Seen with 256 rows of 512.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....graph_api.ops.conv_fprop import ConvOp
from ....graph_api.ops.layernorm import Layernorm
from ....graph_api.ops.matmul import Matmul
from ....graph_api.ops.reduction import Reduction
from ....graph_api.ops.rmsnorm import Rmsnorm
from ...node_context import NodeContext
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


def _operands(context: NodeContext) -> Iterator[str]:
    if isinstance(context.op, Matmul | ConvOp):
        for port, uid in context.node.inputs.items():
            if context.around.made_of(uid, Layernorm | Rmsnorm | Reduction):
                yield port


WORKAROUND = Workaround(
    id="W-011",
    title="Row sums fused with the packing of a data-tiled matmul: vectors too large",
    symptom="does not compile",
    targets=CPU,
    instead="the operand is materialised",
    operands=_operands,
)
