# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-120: A concatenated output is made in scratch memory and copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...node_context import NodeContext
from ..rule import ALL, Workaround

if TYPE_CHECKING:
    from ....graph_api.ops.concatenate import Concatenate

__all__ = ["WORKAROUND", "part_by_part"]


def part_by_part(context: NodeContext) -> bool:
    """Whether a node concatenates parts into an output; but on CPUs they are dense there.

    Along an inner dim the compiler moves that dim outwards and back again, for all parts: on CPUs
    that takes two to four times as long as storing each part.  On GPUs each such part would be
    one more kernel.

    What other nodes read stays one value: rules for it (W-068) know what it looks like.  The
    contents of an argument can be had of floats only: of integers the conversion fails.
    """
    if not context.named("concatenate") or len(context.node.inputs) == 1 or context.dynamic:
        return False
    axis = cast("Concatenate", context.op).axis
    made = context.spec("y")
    wide = made.data_type.is_float and made.data_type.bits >= 16
    if made.virtual or not wide or context.around.readers[context.uid("y")]:
        return False
    order = made.layout.order
    outer = order[: order.index(axis)]
    dense = all(made.dims[one] == 1 for one in outer)
    return made.layout.dense and (dense or context.target.is_cpu)


WORKAROUND = Workaround(
    id="W-120",
    title="A concatenated output is made in scratch memory and copied",
    symptom="slow",
    targets=ALL,
    instead="each part is stored to the output, whose memory the compiler is given",
    node=part_by_part,
)
