# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What notebooks show of graphs, plans and candidates, and the pages of ``show``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...graph_api.dtypes import DataType
from ...graph_api.errors import HipdnnIreeError, Problem
from ..units import bytes_text, number_text, time_text
from .graph_diagram import Drawn, Served, draw_frozen, draw_unfrozen
from .markup import Markup, element
from .page import document, facts, fragment, long_text, picture, section, status, table

if TYPE_CHECKING:
    from ...graph_api.building import GraphBuilder
    from ...graph_api.frozen import FrozenGraph
    from ...jit.inspect.fused import Fused
    from ..plan import Plan
    from ..selection.candidate import Candidate

__all__ = [
    "Coloured",
    "by_candidate",
    "by_plan",
    "candidate_table",
    "candidates_fragment",
    "dispatch_table",
    "drawn_picture",
    "graph_fragment",
    "graph_page",
    "plan_fragment",
    "problem_list",
    "served_by",
    "uncoloured",
]


def served_by(engines: Sequence[str], dispatches: Iterable[Sequence[int]]) -> Served:
    """Return who computes each node, for a picture: its engine, and of each dispatch the nodes."""
    found: dict[int, tuple[int, ...]] = {}
    for number, nodes in enumerate(dispatches):
        for node in nodes:
            found[node] = (*found.get(node, ()), number)
    return Served(engines=dict(enumerate(engines)), dispatches=found)


def drawn_picture(drawn: Drawn) -> Markup:
    """Return the picture, or why there is none."""
    if drawn.diagram is None:
        return element("p", f"{drawn.nodes:,} nodes are too many for a picture.", class_="hint")
    return picture(drawn.diagram) if drawn.diagram.boxes else element("p", "No nodes.")


def problem_list(problems: Iterable[Problem]) -> Markup:
    """Return the rules that a graph breaks."""
    items = [element("li", str(problem)) for problem in problems]
    if not items:
        return Markup()
    return element(
        "div", element("p", "This graph breaks rules:", class_="bad"), element("ul", *items)
    )


def dispatch_table(graph: FrozenGraph, dispatches: Sequence[Fused]) -> Markup:
    """Return what is launched for a graph, in order."""
    return table(
        "dispatches",
        ["#", "name", "nodes", "reads", "writes", "runs"],
        [
            [
                f"#{number}",
                one.name.removeprefix("main$async_"),
                long_text(", ".join(graph.nodes[n].label for n in one.nodes) or "(moves data)"),
                long_text(", ".join(one.reads)),
                long_text(", ".join(one.writes)),
                "once, at load" if one.at_load else "each time",
            ]
            for number, one in enumerate(dispatches)
        ],
        fold=len(dispatches) > 12,
    )


def graph_fragment(graph: GraphBuilder) -> str:
    """Return what a notebook shows of a graph, finished or not."""
    drawn = draw_unfrozen(graph)
    head = f"Graph {graph.name!r}: {_nodes(graph)}"
    return fragment(element("p", head), drawn_picture(drawn), problem_list(drawn.problems))


def _nodes(graph: GraphBuilder) -> str:
    """Return how many nodes there are, and the types that are set."""
    count = len(graph.nodes)
    kinds = (
        ("io", graph.io_data_type),
        ("intermediate", graph.intermediate_data_type),
        ("compute", graph.compute_data_type),
    )
    known = [f"{name} {kind.json}" for name, kind in kinds if kind is not DataType.UNSET]
    return ", ".join([f"{number_text(count)} {'node' if count == 1 else 'nodes'}", *known])


class Coloured(NamedTuple):
    """A graph by who computes its nodes.

    Attributes
    ----------
    drawn : Drawn
    dispatches : Markup
        What is launched, as a table.
    remark : str
        What there is to say about the colours.
    """

    drawn: Drawn
    dispatches: Markup
    remark: str


def by_plan(plan: Plan) -> Coloured:
    """Return the graph of a plan by engine and dispatch."""
    return _coloured(plan.graph, plan.engines(), plan.dispatches)


