# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which engine serves a graph: the pinned one, a preferred one, or what a policy says.

Pinning is strict: the engine serves the graph, or the reasons are raised.  Preferring only moves
an engine to the front, and so does the id that hipDNN lets a graph carry.  Otherwise the policies
of ``selection.policies`` are asked in order, and the first that has an opinion ranks the engines
that serve the graph.  What was concluded for a graph is remembered until something that it rests
on has changed: the settings, the engines, or one of the files.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

from ...graph_api.buckets import Buckets, BucketsLike, as_buckets
from ...graph_api.dynamic import at_sizes
from ...graph_api.errors import (
    CompileError,
    Decline,
    GraphError,
    NotSupportedError,
    Problem,
    SettingError,
)
from ...graph_api.frozen import FrozenGraph
from ...jit.lru import LruCache
from ...jit.settings_table import Settings
from ...jit.target import Target
from ...jit.trace import span
from .. import registry
from ..engine import Engine, checked_knobs, located, must_serve
from ..plan import Plan
from ..registry import engine, engines
from .candidate import Asked, Candidate, Candidates
from .files import stamp
from .order import id_of, in_order
from .policies import policy_names, rank
from .winners import winners

__all__ = ["build", "candidates", "choose", "ranking"]

log = logging.getLogger("hipdnn_iree.selection")

# Rankings that are kept: each is some references to engines.
_KEPT = 512
# Policies that say how an engine builds a graph, and not only which engine does.
_KNOW_KNOBS = ("config", "tuned", "autotune")
_remembered: LruCache[tuple[Candidate, ...]] = LruCache(_KEPT)


def candidates(
    graph: FrozenGraph,
    target: Target | str,
    settings: Settings,
    *,
    engine_name: str | None = None,
) -> Candidates:
    """Return every engine (or the one asked for) with its reasons to decline, or what it offers.

    That is its knobs, an estimated time, and the lowest time measured here earlier.
    """
    from .cost import estimate

    where = Target.parse(target)
    names = list(engines(settings)) if engine_name is None else [engine_name]
    found = [Candidate.of(engine(name, settings), graph, where) for name in names]
    times: dict[str, float] = {}
    known = winners(settings.engine_winners)
    for entry, candidate in known.usable(graph, where, [c for c in found if c.served], settings):
        times[candidate.name] = min(entry.median_us, times.get(candidate.name, entry.median_us))
    return Candidates(
        replace(
            c,
            estimated_us=estimate(graph, where, c.engine).us,
            measured_us=times.get(c.name),
        )
        if c.served
        else c
        for c in found
    )


def choose(
    graph: FrozenGraph,
    target: Target | str,
    settings: Settings,
    *,
    engine_name: str | None = None,
    prefer: str | Sequence[str] | None = None,
    policy: str | None = None,
    knobs: Mapping[str, str] | None = None,
) -> Candidate:
    """Return the engine that will serve the graph, with its knobs, and who chose it.

    Raises
    ------
    NotSupportedError
        If the pinned engine declines, all defaults do, or no policy has an opinion; with every
        reason.
    SettingError
        If there is no engine, policy or knob of that name.
    """
    return ranking(
        graph, target, settings, engine_name=engine_name, prefer=prefer, policy=policy, knobs=knobs
    )[0]


def ranking(
    graph: FrozenGraph,
    target: Target | str,
    settings: Settings,
    *,
    engine_name: str | None = None,
    prefer: str | Sequence[str] | None = None,
    policy: str | None = None,
    knobs: Mapping[str, str] | None = None,
) -> tuple[Candidate, ...]:
    """Return the engines that may serve the graph, the chosen one first; raises as `choose`.

    There is one only when it was pinned.
    """
    where = Target.parse(target)
    preferred = (prefer,) if isinstance(prefer, str) else tuple(prefer or ())
    names = policy_names(policy, settings)
    pool = _pool(graph, where, names, settings)
    key = (
        graph.digest,
        # What engines may look at and the digest leaves out.
        tuple(spec.alignment for spec in graph.tensors.values()),
        graph.is_override_shape_enabled,
        graph.preferred_engine_id,
        where,
        engine_name,
        preferred,
        policy,
        tuple((knobs or {}).items()),
        settings,
        pool,
        stamp(settings.engine_winners),
        stamp(settings.engine_config) if settings.engine_config else None,
    )

    def make() -> tuple[Candidate, ...]:
        if engine_name is not None:
            return (_pinned(graph, where, settings, engine_name, policy, knobs),)
        return _free(graph, where, settings, pool, preferred, policy, knobs)

    found = _remembered.get(key, make)
    # Remembered for an equal graph, which may have other names and uids.
    if found[0].graph is graph:
        return found
    return tuple(replace(candidate, graph=graph) for candidate in found)


