# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which nodes each launch serves, where several launches share a kernel.

Equal kernels become one before they can be told apart, and it keeps the locations of the graph
nodes that the first of them was made of.  Each launch, however, has the location of its own root,
from where the graph is followed beside the nodes of the first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from ...graph_api.frozen import FrozenGraph

__all__ = ["attributed"]


def attributed(graph: FrozenGraph, calls: Sequence[Mapping[str, Any]]) -> list[tuple[int, ...]]:
    """Return of each launch the places of the nodes that it computes (parts of), in order.

    Parameters
    ----------
    graph : FrozenGraph
    calls : sequence of mapping
        As of `flow.perform`.
    """
    ways, roots = _ways(graph), dict[str, int]()
    found = []
    for call in calls:
        nodes, root = sorted(map(_place, call["nodes"])), call["root"]
        if not root or _place(root) in nodes:
            if root:
                roots.setdefault(call["name"], _place(root))
            found.append(tuple(nodes))
        else:
            found.append(_beside(ways, nodes, roots.get(call["name"]), _place(root)))
    return found


def _place(label: str) -> int:
    return int(label[1:])


Way = tuple[object, ...]


def _beside(
    ways: Sequence[Mapping[Way, int]], nodes: Sequence[int], first: int | None, root: int
) -> tuple[int, ...]:
    """Return the nodes that lie to ``root`` as others do to ``first``."""
    if first is None:
        return (root,)
    inside, twins, waiting = set(nodes), {first: root}, deque([first])
    while waiting:
        here = waiting.popleft()
        there = ways[twins[here]]
        for way, other in ways[here].items():
            if other in inside and other not in twins and way in there:
                twins[other] = there[way]
                waiting.append(other)
    return tuple(sorted(twins.values()))


def _ways(graph: FrozenGraph) -> list[dict[Way, int]]:
    """Return the nodes before and after each node, by what leads to them."""
    makers = {uid: (i, port) for i, n in enumerate(graph.nodes) for port, uid in n.outputs.items()}
    found: list[dict[Way, int]] = [{} for _ in graph.nodes]
    for i, node in enumerate(graph.nodes):
        for port, uid in node.inputs.items():
            if uid not in makers:
                continue
            maker, result = makers[uid]
            found[i]["from", port, result, graph.nodes[maker].op.NAME] = maker
            # Several nodes of one op may take a result at one port.
            ways = (("to", result, port, node.op.NAME, n) for n in count())
            found[maker][next(way for way in ways if way not in found[maker])] = i
    return found
