"""Which frozen graphs the IREE engine serves: rules, decided without compiler or torch-mlir.

A graph that passes is compiled for real in the tests, for every sample problem and target; what
the compiler cannot do right is declined here by a rule that names it.  What one op (or family of
ops) cannot do stands in a module of its own, with its rules; ``_CHECKS`` is their table.  Every op
takes every data type on every target: ``jit/emit/narrow.py`` does what the compiler cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...graph_api.errors import Problem
from ...graph_api.frozen import FrozenGraph, FrozenNode
from ..lowering import LOWERINGS
from ..target import Target
from . import attention, block_scale, convolution, custom_op, dynamic, pooling, row_norms
from .base import problem

__all__ = ["RULES", "problems"]

RULES: dict[str, str] = {
    "IREE-01": "the op has a lowering",
    "IREE-04": "ragged tensors are not served yet",
}

Check = Callable[[FrozenGraph, FrozenNode, Target], Iterator[Problem]]

_CHECKS: dict[str, Check] = {
    "block_scale_dequantize": block_scale.problems,
    "conv_dgrad": convolution.problems,
    "conv_fprop": convolution.problems,
    "conv_wgrad": convolution.problems,
    "custom_op": custom_op.problems,
    "layernorm": row_norms.problems,
    "layernorm_backward": row_norms.problems,
    "resample_bwd": pooling.problems,
    "resample_fwd": pooling.problems,
    "rmsnorm": row_norms.problems,
    "rmsnorm_backward": row_norms.problems,
    "sdpa": attention.problems,
    "sdpa_backward": attention.problems,
}


def problems(graph: FrozenGraph, target: Target) -> Iterator[Problem]:
    """Yield every reason not to serve a graph for a target; nothing yielded is a promise."""
    for node in graph.nodes:
        yield from _node_problems(graph, node)
        yield from dynamic.problems(graph, node, target)
        if check := _CHECKS.get(node.op.NAME):
            yield from check(graph, node, target)


def _node_problems(graph: FrozenGraph, node: FrozenNode) -> Iterator[Problem]:
    if node.op.NAME not in LOWERINGS:
        yield problem(node, "IREE-01", "", node.op.NAME, f"one of {', '.join(LOWERINGS)}")
    for port, uid in (*node.inputs.items(), *node.outputs.items()):
        spec = graph.tensors[uid]
        if spec.ragged_offset_uid is not None:
            yield problem(node, "IREE-04", port, "a ragged tensor", "a tensor with fixed dims")
