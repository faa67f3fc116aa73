# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-109: A sum that is stored, and repeated along a dim which a later sum adds up, counts again.

Each step of the later sum adds it up once more, in place: sums of rows of 33 were three times what
they are.

Here are those that nodes and their readers tell; `compiler.dispatch_checks` sees the others, where
fewer loops are fused then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from ....graph_api.enums import ReductionMode
from ...node_context import GraphContext, NodeContext
from ..rule import CPU, Workaround

if TYPE_CHECKING:
    from ....graph_api.ops.reduction import Reduction
    from ....graph_api.ops.transpose import Transpose

__all__ = ["WORKAROUND"]

# A maximum is the same when it is taken again, and a mean or a root is not what is added up.
_MODES = (ReductionMode.ADD, ReductionMode.MUL, ReductionMode.MUL_NO_ZEROS, ReductionMode.NORM1)


def _results(context: NodeContext) -> bool:
    around = context.around
    if context.named("sdpa"):
        # o is divided by the sums of the rows, which are in `stats` too.
        later = _facts(around).summed.get(context.uid("o"), ())
        return -1 in later and len(context.node.outputs) > 1
    if context.named("batchnorm_backward"):
        # dbias is the sum of dy, whose mean over each channel dx lacks.
        later = _facts(around).summed.get(context.uid("dx"), set())
        stored = context.uid("dbias") in _facts(around).stored
        return stored and not later <= {1 - len(context.dims("dx"))}
    if context.named("reduction"):
        if cast("Reduction", context.op).mode not in _MODES:
            return False
    elif not context.named("matmul", "conv", "custom_op"):
        return False
    for uid in _facts(around).stored.intersection(context.node.outputs.values()):
        dims = around.graph.tensors[uid].dims
        later = _facts(around).summed.get(uid, ())
        if any(-axis > len(dims) or dims[axis] == 1 for axis in later):
            return True
    return False


class _Facts(NamedTuple):
    """What becomes of tensors.

    Attributes
    ----------
    summed : dict
        By tensor: the dims, counted from the last, along which is added up what pointwise nodes
        and moves make of it.  A dim that it lacks, or of extent 1, is repeated before.
    stored : set
        The tensors that more than one node reads, or that are outputs but for moves.
    """

    summed: dict[int, set[int]]
    stored: set[int]


def _facts(around: GraphContext) -> _Facts:
    return around.once("sums that are stored", lambda: _found(around))


def _found(around: GraphContext) -> _Facts:
    graph = around.graph
    stored = {uid for uid, t in graph.tensors.items() if not t.virtual or around.readers[uid] > 1}
    summed: dict[int, set[int]] = {}
    for node in reversed(graph.nodes):
        here, outputs = NodeContext(around, node), node.outputs.values()
        made = set[int]().union(*(summed.get(uid, ()) for uid in outputs))
        if here.moves and not stored.isdisjoint(outputs):
            stored.update(node.inputs.values())
        for uid in node.inputs.values():
            dims = graph.tensors[uid].dims
            axes = {*range(-len(dims), 0)}
            if here.named("transpose"):
                permutation = cast("Transpose", here.op).permutation
                axes = {permutation[axis] - len(dims) for axis in made}
            elif here.named("reshape"):
                axes = axes if made else made
            elif here.pointwise or here.moves:
                axes = made
            elif here.named("sdpa_backward") and uid in {here.uid("o"), here.uid("do")}:
                axes = {-1}  # it adds up o do, row by row
            elif here.named("matmul", "conv", "attention"):
                continue  # they read what was stored before
            else:
                if here.named("reduction"):
                    axes = {axis - len(dims) for axis in cast("Reduction", here.op).axes or ()}
                axes = {axis for axis in axes if dims[axis] > 1}
            summed.setdefault(uid, set()).update(axes)
    return _Facts(summed, stored)


WORKAROUND = Workaround(
    id="W-109",
    title="A stored sum, repeated along a dim that a later sum adds up, is added up again",
    symptom="wrong numbers",
    targets=CPU,
    instead="the sum is materialised",
    results=_results,
)
