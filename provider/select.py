"""Which engine serves a graph: the pinned one, a preferred one, or what a policy says.

Pinning is strict: the engine serves the graph, or the reasons are raised.  Preferring only moves
an engine to the front.  Otherwise the policies named in ``policy`` are asked in order and the
first that has an opinion ranks the engines that serve the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from ..graph_api.buckets import Buckets, BucketsLike, as_buckets
from ..graph_api.dynamic import at_sizes
from ..graph_api.errors import (
    Decline,
    GraphError,
    NotSupportedError,
    Problem,
    SettingError,
)
from ..graph_api.frozen import FrozenGraph
from ..jit.knobs import scope
from ..jit.target import Target
from .dynamic import ExactPlan
from .engine import Plan, checked_knobs
from .manifest import engine, engines, own_engines
from .selection.candidate import Candidate

__all__ = ["build", "candidates", "choose", "default_engines"]


def default_engines() -> tuple[str, ...]:
    """Return the aliases of the engines that may be chosen without being asked for by name.

    They are engines of our own: those that are discovered are for policies and for who names one.
    """
    return tuple(alias for alias, entry in own_engines().items() if entry.load().BY_DEFAULT)


def candidates(
    graph: FrozenGraph, target: Target | str, *, engine_name: str | None = None
) -> list[Candidate]:
    """Return every engine (or the one asked for) with its reasons to decline, or its knobs."""
    where = Target.parse(target)
    names = list(engines()) if engine_name is None else [engine_name]
    return [Candidate.of(one, graph, where) for one in map(engine, names)]


def choose(
    graph: FrozenGraph,
    target: Target | str,
    *,
    engine_name: str | None = None,
    prefer: str | Sequence[str] | None = None,
    policy: str | None = None,
    knobs: Mapping[str, str] | None = None,
) -> Candidate:
    """Return the engine that will serve the graph, and why it.

    Raises
    ------
    NotSupportedError
        If the pinned engine declines, or all defaults do; with every reason.
    SettingError
        If there is no engine, policy or knob of that name.
    """
    where = Target.parse(target)
    if engine_name is not None:
        found = Candidate.of(engine(engine_name), graph, where)
        if not found.served:
            raise NotSupportedError(
                f"engine {engine_name!r} was pinned and declines graph {graph.name!r} for {where}",
                found.reasons,
            )
        return found.chosen_by("pinned", checked_knobs(found.engine, graph, where, knobs))
    preferred = [prefer] if isinstance(prefer, str) else list(prefer or ())
    wanted = [engine(name) for name in preferred]
    others = [engine(name) for name in default_engines()]
    reasons: list[Decline] = []
    misfits: list[str] = []
    for one in dict.fromkeys([*wanted, *others]):
        found = Candidate.of(one, graph, where)
        if not found.served:
            reasons += found.reasons
            continue
        try:
            fitting = checked_knobs(one, graph, where, knobs)
        except SettingError as error:
            misfits.append(str(error))
            continue
        return found.chosen_by("preferred" if one in wanted else "order", fitting)
    if misfits:
        raise SettingError("\n  ".join(["no engine that serves the graph has the knobs", *misfits]))
    raise NotSupportedError(f"no engine serves graph {graph.name!r} for {where}", reasons)


def build(
    graph: FrozenGraph,
    target: Target | str,
    *,
    engine: str | None = None,
    prefer: str | Sequence[str] | None = None,
    policy: str | None = None,
    knobs: Mapping[str, str] | None = None,
    exact: bool = False,
    buckets: BucketsLike | Mapping[str, BucketsLike] | None = None,
    require_precompiled: bool = False,
) -> Plan:
    """Choose an engine and let it build; see ``Graph.build``."""
    with scope(cache_require_precompiled=True) if require_precompiled else nullcontext():
        plan = _build(graph, target, engine, prefer, policy, knobs, exact=exact, buckets=buckets)
    plan.require_precompiled = require_precompiled
    return plan


def _build(
    graph: FrozenGraph,
    target: Target | str,
    engine: str | None,
    prefer: str | Sequence[str] | None,
    policy: str | None,
    knobs: Mapping[str, str] | None,
    *,
    exact: bool,
    buckets: BucketsLike | Mapping[str, BucketsLike] | None,
) -> Plan:
    if exact and buckets is not None:
        got, wanted = "exact as well", "one of both"
        problem = Problem(rule="BUCKET-01", port="buckets", got=got, wanted=wanted)
        raise GraphError("sizes are either exact or rounded up", [problem])
    where = Target.parse(target)
    each = bool(graph.symbols) and (exact or buckets is not None)
    # The engine is the one for the examples, and stays the same for all sizes.
    examples = {dim.name: dim.example for dim in graph.symbols}
    asked = at_sizes(graph, examples) if each else graph
    chosen = choose(asked, where, engine_name=engine, prefer=prefer, policy=policy, knobs=knobs)
    if each:
        about: dict[str, Any] = {
            "engine": chosen.name,
            "graph": graph,
            "target": where,
            "knobs": dict(chosen.choice),
            "policy": chosen.policy,
        }
        if buckets is None:
            return ExactPlan(**about)
        return _rounded(about, as_buckets(graph.symbols, buckets))
    return _built(chosen, graph, where)


def _built(chosen: Candidate, graph: FrozenGraph, target: Target) -> Plan:
    plan = chosen.engine.build(graph, target, chosen.choice or None)
    plan.policy = chosen.policy
    return plan


def _rounded(about: dict[str, Any], buckets: Mapping[str, Buckets]) -> Plan:
    from . import buckets as padded

    graph, engine = about["graph"], about["engine"]
    problems = [Decline(engine=engine, problem=p) for p in padded.problems(graph, about["target"])]
    if problems:
        raise NotSupportedError(
            f"sizes of graph {graph.name!r} cannot be rounded up to buckets", problems
        )
    return padded.BucketPlan(**about, buckets=buckets)
