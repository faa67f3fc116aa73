# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-128: A row over several dims is added up by more subgroups than a subgroup has lanes at work.

`subgroup_sums` says which sums are lost.  Rows in one piece have one dim, but if what is added up
is read in another order beside it, they keep theirs, or get those of a reshape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from itertools import accumulate
from math import prod
from operator import mul

from ....graph_api.ops.pointwise import Pointwise
from ...emit.dims import Dim
from ...node_context import GraphContext, NodeContext, is_named
from ...ops.row_norms import row_length
from ...subgroup_sums import loses_sums
from ..rule import GFX9, Workaround

__all__ = ["NORMS", "WORKAROUND"]

_WAVE = 64
_LOADS = (16, 8, 4, 2, 1)  # elements in 128 bits
NORMS = ("layernorm", "layernorm_backward", "rmsnorm", "rmsnorm_backward")
_IN_ORDER = (*NORMS, "reduction", "reshape")


def _lost(row: int, last: int) -> bool:
    """Whether sums of subgroups are lost, for rows whose last dim has this extent."""
    return row % _WAVE == 0 and any(loses_sums(row, last, loads) for loads in _LOADS)


def _ends(around: GraphContext) -> Mapping[int, Set[int]]:
    """Return, by their elements, what last dims tensors may have once dims are merged or split."""
    found: dict[int, set[int]] = {}
    for spec in around.graph.tensors.values():
        for order in (range(len(spec.dims)), spec.layout.order):
            ends = accumulate((spec.dims[i] for i in reversed(order)), mul)
            found.setdefault(prod(spec.dims), set()).update(ends)
    return found


def _one_order(around: GraphContext) -> bool:
    """Whether all values of a graph are in the order of their dims, and stay so."""
    nodes = around.graph.nodes
    return all(isinstance(n.op, Pointwise) or is_named(n.op, *_IN_ORDER) for n in nodes) and all(
        spec.layout.order == tuple(range(len(spec.dims))) for spec in around.graph.tensors.values()
    )


def _row(context: NodeContext) -> int:
    """Return how many elements the node adds up for each row, or 0."""
    if context.named("reduction"):
        return prod(context.dims("x")) // prod(context.dims("y"))
    return row_length(context) if context.named(*NORMS) else 0


def _struck(context: NodeContext) -> bool:
    row, around = _row(context), context.around
    if row < 2 or around.once("one order", lambda: _one_order(around)):
        return False
    ends = around.once("ends of rows", lambda: _ends(around))[prod(context.dims("x"))]
    return any(_lost(row, last) for last in ends if row % last == 0 and last < row)


def _one_window(n: int, size: int, stride: int, dilation: int, pre: int, post: int) -> bool:
    """Whether a filter of size 1 has one window in a dim of extent n, and no padding.

    The compiler reads what the window reads by a constant index, and takes the convolution for a
    sum over channels and positions.
    """
    fixed = not isinstance(n, Dim)
    return fixed and size == 1 and not (pre or post) and 1 < n <= stride


def _operands(context: NodeContext) -> Iterator[str]:
    if context.named("reduction") and _struck(context):
        yield "x"


WORKAROUND = Workaround(
    id="W-128",
    title="A row over several dims is added up by more subgroups than a subgroup has lanes at work",
    symptom="wrong numbers",
    targets=GFX9,
    instead="what is added up is materialised",
    operands=_operands,
    node=lambda context: context.named(*NORMS) and _struck(context),
    applies=_one_window,
)
