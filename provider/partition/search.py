"""Which engine takes which run of nodes: the splits with the lowest estimates.

The nodes are taken in their canonical order, producers first, so that any cut between two of
them gives parts that can run one after the other.  Runs are tried by dynamic programming over
that order; the cost of a run is the engine's estimate for it as a graph of its own, with the
traffic of its inputs and outputs, plus what one more call costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...graph_api.errors import Problem
from ...graph_api.frozen import FrozenGraph
from ...jit.target import Target
from ..engine import Engine
from ..selection.cost import estimate
from .subgraph import subgraph

__all__ = ["Part", "Split", "find_splits", "misfits", "parse"]

_KEPT = 3  # splits that are offered
_BOUNDARY_US = 5.0
_LOOKS = 2048  # runs that are looked at, for graphs of many nodes


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
    longest = max(4, _LOOKS // count)
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
            for first in range(max(0, end - longest), end)
            if end - first < count  # not the whole graph in one part
            for alias, us in run(first, end - 1).items()
            for before in best[first]
            if not _could_join(before, alias, end - 1, run)
        ]
        best.append(_cheapest(found))
    return tuple(best[count])


def _could_join(before: Split, alias: str, last: int, run: object) -> bool:
    """Whether the engine serves its neighbour's nodes together with these."""
    if not before.parts or before.parts[-1].engine != alias:
        return False
    assert callable(run)
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
