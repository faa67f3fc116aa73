# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The split engine: graphs that no single engine serves, or that several serve faster together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ....graph_api.errors import Decline, Problem
from ....graph_api.frozen import FrozenGraph
from ....jit.lru import LruCache
from ....jit.settings_table import Settings
from ....jit.target import Target
from ...engine import Engine, EngineKnob, checked_knobs
from ...plan import Plan
from ...registry import engine, engines
from ...selection.cost import Estimate, estimate, joined
from ...selection.order import id_of
from ...selection.select import build
from .search import Part, find_splits, misfits, parse
from .split_plan import PartitionedPlan, moved
from .subgraph import between, subgraph

if TYPE_CHECKING:
    from ....jit.inspect.fused import Fused

__all__ = ["RULES", "SplitEngine"]

RULES: dict[str, str] = {
    "SPLIT-01": "a graph to split has two nodes at least, and fixed dims",
    "SPLIT-02": "each node of a graph to split is served by some engine",
    "SPLIT-03": "a graph to split has parts for different engines, or that one cannot join",
    "SPLIT-04": "a graph to split is for the CPU, whose memory all engines share",
    "SPLIT-05": "a graph to split has at most 1000 nodes, as every part is tried with every engine",
}

_MOST_NODES = 1000
_KEPT = 128  # graphs whose splits are remembered


class SplitEngine(Engine):
    """Serves a graph by parts that other engines serve."""

    NAME = "SPLIT_ENGINE"
    ALIAS = "split"
    BY_DEFAULT = False
    # What the parts hand over goes through memory, whose speed depends on what else the process
    # holds: bias and GELU of 4M elements took 1.34 ms while tuning and 1.9 to 2.0 ms in use.
    MARGIN = 1.5

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._known: LruCache[tuple[tuple[Problem, ...], tuple[str, ...]]] = LruCache(_KEPT)

    def ops(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(op for other in self._others() for op in other.ops()))

    def targets(self) -> tuple[str, ...]:
        return ("cpu",)

    def versions(self) -> dict[str, str]:
        found = super().versions()
        for other in self._others():
            found |= {f"{other.ALIAS} {name}": v for name, v in other.versions().items()}
        return found

    def declines(self, graph: FrozenGraph, target: Target) -> list[Decline]:
        problems, _ = self._look(graph, target)
        return [Decline(engine=self.NAME, problem=problem) for problem in problems]

    def knobs(self, graph: FrozenGraph, target: Target) -> tuple[EngineKnob, ...]:
        _, splits = self._look(graph, target)
        if not splits:
            return ()
        help = "Which engine takes which nodes, by their numbers in canonical order."
        return (EngineKnob(name="parts", choices=splits, default=splits[0], help=help),)

    def estimate(self, graph: FrozenGraph, target: Target) -> Estimate:
        """Return the sum of the estimates of the parts of the default split."""
        parts = parse(self._look(graph, target)[1][0])
        return joined(
            graph,
            [
                estimate(subgraph(graph, p.first, p.last), target, engine(p.engine, self.settings))
                for p in parts
            ],
        )

    def dispatches(
        self, graph: FrozenGraph, target: Target, knobs: Mapping[str, str] | None = None
    ) -> tuple[Fused, ...]:
        found: list[Fused] = []
        for part, one in self._parts(graph, target, knobs):
            inner = one.dispatches(subgraph(graph, part.first, part.last), target)
            found += moved(inner, part.first)
        return tuple(found)

    def engines(
        self, graph: FrozenGraph, target: Target, knobs: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        return tuple(
            one.NAME
            for part, one in self._parts(graph, target, knobs)
            for _ in range(part.first, part.last + 1)
        )

    def _parts(
        self, graph: FrozenGraph, target: Target, knobs: Mapping[str, str] | None
    ) -> list[tuple[Part, Engine]]:
        chosen = checked_knobs(self, graph, target, knobs)
        text = chosen.get("parts") or self._look(graph, target)[1][0]
        return [(part, engine(part.engine, self.settings)) for part in parse(text)]

    def build(
        self, graph: FrozenGraph, target: Target, knobs: Mapping[str, str] | None = None
    ) -> Plan:
        chosen = checked_knobs(self, graph, target, knobs)
        text = chosen.get("parts") or self._look(graph, target)[1][0]
        plans = [
            build(
                subgraph(graph, part.first, part.last),
                target,
                self.settings,
                engine=part.engine,
                policy="tuned",
            )
            for part in parse(text)
        ]
        states = {plan.cache for plan in plans} - {"off"}
        stages = dict.fromkeys(stage for plan in plans for stage in plan.seconds)
        handed = between(graph, [plan.graph for plan in plans])
        nbytes = sum(s.data_type.nbytes(s.layout.span) for s in handed.values())
        return PartitionedPlan(
            maker=self,
            graph=graph,
            target=target,
            knobs=chosen,
            cache=states.pop() if len(states) == 1 else ("miss" if states else "off"),
            seconds={s: sum(plan.seconds.get(s, 0.0) for plan in plans) for s in stages},
            statistics={"parts": text, "between_bytes": nbytes},
            parts=plans,
            between=handed,
        )

    def _others(self) -> list[Engine]:
        dropped = (id_of(word, self.settings) for word in self.settings.engine_deselect)
        left_out = {self.id, *dropped}
        every = (entry.load() for entry in engines(self.settings).values())
        return [e for e in every if e.id not in left_out and not e.LAST_RESORT]

    def _look(
        self, graph: FrozenGraph, target: Target
    ) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
        """Return why there is no split, or the splits."""
        if not target.is_cpu:
            got = Problem(rule="SPLIT-04", port="target", got=str(target), wanted="cpu")
            return (got,), ()
        if len(graph.nodes) < 2 or graph.symbols:
            got_text = "dynamic dims" if graph.symbols else f"{len(graph.nodes)} node(s)"
            problem = Problem(rule="SPLIT-01", got=got_text, wanted="two nodes, and fixed dims")
            return (problem,), ()
        if len(graph.nodes) > _MOST_NODES:
            wanted = f"at most {_MOST_NODES}"
            problem = Problem(rule="SPLIT-05", got=f"{len(graph.nodes)} nodes", wanted=wanted)
            return (problem,), ()
        others = self._others()
        alignments = tuple(spec.alignment for spec in graph.tensors.values())
        key = graph.digest, alignments, target, tuple(others)
        return self._known.get(key, lambda: _search(graph, target, others))


def _search(
    graph: FrozenGraph, target: Target, others: list[Engine]
) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    problems = misfits(graph, target, others)
    if problems:
        return tuple(problems), ()
    splits = find_splits(graph, target, others)
    if not splits:
        names = ", ".join(e.NAME for e in others if not e.declines(graph, target))
        got = f"only {names}, for all of it" if names else "no parts that fit together"
        problem = Problem(rule="SPLIT-03", got=got, wanted="parts for different engines")
        return (problem,), ()
    return (), tuple(map(str, splits))
