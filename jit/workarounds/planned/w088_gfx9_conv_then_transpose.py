# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-088: The result of a convolution, its spatial dims exchanged by a transpose.

Or by an op that moves elements in the order of memory, which a gradient has of its operands.
The transpose is folded into the convolution, which mixes up the two dims as in W-052; of one row
it does not compile.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....graph_api.ops.transpose import Transpose
from ...node_context import NodeContext
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _operands(context: NodeContext) -> Iterator[str]:
    """Yield operands that are read in another order of their spatial dims.

    A transpose says which; other ops that move elements do so in the order of memory.
    """
    if not context.moves:
        return
    for port, uid in context.node.inputs.items():
        layout = context.operands.get(port)
        order = context.op.permutation if isinstance(context.op, Transpose) else ()
        order = order or (layout.order if layout else ())
        spatial = [axis for axis in order if axis >= 2]
        if spatial != sorted(spatial) and context.around.made_of(uid, "conv"):
            yield port


WORKAROUND = Workaround(
    id="W-088",
    title="The result of a convolution, its spatial dims exchanged by a transpose",
    symptom="wrong numbers",
    targets=GFX9,
    instead="the result is materialised before the transpose",
    operands=_operands,
)
