# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Orders of nodes: producers first, as added or as the structure alone decides."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .building import Node

__all__ = ["Shape", "canonical_order", "topological"]


def topological(nodes: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """Return the nodes with producers first, else as given, and the nodes of cycles."""
    producer = {id(t): i for i, n in enumerate(nodes) for t in n.outputs.values()}
    sources = {
        i: {producer[id(t)] for t in node.inputs.values() if id(t) in producer}
        for i, node in enumerate(nodes)
    }
    order = _sorted(sources, lambda i: i)
    # A node that only depends on a cycle is not part of it: sorted by consumers, it comes first.
    stuck = set(range(len(nodes))).difference(order)
    consumers: dict[int, set[int]] = {i: set() for i in stuck}
    for i in stuck:
        for source in sources[i] & stuck:
            consumers[source].add(i)
    behind = _sorted(consumers, lambda i: i)
    cycle = sorted(stuck.difference(behind))
    return [nodes[i] for i in order], [nodes[i] for i in cycle]


def _sorted(sources: Mapping[int, Iterable[int]], rank: Callable[[int], int]) -> list[int]:
    """Return the keys, sources first and low ranks next, without those that depend on a cycle."""
    waiting = {i: set(s) for i, s in sources.items()}
    consumers: dict[int, list[int]] = {}
    for i, needed in waiting.items():
        for source in needed:
            consumers.setdefault(source, []).append(i)
    ready = [(rank(i), i) for i, needed in waiting.items() if not needed]
    heapify(ready)
    order = []
    while ready:
        _, i = heappop(ready)
        order.append(i)
        for consumer in consumers.get(i, ()):
            waiting[consumer].discard(i)
            if not waiting[consumer]:
                heappush(ready, (rank(consumer), consumer))
    return order


_REFINED = 50_000  # nodes and tensors that all sweeps together look at


@dataclass(frozen=True, slots=True)
class Shape:
    """A node for the canonical order: what it computes, and tensor keys by port."""

    text: str
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


def canonical_order(nodes: Sequence[Shape], tensors: Mapping[int, str]) -> list[int]:
    """Return a topological order that depends on structure only, not on the order given.

    Parameters
    ----------
    nodes : sequence of Shape
        In any topological order.
    tensors : mapping of tensor key to str
        What distinguishes each tensor.

    Returns
    -------
    list of int
        Indices into ``nodes``.

    Notes
    -----
    Each node gets a colour, a hash of its predecessors and successors (refinement as by
    Weisfeiler and Leman).  Nodes of one colour are interchangeable, except in contrived graphs;
    a walk along the edges, from the node of the least colour on, then numbers what belongs to
    the chosen one of them before what belongs to the others.  Where the exception strikes, and
    in large graphs whose ends are far apart, for which refinement stops early, two equal graphs
    may get two orders: a cache entry more, never a wrong one.
    """
    colours = _colours(nodes, tensors)
    links: dict[int, list[tuple[str, int]]] = {}
    producer: dict[int, int] = {}
    for i, node in enumerate(nodes):
        producer.update(dict.fromkeys(node.outputs.values(), i))
        for port, key in (*node.outputs.items(), *node.inputs.items()):
            links.setdefault(key, []).append((f"{colours[i]}.{port}", i))

    number: dict[int, int] = {}
    walked: set[int] = set()
    for start in sorted(range(len(nodes)), key=colours.__getitem__):
        queue = deque([start])
        while queue:
            i = queue.popleft()
            if i in number:
                continue
            number[i] = len(number)
            for key in (*nodes[i].inputs.values(), *nodes[i].outputs.values()):
                if key not in walked:
                    walked.add(key)
                    queue.extend(j for _, j in sorted(links[key], key=lambda link: link[0]))
    sources = {
        i: {producer[k] for k in n.inputs.values() if k in producer} for i, n in enumerate(nodes)
    }
    return _sorted(sources, number.__getitem__)


def _colours(nodes: Sequence[Shape], tensors: Mapping[int, str]) -> list[str]:
    """Return a colour for each node, equal for nodes with equal neighbourhoods."""
    colour = [_hash(node.text) for node in nodes]
    tint = {key: _hash(text) for key, text in tensors.items()}
    produced = {key for node in nodes for key in node.outputs.values()}
    found, sweeps = 0, max(2, _REFINED // (len(colour) + len(tint) or 1))
    # The first sweeps settle nearly every graph; each one distinguishes more nodes, or is the last.
    while sweeps and (classes := len(set(colour)) + len(set(tint.values()))) > found:
        found, sweeps = classes, sweeps - 1
        for i, node in enumerate(nodes):
            colour[i] = _hash(colour[i], *_named(node.inputs, tint))
            for port, key in node.outputs.items():
                tint[key] = _hash(tint[key], port, colour[i])
        uses: dict[int, list[str]] = {}
        for i in reversed(range(len(nodes))):
            node = nodes[i]
            for key in node.outputs.values():
                tint[key] = _hash(tint[key], *sorted(uses.get(key, ())))
            colour[i] = _hash(colour[i], *_named(node.outputs, tint))
            for port, key in node.inputs.items():
                uses.setdefault(key, []).append(f"{port}.{colour[i]}")
        for key, users in uses.items():
            if key not in produced:
                tint[key] = _hash(tint[key], *sorted(users))
    return colour


def _named(ports: Mapping[str, int], tint: Mapping[int, str]) -> list[str]:
    return [f"{port}.{tint[key]}" for port, key in ports.items()]


def _hash(*parts: str) -> str:
    return blake2b("|".join(parts).encode(), digest_size=16).hexdigest()
