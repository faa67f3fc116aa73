# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-141: Several reductions of rows that do not fill vectors are scalar code.

Loops are peeled for vectors; where a workgroup's rows leave a rest as well, nothing of them is
vectors any more.  One reduction alone does not have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....graph_api.ops.layernorm import Layernorm
from ....graph_api.ops.layernorm_backward import LayernormBackward
from ....graph_api.ops.reduction import Reduction
from ...cpu_machine import cpu_machine
from ...node_context import GraphContext, NodeContext
from ...ops.row_norms import axes_of
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]

# Convolutions and attention that are no matmuls take up to 1.6 times as long without peeling.
_SLOWER = ("conv", "attention")


def _flags(around: GraphContext, nodes: Sequence[NodeContext]) -> Iterator[str]:
    if any(node.named(*_SLOWER) for node in nodes):
        return
    if sum(_ragged_reductions(node) for node in nodes) > 1:
        yield "--iree-llvmcpu-vector-pproc-strategy=none"


def _ragged_reductions(context: NodeContext) -> int:
    """Return how many reductions of a node are of rows that do not fill vectors."""
    op, count = context.op, 2
    if isinstance(op, Reduction):
        dims, rows = context.dims("x"), context.dims("y")
        axes = tuple(i for i, (n, m) in enumerate(zip(dims, rows, strict=True)) if n != m)
        count = 1
    elif isinstance(op, Layernorm | LayernormBackward):
        axes = axes_of(context)
    else:
        return 0
    strides = context.spec("x").strides
    inner = [context.dims("x")[axis] for axis in axes if strides[axis] == 1]
    lanes = cpu_machine(context.target).lanes
    return count if any(extent > 1 and extent % lanes for extent in inner) else 0


WORKAROUND = Workaround(
    id="W-141",
    title="Several reductions of rows that do not fill vectors are scalar code",
    symptom="slow",
    targets=CPU,
    instead="loops are not peeled",
    flags=_flags,
)
