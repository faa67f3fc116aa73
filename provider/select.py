"""Which engine serves a graph: the pinned one, or the first of the table that can."""

from __future__ import annotations

from ..graph_api.dynamic import at_sizes
from ..graph_api.errors import Decline, NotSupportedError
from ..graph_api.frozen import FrozenGraph
from ..jit.target import Target
from .dynamic import ExactPlan
from .engine import Engine, Plan
from .manifest import ENGINES, engine

__all__ = ["DEFAULT_ENGINES", "build", "candidates", "choose"]

# The NumPy reference is slow and for checking: it only runs when somebody asks for it by name.
DEFAULT_ENGINES = tuple(alias for alias in ENGINES if alias != "reference")


def candidates(
    graph: FrozenGraph, target: Target | str, *, engine_name: str | None = None
) -> list[tuple[Engine, list[Decline]]]:
    """Return every engine (or the one asked for) with its reasons to decline."""
    where = Target.parse(target)
    names = list(ENGINES) if engine_name is None else [engine_name]
    return [(e, e.declines(graph, where)) for e in map(engine, names)]


def choose(graph: FrozenGraph, target: Target | str, *, engine_name: str | None = None) -> Engine:
    """Return the engine that will serve the graph.

    Raises
    ------
    NotSupportedError
        If the pinned engine declines, or all defaults do; with every reason.
    SettingError
        If there is no engine of that name.
    """
    where = Target.parse(target)
    names = DEFAULT_ENGINES if engine_name is None else (engine_name,)
    reasons: list[Decline] = []
    for name in names:
        found = engine(name)
        declined = found.declines(graph, where)
        if not declined:
            return found
        reasons += declined
    if engine_name is not None:
        raise NotSupportedError(
            f"engine {engine_name!r} was pinned and declines graph {graph.name!r} for {where}",
            reasons,
        )
    raise NotSupportedError(f"no engine serves graph {graph.name!r} for {where}", reasons)


def build(
    graph: FrozenGraph, target: Target | str, *, engine: str | None = None, exact: bool = False
) -> Plan:
    """Choose an engine and let it build; see ``Graph.build``."""
    if exact and graph.symbols:
        # The engine is the one for the examples, and stays the same for all sizes.
        where = Target.parse(target)
        examples = at_sizes(graph, {dim.name: dim.example for dim in graph.symbols})
        chosen = choose(examples, where, engine_name=engine)
        return ExactPlan(engine=chosen.NAME, graph=graph, target=where)
    return choose(graph, target, engine_name=engine).build(graph, Target.parse(target))