def _pool(
    graph: FrozenGraph, target: Target, names: Sequence[str], settings: Settings
) -> tuple[Engine, ...]:
    """Return the engines to choose from.

    Those that want to be asked for, and those of others, which take time to be found, are only
    among them where it can make a difference: when times decide, or when the user's rules or
    order may name one.
    """
    own = registry.own_engines(settings).values()
    usual = tuple(entry.load() for entry in own if entry.by_default)
    by_times = {"heuristic", "benchmark", "autotune"}
    open_to_all = bool(by_times & set(names)) or bool(settings.engine_order)
    open_to_all |= settings.engine_config is not None and "config" in names
    if not open_to_all and "tuned" in names:
        known = winners(settings.engine_winners).engine_ids(graph, target)
        open_to_all = not known <= {one.id for one in usual}
    if not open_to_all:
        return usual
    every = (entry.load() for entry in engines(settings).values())
    return tuple(one for one in every if not one.LAST_RESORT)


def _pinned(
    graph: FrozenGraph,
    target: Target,
    settings: Settings,
    name: str,
    policy: str | None,
    knobs: Mapping[str, str] | None,
) -> Candidate:
    found = Candidate.of(engine(name, settings), graph, target)
    must_serve(found.engine, graph, target, found.reasons, name)
    fixed = found.chosen_by("pinned", checked_knobs(found.engine, graph, target, knobs))
    return replace(fixed, why="pinned") if policy is None else _with_knobs(fixed, policy)


def _with_knobs(candidate: Candidate, policy: str | None) -> Candidate:
    """Return an engine that is chosen already, with the knobs that a policy knows for it."""
    settings = candidate.engine.settings
    known = [name for name in policy_names(policy, settings) if name in _KNOW_KNOBS]
    asked = Asked(
        graph=candidate.graph,
        target=candidate.target,
        candidates=(candidate,),
        settings=settings,
    )
    try:
        found = rank(asked, known)[0]
    except NotSupportedError:
        return candidate
    label = f"{candidate.policy}+{found.policy}"
    return replace(found, policy=label, why=f"{candidate.policy}; {found.why}")


def _free(
    graph: FrozenGraph,
    target: Target,
    settings: Settings,
    pool: Sequence[Engine],
    preferred: Sequence[str],
    policy: str | None,
    knobs: Mapping[str, str] | None,
) -> tuple[Candidate, ...]:
    names = policy_names(policy, settings)
    asked_for = [engine(name, settings) for name in preferred]
    wanted = list(dict.fromkeys([*asked_for, *_carried(graph, settings)]))
    dropped = {id_of(word, settings) for word in settings.engine_deselect}
    reasons: list[Decline] = []
    misfits: list[str] = []
    served: list[Candidate] = []
    for one in dict.fromkeys([*wanted, *pool]):
        if one.id in dropped:
            continue
        found = Candidate.of(one, graph, target)
        if not found.served:
            reasons += found.reasons
            if one in asked_for:
                _say_once(f"{one.NAME} was preferred, and declines: {found.reasons[0].problem}")
            continue
        try:
            served.append(replace(found, choice=checked_knobs(one, graph, target, knobs)))
        except SettingError as error:
            misfits.append(str(error))
    usual = [one for one in pool if one.id not in dropped]
    if not (served or misfits or knobs or _serves_by_size(usual, graph, target)):
        every = (entry.load() for entry in engines(settings).values())
        rest = [e for e in every if not e.LAST_RESORT and e not in pool and e.id not in dropped]
        stand_in = _stand_in(graph, target, rest)
        if stand_in is not None:
            return (stand_in,)
    if not served:
        if misfits:
            lines = ["no engine that serves the graph has the knobs", *misfits]
            raise SettingError("\n  ".join(lines))
        left_out = f" (without {', '.join(settings.engine_deselect)})" if dropped else ""
        raise NotSupportedError(
            f"no engine serves graph {graph.name!r} for {target}{left_out}",
            located(graph, reasons),
        )
    others = tuple(c for c in served if c.engine not in wanted)
    if len(others) == len(served):
        asked = Asked(graph=graph, target=target, candidates=others, settings=settings)
        return rank(asked, names)

    def why(candidate: Candidate) -> str:
        named = candidate.engine in asked_for
        return "asked for" if named else "preferred_engine_id of the graph"

    first = [
        _with_knobs(c.chosen_by("preferred", c.choice, why(c)), policy)
        for e in wanted
        for c in served
        if c.engine is e
    ]
    # The others only stand in when a preferred one cannot be built.
    return (*first, *(c.chosen_by("order", c.choice) for c in in_order(others, settings)))


