"""What graph files leave open in two ops; settings decide.  `flatbuffer.inv_variance` has a third.

A pointwise backward mode has dy and x as its operands, which files order in two ways.  Files
of older writers lack the sampling positions of the resample modes that resize.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from ..enums import ResizeCoordinates
from ..frozen import FrozenGraph
from ..graph import Graph
from ..ops.base import Op
from ..ops.batchnorm_inference import BatchnormInference
from ..ops.pointwise import Pointwise
from ..ops.resample_fwd import ResampleOp

__all__ = ["exchanged", "is_open", "read_as"]

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
        or (isinstance(op, ResampleOp) and op.resizes and op.coordinates is None)
        or isinstance(op, BatchnormInference)
        for op in (node.op for node in graph.nodes)
    )


def read_as(graph: Graph, operands: str, coordinates: str) -> None:
    """Give the ops of a graph that was read the meaning that the file's writer had in mind.

    Parameters
    ----------
    graph : Graph
    operands : str
        ``x_dy`` where in_0 of a backward mode is x in the file.
    coordinates : str
        Sampling positions for resize modes that do not give them.
    """
    for node in graph.nodes:
        if operands == "x_dy":
            node.inputs = _operands(node.op, node.inputs)
        if isinstance(node.op, ResampleOp) and node.op.resizes and node.op.coordinates is None:
            node.op = replace(node.op, coordinates=ResizeCoordinates.parse(coordinates))


def exchanged(graph: FrozenGraph) -> FrozenGraph:
    """Return the graph for a reader that takes in_0 of a backward mode for x."""
    nodes = (replace(node, inputs=_operands(node.op, node.inputs)) for node in graph.nodes)
    return replace(graph, nodes=tuple(nodes))
