"""W-012: A norm fused with the unpacking of a data-tiled matmul: stack frame too large."""

from __future__ import annotations

from collections.abc import Iterator

from ....graph_api.ops.conv_fprop import ConvOp
from ....graph_api.ops.layernorm import Layernorm
from ....graph_api.ops.matmul import Matmul
from ....graph_api.ops.rmsnorm import Rmsnorm
from ...node_context import NodeContext
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


def _operands(context: NodeContext) -> Iterator[str]:
    norm = isinstance(context.op, Layernorm | Rmsnorm)
    if norm and context.around.made_of(context.uid("x"), Matmul | ConvOp):
        yield "x"


WORKAROUND = Workaround(
    id="W-012",
    title="A norm fused with the unpacking of a data-tiled matmul: stack frame too large",
    symptom="does not compile",
    targets=CPU,
    instead="x is materialised; the target's flags raise the limit of the stack besides",
    operands=_operands,
)