@lru_cache(maxsize=256)
def _say_once(text: str) -> None:
    log.warning("%s", text)


def _stand_in(graph: FrozenGraph, target: Target, engines: Sequence[Engine]) -> Candidate | None:
    """Return the engine for a graph that none of the usual ones serves; None without one.

    First one that serves all of it, then the one that splits it.
    """
    for one in sorted(engines, key=lambda e: e.ALIAS == "split"):
        found = Candidate.of(one, graph, target)
        if found.served:
            why = "none of the usual engines serves the graph"
            log.info("%s serves graph %r; %s", one.NAME, graph.name, why)
            return found.chosen_by("order", {}, why)
    return None


def _serves_by_size(engines: Sequence[Engine], graph: FrozenGraph, target: Target) -> bool:
    """Whether one of the engines serves a graph with dynamic dims when their sizes are known.

    It has code for each size then, which is the caller's to ask for (``exact``, ``buckets``);
    otherwise what is installed besides would decide who runs the graph.
    """
    if not graph.symbols:
        return False
    fixed = _at_examples(graph)
    return any(not one.declines(fixed, target) for one in engines)


def _at_examples(graph: FrozenGraph) -> FrozenGraph:
    return at_sizes(graph, {dim.name: dim.example for dim in graph.symbols})


def _carried(graph: FrozenGraph, settings: Settings) -> list[Engine]:
    """Return the engine whose id the graph carries; one that is not here is no error."""
    if graph.preferred_engine_id is None:
        return []
    try:
        return [engine(str(graph.preferred_engine_id), settings)]
    except SettingError:
        return []


def build(
    graph: FrozenGraph,
    target: Target | str,
    settings: Settings,
    *,
    engine: str | None = None,
    prefer: str | Sequence[str] | None = None,
    policy: str | None = None,
    knobs: Mapping[str, str] | None = None,
    exact: bool = False,
    buckets: BucketsLike | Mapping[str, BucketsLike] | None = None,
    require_precompiled: bool = False,
    device_id: int | None = None,
) -> Plan:
    """Choose an engine and let it build; see ``Graph.build``."""
    if exact and buckets is not None:
        got, wanted = "exact as well", "one of both"
        problem = Problem(rule="BUCKET-01", port="buckets", got=got, wanted=wanted)
        raise GraphError("sizes are either exact or rounded up", [problem])
    rounded = as_buckets(graph.symbols, buckets) if buckets is not None else None
    where = Target.parse(target)
    each = bool(graph.symbols) and (exact or buckets is not None)
    # The engine is the one for the examples, and stays the same for all sizes.
    asked = _at_examples(graph) if each else graph
    if require_precompiled:
        settings = replace(settings, cache_require_precompiled=True)
    if device_id is not None:
        settings = replace(settings, runtime_device=device_id)
    with span("choose an engine", graph=graph.name):
        ranked = ranking(
            asked, where, settings, engine_name=engine, prefer=prefer, policy=policy, knobs=knobs
        )
    if not each:
        with span("build", graph=graph.name, target=str(where)):
            return _first_that_builds(ranked)
    return _for_each_size(ranked[0], graph, rounded)


def _for_each_size(
    chosen: Candidate, graph: FrozenGraph, buckets: Mapping[str, Buckets] | None
) -> Plan:
    about: dict[str, Any] = {
        "maker": chosen.engine,
        "graph": graph,
        "target": chosen.target,
        "knobs": dict(chosen.choice),
        "policy": chosen.policy,
        "why": chosen.why,
    }
    if buckets is None:
        from ..dynamic_plan import ExactPlan

        return ExactPlan(**about)
    from ..bucket_plan import BucketPlan, must_be_paddable

    must_be_paddable(graph, chosen.target, chosen.name)
    return BucketPlan(**about, buckets=buckets)


def _first_that_builds(ranked: Sequence[Candidate]) -> Plan:
    for chosen, following in pairwise(ranked):
        try:
            return _built(chosen)
        except (CompileError, NotSupportedError) as error:
            log.warning(
                "%s was chosen for graph %r and cannot build it; %s takes its place: %s",
                *(chosen.name, chosen.graph.name, following.name, error),
            )
    return _built(ranked[-1])


def _built(chosen: Candidate) -> Plan:
    with span(f"build by {chosen.name}", knobs=dict(chosen.choice)):
        plan = chosen.engine.build(chosen.graph, chosen.target, chosen.choice or None)
    plan.policy, plan.why = chosen.policy, chosen.why
    return plan
