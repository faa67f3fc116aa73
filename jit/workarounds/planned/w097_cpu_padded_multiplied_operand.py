# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-097: A padded operand fused with the packing of a data-tiled matmul does not compile.

A half product of 64x1000x64 with rows of 1,024 needs a stack frame of 132 KB; a bfloat16 one of
33x200x31 with rows of 256 takes all memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...node_context import NodeContext
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


def _operands(context: NodeContext) -> Iterator[str]:
    if context.named("matmul", "conv"):
        around = context.around
        padded = around.once("fed by padded arguments", lambda: around.fed_by(_padded(context)))
        yield from (port for port, uid in context.node.inputs.items() if uid in padded)


def _padded(context: NodeContext) -> Iterator[int]:
    """Yield the arguments with gaps; the stride of a scalar is none."""
    for uid in context.graph.inputs:
        spec = context.graph.tensors[uid]
        if not spec.runtime_scalar and spec.layout.padded:
            yield uid


WORKAROUND = Workaround(
    id="W-097",
    title="A padded operand fused with the packing of a data-tiled matmul does not compile",
    symptom="does not compile",
    targets=CPU,
    instead="the operand is materialised",
    operands=_operands,
)
