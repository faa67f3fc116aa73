# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-088: The result of a convolution, its spatial dims exchanged by a transpose.

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
    op = context.op
    if not isinstance(op, Transpose):
        return
    spatial = [axis for axis in op.permutation if axis >= 2]
    if spatial != sorted(spatial) and context.around.made_of(context.uid("x"), "conv"):
        yield "x"


WORKAROUND = Workaround(
    id="W-088",
    title="The result of a convolution, its spatial dims exchanged by a transpose",
    symptom="wrong numbers",
    targets=GFX9,
    instead="the result is materialised before the transpose",
    operands=_operands,
)