def by_candidate(candidate: Candidate) -> Coloured:
    """Return the graph of a candidate as its engine would build it; nothing is built."""
    graph, target, engine = candidate.graph, candidate.target, candidate.engine
    choice = candidate.choice or None
    return _coloured(
        graph,
        engine.engines(graph, target, choice),
        lambda: engine.dispatches(graph, target, choice),
    )


def uncoloured(graph: FrozenGraph, remark: str = "") -> Coloured:
    """Return a graph that no engine has got."""
    return Coloured(draw_frozen(graph), Markup(), remark)


def _coloured(
    graph: FrozenGraph, engines: Sequence[str], ask: Callable[[], tuple[Fused, ...]]
) -> Coloured:
    """Return the picture; where the compiler does not tell, by engine only."""
    found: tuple[Fused, ...] = ()
    remark = "The stripe of a node is its engine, which does not say what it launches."
    try:
        found = ask()
    except HipdnnIreeError as error:
        remark = f"The compiler does not say what it fuses: {error}"
    if found:
        remark = "Nodes of one fill are fused into one dispatch; the stripe is the engine."
    drawn = draw_frozen(graph, served_by(engines, (one.nodes for one in found)))
    return Coloured(drawn, dispatch_table(graph, found), remark)


def plan_fragment(plan: Plan) -> str:
    """Return what a notebook shows of a plan."""
    found = by_plan(plan)
    title = f"Plan of graph {plan.graph.name!r} for {plan.target} by {plan.engine}"
    return fragment(
        element("p", title),
        drawn_picture(found.drawn),
        element("p", found.remark, class_="hint"),
        facts(_plan_facts(plan)),
        found.dispatches,
    )


def _plan_facts(plan: Plan) -> list[tuple[str, object]]:
    counts = plan.statistics
    seconds = ", ".join(f"{stage} {time_text(s)}" for stage, s in plan.seconds.items())
    return [
        ("chosen by", plan.policy),
        ("knobs", _knobs(plan.knobs)),
        ("served with", plan.attempt),
        ("cache", plan.cache),
        ("build", seconds),
        ("workspace", bytes_text(plan.workspace_bytes)),
        *((name, counts.get(name)) for name in ("dispatches", "fills", "copies", "parts")),
    ]


def _knobs(knobs: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={choice}" for name, choice in knobs.items())


def candidates_fragment(candidates: Sequence[Candidate]) -> str:
    """Return what a notebook shows of candidates: who serves a graph, and why others do not."""
    return fragment(candidate_table(candidates))


def candidate_table(candidates: Sequence[Candidate]) -> Markup:
    """Return a row for each engine that was asked."""
    return table(
        "engines",
        ["engine", "", "estimated µs", "measured µs", "knobs, or why it declines"],
        [
            [
                one.name,
                status("serves" if one.served else "declines"),
                one.estimated_us,
                one.measured_us,
                long_text(_lines(_about(one))),
            ]
            for one in candidates
        ],
    )


def _about(candidate: Candidate) -> Iterator[str]:
    for reason in candidate.reasons:
        yield str(reason.problem)
    for knob in candidate.knobs:
        chosen = candidate.choice.get(knob.name, knob.default)
        others = [choice for choice in knob.choices if choice != chosen]
        more = f" (or {', '.join(others[:6])}{', …' * (len(others) > 6)})" if others else ""
        yield f"{knob.name} = {chosen}{more}"


def _lines(lines: Iterable[str]) -> Markup:
    """Return lines one below the other."""
    return element("span", *(part for line in lines for part in (line, element("br"))))


def graph_page(graph: GraphBuilder, found: Coloured) -> str:
    """Return the page of ``show --format html``."""
    return document(
        f"Graph {graph.name or '(no name)'}",
        drawn_picture(found.drawn),
        problem_list(found.drawn.problems),
        section("Dispatches", found.dispatches),
        header=element(
            "div",
            element("p", _nodes(graph)),
            element("p", found.remark, class_="hint") if found.remark else None,
        ),
    )
