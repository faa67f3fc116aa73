# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the compiler may compute while it compiles, or when the module is loaded."""

from __future__ import annotations

from ...graph_api.enums import PointwiseMode
from ...graph_api.frozen import FrozenGraph
from ...graph_api.ops.pointwise import Pointwise

__all__ = ["constants"]


def constants(graph: FrozenGraph) -> set[int]:
    """Return the tensors that are computed from no argument; of indices only the dims count."""
    found = {uid for uid, spec in graph.tensors.items() if spec.value is not None}
    for node in graph.nodes:
        indices = isinstance(node.op, Pointwise) and node.op.mode is PointwiseMode.GEN_INDEX
        if indices or found.issuperset(node.inputs.values()):
            found.update(node.outputs.values())
    return found
