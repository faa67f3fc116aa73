# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-012: A norm fused with the unpacking of a data-tiled matmul: stack frame too large."""

from __future__ import annotations

from collections.abc import Iterator

from ...node_context import NodeContext
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


def _operands(context: NodeContext) -> Iterator[str]:
    norm = context.named("layernorm", "rmsnorm")
    if norm and context.around.made_of(context.uid("x"), "matmul", "conv"):
        yield "x"


WORKAROUND = Workaround(
    id="W-012",
    title="A norm fused with the unpacking of a data-tiled matmul: stack frame too large",
    symptom="does not compile",
    targets=CPU,
    instead="x is materialised; the target's flags raise the limit of the stack besides",
    operands=_operands,
)
