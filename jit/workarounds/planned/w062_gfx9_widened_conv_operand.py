# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-062: float32 computed from narrower inputs by pointwise ops, then convolved: too much LDS."""

from __future__ import annotations

from collections.abc import Iterator

from ....graph_api.dtypes import DataType
from ....graph_api.ops.conv_fprop import ConvOp
from ...node_context import GraphContext, NodeContext
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _operands(context: NodeContext) -> Iterator[str]:
    if isinstance(context.op, ConvOp):
        for port, uid in context.node.inputs.items():
            if _widened(context.around, uid):
                yield port


def _widened(around: GraphContext, uid: int) -> bool:
    """Whether pointwise nodes compute a float32 tensor from narrower inputs."""
    tensors = around.graph.tensors

    def find() -> set[int]:
        given = (at for at in tensors if at not in around.makers)
        return around.fed_by(at for at in given if tensors[at].data_type.bits < 32)

    return tensors[uid].data_type is DataType.FLOAT and uid in around.once(_widened, find)


WORKAROUND = Workaround(
    id="W-062",
    title="float32 computed from narrower inputs by pointwise ops, then convolved: too much LDS",
    symptom="does not compile",
    targets=GFX9,
    instead="the operand is materialised",
    operands=_operands,
)
