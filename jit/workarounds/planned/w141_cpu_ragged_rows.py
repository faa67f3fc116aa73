# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-141: Several reductions of rows that do not fill vectors are scalar code.

Loops are peeled for vectors; where a workgroup's rows leave a rest as well, nothing of them is
vectors any more.  One reduction alone does not have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...cpu_machine import cpu_machine
from ...node_context import GraphContext, NodeContext
from ...ops.blocking import BLOCKED
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


def _flags(around: GraphContext, nodes: Sequence[NodeContext]) -> Iterator[str]:
    if not any(map(_slower, nodes)) and any(map(_ragged, nodes)):
        yield "--iree-llvmcpu-vector-pproc-strategy=none"


def _slower(context: NodeContext) -> bool:
    """Whether a node takes up to 1.6 times as long without peeling.

    Those are convolutions and attention but in blocks, whose tiles are given.
    """
    return context.named("conv") or (context.named("attention") and context.strategy != BLOCKED)


def _ragged(context: NodeContext) -> bool:
    """Whether a node is the second reduction of rows that do not fill vectors."""
    lanes = cpu_machine(context.target).lanes
    if context.named("sdpa"):
        from ...ops.attention import keys_of  # graphs without attention do not load it

        return not context.dynamic and keys_of(context) % lanes > 0
    if context.named("layernorm", "layernorm_backward"):
        from ...ops.row_norms import axes_of  # graphs without norms do not load it

        axes = axes_of(context)
    elif context.named("reduction") and context.around.made_of(context.uid("x"), "reduction"):
        both = zip(context.dims("x"), context.dims("y"), strict=True)
        axes = tuple(axis for axis, (before, after) in enumerate(both) if before != after)
    else:
        return False
    dims, strides = context.dims("x"), context.spec("x").strides
    inner = [dims[axis] for axis in axes if strides[axis] == 1]
    return any(extent > 1 and extent % lanes for extent in inner)


WORKAROUND = Workaround(
    id="W-141",
    title="Several reductions of rows that do not fill vectors are scalar code",
    symptom="slow",
    targets=CPU,
    instead="loops are not peeled",
    flags=_flags,
)
