# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What graph files leave open; settings decide of ops.  `flatbuffer.inv_variance` has a third.

A pointwise backward mode has dy and x as its operands, which files order in two ways: x was
first in hipDNN of 2025.  Files of older writers lack the sampling positions of the resample modes
that resize.  Graphs in which no result is marked as an output have those that no node reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard, TypeVar

from ..building import GraphBuilder
from ..enums import ResizeCoordinates
from ..frozen import FrozenGraph
from ..graph import Graph
from ..ops import FAMILIES
from ..ops.base import Op
from ..ops.pointwise import Pointwise
from ..tensor_rules import default_type

if TYPE_CHECKING:
    from ..ops.resample_fwd import ResampleOp

__all__ = ["OPERANDS", "exchange", "exchanged", "is_open", "mark_outputs", "sample_at", "x_first"]

OPERANDS = ("auto", "dy_x", "x_dy")
"""Orders of a backward mode's operands; auto: that of the era, (dy, x) where it is not known."""

T = TypeVar("T")


def _operands(op: Op, inputs: Mapping[str, T]) -> dict[str, T]:
    """Return the operands, those of a backward mode the other way round."""
    backward = isinstance(op, Pointwise) and op.backward
    values = reversed([*inputs.values()]) if backward else inputs.values()
    return dict(zip(inputs, values, strict=True))


def is_open(graph: Graph) -> bool:
    """Return whether a graph that was read has an op whose meaning settings decide."""
    return any(
        (isinstance(op, Pointwise) and op.backward)
        or (_resamples(op) and op.resizes and op.coordinates is None)
        or op.NAME == "batchnorm_inference"
        for op in (node.op for node in graph.nodes)
    )


def _resamples(op: Op) -> TypeGuard[ResampleOp]:
    """Whether an op is of that class, which a graph without one need not import."""
    return FAMILIES.get(op.NAME) == "resample"


def sample_at(graph: Graph, coordinates: str) -> None:
    """Give resize modes without sampling positions those that the file's writer had in mind."""
    for node in graph.nodes:
        if _resamples(op := node.op) and op.resizes and op.coordinates is None:
            node.op = replace(op, coordinates=ResizeCoordinates.parse(coordinates))


def x_first(operands: str, *, old: bool = False) -> bool:
    """Return whether in_0 of a backward mode is x; ``old``: in a graph of hipDNN of 2025.

    Raises
    ------
    ValueError
        If the order is none of `OPERANDS`.
    """
    if operands not in OPERANDS:
        raise ValueError(f"operands are {operands!r}; allowed: {', '.join(OPERANDS)}")
    return operands == "x_dy" or (operands == "auto" and old)


def exchange(graph: GraphBuilder) -> None:
    """Put dy first in the backward modes of a graph that was read with x first."""
    for node in graph.nodes:
        node.inputs = _operands(node.op, node.inputs)


def mark_outputs(graph: GraphBuilder) -> None:
    """Make outputs of the results that no node reads, if no result is marked as one.

    Hosts of hipDNN's 2025 form mark none and pass a buffer for each.  A result that is left
    unmarked beside marked ones has no buffer, and stays as it is.
    """
    results = [tensor for node in graph.nodes for tensor in node.outputs.values()]
    if any(not tensor.virtual for tensor in results):
        return
    read = {id(tensor) for node in graph.nodes for tensor in node.inputs.values()}
    for tensor in results:
        if id(tensor) not in read:
            tensor.data_type = default_type(graph, tensor)  # that of a virtual tensor
            tensor.virtual = False


def exchanged(graph: FrozenGraph) -> FrozenGraph:
    """Return the graph for a reader that takes in_0 of a backward mode for x."""
    nodes = (replace(node, inputs=_operands(node.op, node.inputs)) for node in graph.nodes)
    return replace(graph, nodes=tuple(nodes))
