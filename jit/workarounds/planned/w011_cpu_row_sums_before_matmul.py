# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-011: Row sums fused with the packing of a data-tiled matmul: vectors too large.

Seen with 256 rows of 512.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...node_context import NodeContext
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


def _operands(context: NodeContext) -> Iterator[str]:
    if context.named("matmul", "conv"):
        for port, uid in context.node.inputs.items():
            if context.around.made_of(uid, "layernorm", "rmsnorm", "reduction"):
                yield port


WORKAROUND = Workaround(
    id="W-011",
    title="Row sums fused with the packing of a data-tiled matmul: vectors too large",
    symptom="does not compile",
    targets=CPU,
    instead="the operand is materialised",
    operands=_operands,
)
