# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-120: A concatenated output is made in scratch memory and copied."""

from __future__ import annotations

from ....graph_api.ops.concatenate import Concatenate
from ...node_context import NodeContext
from ..rule import ALL, Workaround

__all__ = ["WORKAROUND", "part_by_part"]


def part_by_part(context: NodeContext) -> bool:
    """Whether a node concatenates parts that are dense in the memory of an output.

    What other nodes read stays one value: rules for it (W-068) know what it looks like.  The
    contents of an argument can be had of floats only: of integers the conversion fails.
    """
    op, node = context.op, context.node
    if not isinstance(op, Concatenate) or len(node.inputs) == 1 or context.dynamic:
        return False
    made = context.spec("y")
    wide = made.data_type.is_float and made.data_type.bits >= 16
    if made.virtual or not wide or context.around.readers[context.uid("y")]:
        return False
    order = made.layout.order
    outer = order[: order.index(op.axis)]
    return made.layout.dense and all(made.dims[axis] == 1 for axis in outer)


WORKAROUND = Workaround(
    id="W-120",
    title="A concatenated output is made in scratch memory and copied",
    symptom="slow",
    targets=ALL,
    instead="each part is stored to the output, whose memory the compiler is given",
    node=part_by_part,
)
