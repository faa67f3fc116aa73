"""W-062: float32 computed from narrower inputs by pointwise ops, then convolved: too much LDS."""

from __future__ import annotations

from collections.abc import Iterator

from ....graph_api.dtypes import DataType
from ....graph_api.ops.conv_fprop import ConvOp
from ....graph_api.ops.pointwise import Pointwise
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
    tensors, todo = around.graph.tensors, [uid]
    if tensors[uid].data_type is not DataType.FLOAT:
        return False
    while todo:
        at = todo.pop()
        maker = around.makers.get(at)
        if maker is None and at != uid and tensors[at].data_type.bits < 32:
            return True
        if maker is not None and isinstance(maker.op, Pointwise):
            todo += maker.inputs.values()
    return False


WORKAROUND = Workaround(
    id="W-062",
    title="float32 computed from narrower inputs by pointwise ops, then convolved: too much LDS",
    symptom="does not compile",
    targets=GFX9,
    instead="the operand is materialised",
    operands=_operands,
)
