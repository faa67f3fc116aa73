# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs that are compiled together, as unconnected parts of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hipdnn_iree.graph_api.frozen import FrozenGraph

__all__ = ["together"]


def together(graphs: Sequence[FrozenGraph]) -> tuple[FrozenGraph, list[int]]:
    """Return one graph of unconnected parts, and what was added to the uids of each part."""
    nodes, tensors, inputs, outputs, shifts = [], {}, [], [], []
    shift = 0
    for graph in graphs:
        # Else it would not be the same problem as a part of something.
        assert not graph.symbols
        assert not graph.is_override_shape_enabled
        shift += 1 - min(graph.tensors)
        for node in graph.nodes:
            moved = {
                side: {port: uid + shift for port, uid in getattr(node, side).items()}
                for side in ("inputs", "outputs")
            }
            nodes.append(replace(node, label=f"{graph.name}: {node.label}", **moved))
        for uid, spec in graph.tensors.items():
            ragged = spec.ragged_offset_uid
            tensors[uid + shift] = replace(
                spec,
                uid=uid + shift,
                ragged_offset_uid=None if ragged is None else ragged + shift,
            )
        inputs += [uid + shift for uid in graph.inputs]
        outputs += [uid + shift for uid in graph.outputs]
        shifts.append(shift)
        shift += max(graph.tensors)
    graph = replace(
        graphs[0],
        name="; ".join(graph.name for graph in graphs),
        nodes=tuple(nodes),
        tensors=tensors,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
    )
    return graph, shifts
