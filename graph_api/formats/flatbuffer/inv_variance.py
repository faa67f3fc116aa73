# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ``inv_variance`` of a `batchnorm_inference` node holds: it changed with the eras.

hipDNN of November 2025 named the field so, but its CPU reference and its MIOpen plugin took a
*variance*, with a fixed epsilon.  Later hipDNN means the inverse standard deviation, and has a
node of its own for the variance, whose epsilon is a tensor.  Here the meaning is settled while a
graph is read or written, so that no later layer has to know of eras:

==========  ========================================================================
auto        as the era has it: variance in N25, inverse in NODE
inverse     inverse standard deviation, in every era
variance    variance, in every era; `EPSILON` is added
==========  ========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...building import GraphBuilder, Node
from ...dtypes import DataType
from ...frozen import FrozenGraph, FrozenNode
from ...ops import OPS
from ...ops.base import Op
from ...values import stored
from .schema_types import Era

if TYPE_CHECKING:
    from ...tensor import Tensor

__all__ = ["EPSILON", "MEANINGS", "holds_inverse", "is_variance", "narrowed", "reinterpret"]

_INVERSE, _VARIANCE = "batchnorm_inference", "batchnorm_inference_variance_ext"
EPSILON = 1e-5
"""hipDNN's ``BATCHNORM_DEFAULT_EPSILON``."""

MEANINGS = ("auto", "inverse", "variance")


def is_variance(meaning: str, era: Era) -> bool:
    """Whether the field holds a variance.

    Raises
    ------
    ValueError
        If the meaning is none of `MEANINGS`.
    """
    if meaning not in MEANINGS:
        raise ValueError(f"inv_variance is {meaning!r}; allowed: {', '.join(MEANINGS)}")
    return meaning == "variance" or (meaning == "auto" and era is Era.N25)


def reinterpret(graph: GraphBuilder) -> None:
    """Turn every `batchnorm_inference` of a graph into the op that takes a variance."""
    epsilon: Tensor | None = None
    for node in graph.nodes:
        if node.op.NAME == _INVERSE:
            if epsilon is None:
                epsilon = graph.scalar(EPSILON, data_type=DataType.DOUBLE, name="epsilon")
            _reinterpret(node, epsilon)


def _reinterpret(node: Node, epsilon: Tensor) -> None:
    ports = {"variance" if p == "inv_variance" else p: t for p, t in node.inputs.items()}
    node.op = OPS[_VARIANCE]()
    node.inputs = {**ports, "epsilon": epsilon}


def holds_inverse(op: type[Op]) -> bool:
    """Whether the op takes what the field's name means, an inverse standard deviation."""
    return op.NAME == _INVERSE


def narrowed(graph: FrozenGraph, node: FrozenNode) -> tuple[type[Op], Mapping[str, int]] | None:
    """Return op and inputs of a node with a variance as N25 has them; None where it cannot."""
    if node.op.NAME != _VARIANCE:
        return None
    epsilon = graph.tensors[node.inputs["epsilon"]]
    if epsilon.value is None or epsilon.value != stored(EPSILON, epsilon.data_type):
        return None
    ports = {"inv_variance" if p == "variance" else p: u for p, u in node.inputs.items()}
    return OPS[_INVERSE], {port: uid for port, uid in ports.items() if port != "epsilon"}
