# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a graph is in hipDNN's engine override rules: its main op, criteria and input tensors.

hipDNN describes a whole graph by one of its nodes, the one of the highest priority: so a rule for
a convolution holds for the convolution with and without an epilogue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...graph_api.frozen import FrozenGraph, FrozenNode

__all__ = ["MatchKey", "MatchTensor", "match_keys"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchTensor:
    """An input: its id in hipDNN's schema, and its dims and strides."""

    id: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchKey:
    """Op, criteria (sorted by name) and input tensors in the order of hipDNN's schema."""

    op: str
    criteria: tuple[tuple[str, int], ...]
    tensors: tuple[MatchTensor, ...]


def match_keys(graph: FrozenGraph) -> tuple[MatchKey, ...]:
    """Return what describes a graph: of its nodes of the highest priority, in order.

    hipDNN takes the first of them in the order in which the graph was written, which a frozen
    graph does not keep.  Nothing for a graph of ops that rules do not know.
    """
    known = [(n.op.MATCH.priority, n) for n in graph.nodes if n.op.MATCH is not None]
    highest = max((priority for priority, _ in known), default=0)
    return tuple(dict.fromkeys(_key(graph, n) for priority, n in known if priority == highest))


def _key(graph: FrozenGraph, node: FrozenNode) -> MatchKey:
    op, how = node.op, node.op.MATCH
    assert how is not None
    return MatchKey(
        op=how.name or op.NAME,
        criteria=tuple(sorted((name, _code(op, field)) for name, field in how.criteria)),
        tensors=tuple(_tensors(graph, node, how.ports or [port.name for port in op.INPUTS])),
    )


def _tensors(graph: FrozenGraph, node: FrozenNode, ports: Sequence[str]) -> Iterator[MatchTensor]:
    keys = {field.name: field.key for field in node.op.FIELDS}
    for port in ports:
        if port in node.inputs:
            spec = graph.tensors[node.inputs[port]]
            yield MatchTensor(id=keys[port], dims=spec.dims, strides=spec.strides)


def _code(op: Any, field: str) -> int:
    """Return a mode's number in hipDNN's schema."""
    return int(getattr(op, field).wire)
