# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A run of a graph's nodes as a graph of its own."""

from __future__ import annotations

from dataclasses import replace

from ....graph_api.frozen import FrozenGraph
from ....graph_api.tensor import TensorSpec

__all__ = ["between", "subgraph"]


def subgraph(graph: FrozenGraph, first: int, last: int) -> FrozenGraph:
    """Return the nodes from ``first`` to ``last`` (included, in canonical order) as a graph.

    What they take from nodes before them becomes an input, and what later nodes take becomes an
    output; uids, names and layouts stay.  A tensor that was virtual gets a buffer where it
    crosses a boundary.
    """
    nodes = graph.nodes[first : last + 1]
    made = {uid for node in nodes for uid in node.outputs.values()}
    taken = {uid for n in graph.nodes[last + 1 :] for uid in n.inputs.values()}
    uids = [uid for n in nodes for uid in (*n.inputs.values(), *n.outputs.values())]
    specs: dict[int, TensorSpec] = {}
    for uid in uids:
        spec = graph.tensors[uid]
        crosses = uid in taken if uid in made else spec.value is None
        specs[uid] = replace(spec, virtual=False) if spec.virtual and crosses else spec
    for spec in list(specs.values()):
        if spec.ragged_offset_uid is not None:
            specs.setdefault(spec.ragged_offset_uid, graph.tensors[spec.ragged_offset_uid])
    return replace(
        graph,
        name=f"{graph.name or 'graph'}[{first}:{last + 1}]",
        nodes=nodes,
        tensors=specs,
        inputs=tuple(u for u, s in specs.items() if u not in made and s.value is None),
        outputs=tuple(u for u, s in specs.items() if u in made and not s.virtual),
        unused=(),
        preferred_engine_id=None,
    )


def between(graph: FrozenGraph, parts: list[FrozenGraph]) -> dict[int, TensorSpec]:
    """Return the tensors that are buffers of parts and not of the whole graph, by uid."""
    return {
        uid: part.tensors[uid]
        for part in parts
        for uid in part.outputs
        if graph.tensors[uid].virtual
    }
