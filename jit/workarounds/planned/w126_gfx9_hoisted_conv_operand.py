# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-126: A convolution of values that depend on no argument, such as indices.

They are computed once, when the module is loaded, and their padding with them: it stands alone
there (W-054).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....graph_api.enums import PointwiseMode
from ....graph_api.frozen import FrozenGraph
from ....graph_api.ops.pointwise import Pointwise
from ...node_context import GraphContext, NodeContext
from ...ops.hoisting import KEEP_EXPRESSIONS
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]

_CONVOLUTIONS = ("conv_fprop", "conv_dgrad", "conv_wgrad")


def _flags(around: GraphContext, nodes: Sequence[NodeContext]) -> Iterator[str]:
    convolutions = (node.node.inputs for node in nodes if node.named(*_CONVOLUTIONS))
    padded = {uid for inputs in convolutions for port, uid in inputs.items() if port != "w"}
    if not padded.isdisjoint(_constant(around.graph)):
        yield KEEP_EXPRESSIONS


def _constant(graph: FrozenGraph) -> set[int]:
    """Return the tensors that are computed from no argument; of indices only the dims count."""
    found = {uid for uid, spec in graph.tensors.items() if spec.value is not None}
    for node in graph.nodes:
        indices = isinstance(node.op, Pointwise) and node.op.mode is PointwiseMode.GEN_INDEX
        if indices or found.issuperset(node.inputs.values()):
            found.update(node.outputs.values())
    return found


WORKAROUND = Workaround(
    id="W-126",
    title="A convolution of values that depend on no argument",
    symptom="wrong numbers",
    targets=GFX9,
    instead="they are computed in each call",
    flags=_flags,
)
