# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which engine takes which run of nodes: the splits with the lowest estimates.

The nodes are taken in their canonical order, producers first, so that any cut between two of
them gives parts that can run one after the other.  In a short graph every run of nodes is asked
about, and dynamic programming over the order finds the cheapest parts; the cost of a run is the
engine's estimate for it as a graph of its own, with the traffic of its inputs and outputs, plus
what one more call costs.  In a long graph only single nodes are asked about first: their costs
add up, changing engines costs something, and parts that are not served as a whole are halved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ....graph_api.errors import Problem
from ....graph_api.frozen import FrozenGraph
from ....jit.target import Target
from ...engine import Engine
from ...selection.cost import estimate
from .subgraph import subgraph

__all__ = ["Part", "Split", "find_splits", "misfits", "parse"]

_KEPT = 3  # splits that are offered
_BOUNDARY_US = 5.0
_SHORT = 24  # nodes; every run of them takes a few hundred questions
_CHANGES_US = (5.0, 100.0, 2000.0)  # what changing engines costs in a long graph: one split each


_Run = Callable[[int, int], Mapping[str, float]]
"""From the ends of a run to the microseconds of each engine that serves it."""


@dataclass(frozen=True, slots=True)
class Part:
    """A run of nodes (both ends included) and who takes it."""

    engine: str
    """Alias of the engine."""
    first: int
    last: int

    def __str__(self) -> str:
        nodes = f"{self.first}-{self.last}" if self.last > self.first else str(self.first)
        return f"{self.engine}:{nodes}"


@dataclass(frozen=True, slots=True)
class Split:
    """Parts in the order in which they run, and the estimate of all of them."""

    parts: tuple[Part, ...]
    us: float

    def __str__(self) -> str:
        return ",".join(map(str, self.parts))


def parse(text: str) -> tuple[Part, ...]:
    """Return the parts that ``str(split)`` names; of a text that it gave."""
    found = []
    for word in text.split(","):
        alias, _, nodes = word.rpartition(":")
        first, _, last = nodes.partition("-")
        found.append(Part(alias, int(first), int(last or first)))
    return tuple(found)


def misfits(graph: FrozenGraph, target: Target, engines: Sequence[Engine]) -> list[Problem]:
    """Return a problem for each node that no engine serves by itself."""
    found = []
    for k, node in enumerate(graph.nodes):
        alone = subgraph(graph, k, k)
        reasons = [engine.declines(alone, target) for engine in engines]
        if all(reasons):
            first = "; ".join(f"{r[0].engine} [{r[0].problem.rule}]" for r in reasons)
            found.append(
                Problem(
                    rule="SPLIT-02",
                    node=node.label,
                    port="op",
                    got=f"{node.op.NAME}, declined by {first}" if first else node.op.NAME,
                    wanted="an op that some engine serves by itself",
                )
            )
    return found


def find_splits(graph: FrozenGraph, target: Target, engines: Sequence[Engine]) -> tuple[Split, ...]:
    """Return the splits with the lowest estimates, the best first; at least two parts each.

    Neighbours of one engine are only there where it does not serve both together.
    """
    count = len(graph.nodes)
    if count > _SHORT:
        return _long(graph, target, engines)
    costs: dict[tuple[int, int], dict[str, float]] = {}

    def run(first: int, last: int) -> dict[str, float]:
        """Return what each engine that serves a run takes for it."""
        found = costs.get((first, last))
        if found is None:
            part = subgraph(graph, first, last)
            found = costs[first, last] = {
                e.ALIAS: estimate(part, target, e).us + _BOUNDARY_US
                for e in engines
                if not e.declines(part, target)
            }
        return found

    # best[i]: splits of the first i nodes.
    best: list[list[Split]] = [[Split((), 0.0)]]
    for end in range(1, count + 1):
        found = [
            Split((*before.parts, Part(alias, first, end - 1)), before.us + us)
            for first in range(end)
            if end - first < count  # not the whole graph in one part
            for alias, us in run(first, end - 1).items()
            for before in best[first]
            if not _could_join(before, alias, end - 1, run)
        ]
        best.append(_cheapest(found))
    return tuple(best[count])


def _long(graph: FrozenGraph, target: Target, engines: Sequence[Engine]) -> tuple[Split, ...]:
    """Return splits of a graph of many nodes."""
    by_alias = {engine.ALIAS: engine for engine in engines}
    alone = []
    for k in range(len(graph.nodes)):
        part = subgraph(graph, k, k)
        served = (e for e in engines if not e.declines(part, target))
        alone.append({e.ALIAS: estimate(part, target, e).us for e in served})
    found: dict[tuple[Part, ...], Split] = {}
    for change in _CHANGES_US:
        names = _path(alone, change)
        if names is None:
            return ()
        starts = [k for k, name in enumerate(names) if k == 0 or names[k - 1] != name]
        parts = tuple(
            piece
            for first, end in zip(starts, [*starts[1:], len(names)], strict=True)
            for piece in _served(graph, target, by_alias[names[first]], first, end - 1)
        )
        if len(parts) > 1 and parts not in found:
            us = sum(
                estimate(subgraph(graph, p.first, p.last), target, by_alias[p.engine]).us
                for p in parts
            )
            found[parts] = Split(parts, us + _BOUNDARY_US * len(parts))
    return tuple(sorted(found.values(), key=lambda split: split.us))


def _path(alone: Sequence[Mapping[str, float]], change: float) -> list[str] | None:
    """Return the engine for each node so that costs and changes are least; None without one."""
    best: dict[str, tuple[float, list[str]]] = {"": (0.0, [])}
    for costs in alone:
        if not costs:
            return None
        best = {
            name: min(
                (
                    (total + us + (0.0 if last in ("", name) else change), [*names, name])
                    for last, (total, names) in best.items()
                ),
                key=lambda pair: pair[0],
            )
            for name, us in costs.items()
        }
    return min(best.values(), key=lambda pair: pair[0])[1]


def _served(
    graph: FrozenGraph, target: Target, engine: Engine, first: int, last: int
) -> list[Part]:
    """Return a run as parts that the engine serves; it serves each node by itself."""
    if first == last or not engine.declines(subgraph(graph, first, last), target):
        return [Part(engine.ALIAS, first, last)]
    middle = (first + last) // 2
    return [
        *_served(graph, target, engine, first, middle),
        *_served(graph, target, engine, middle + 1, last),
    ]


def _could_join(before: Split, alias: str, last: int, run: _Run) -> bool:
    """Whether the engine serves its neighbour's nodes together with these."""
    if not before.parts or before.parts[-1].engine != alias:
        return False
    return alias in run(before.parts[-1].first, last)


def _cheapest(splits: list[Split]) -> list[Split]:
    """Return the best splits, and the best one for each engine that comes last.

    A split that is dear now may be the one that a later part can follow.
    """
    ordered = sorted(splits, key=lambda split: split.us)
    kept = ordered[:_KEPT]
    for split in ordered[_KEPT:]:
        if all(split.parts[-1].engine != other.parts[-1].engine for other in kept):
            kept.append(split)
    return kept
