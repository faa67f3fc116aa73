# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree explain``: who serves a graph, who declines it, and why this one is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from ...graph_api.errors import NotSupportedError
from ...jit.settings import settings
from ...jit.settings_table import Settings
from .exits import NOT_SUPPORTED
from .options import (
    Command,
    State,
    choice_options,
    engine_knob_option,
    engine_option,
    graph_argument,
    html_option,
    knob_options,
    target_option,
)
from .output import bold, emit, facts, number, say, shown, working

if TYPE_CHECKING:
    from ...graph_api.frozen import FrozenGraph
    from ...jit.pipeline import Found
    from ...jit.target import Target
    from ..selection.candidate import Candidate

JSON: dict[str, str] = {
    "graph": "`name` and `digest`",
    "target": "canonical spelling of the target",
    "chosen": "null, or of the engine that would run the graph `engine`, `engine_id`, `knobs` "
    "(those that are not its defaults) and `policy` (who chose it: `pinned`, `preferred`, or the "
    "name of a policy)",
    "why": "what the choice rests on",
    "policies": "the policies that are asked, in order",
    "candidates": "of each engine `engine`, `alias`, `engine_id`, `served`, `default` (whether it "
    "is taken without being asked for), `last_resort` (whether no policy takes it), `reasons` "
    "(`rule`, `node`, `port`, `got`, `wanted`, `hint`, `text`), "
    "`knobs` (`name`, `choices`, `default`, `help`), `estimated_us` and "
    "`measured_us` (of one execution, null where unknown), `estimate` (every number that the "
    "estimate rests on, or null), `parts` (of the engine that splits graphs: `engine` and `nodes` "
    "of each part; else null) and `measured` (what is remembered, the fastest first: `engine`, "
    "`engine_id`, `knobs`, `median_us`, `low_us`, `high_us`, `samples`, `when`)",
    "cache": "null unless the IREE engine is chosen: `state` (`hit`, `miss`, `off`), `key`, "
    "`root`, `miss`: null or `reason`, `nearest`, `differences`, `detail`, `text`; `attempt` "
    "(by what the code is served where it does not compile as planned, or null) and `failed` (of "
    "each attempt before it, or of all, `attempt`, `stage`, `cause`, `said`, `reproducer`)",
    "plan": "null unless the IREE engine is chosen: what is decided about the code, as `show "
    "--format plan --json` prints it",
}

_MEASURED = ["engine", "engine_id", "knobs", "median_us", "low_us", "high_us", "samples", "when"]


@click.command(cls=Command)
@graph_argument
@target_option()
@engine_option
@choice_options
@engine_knob_option
@html_option
@knob_options("--cache", "--cache-dir", "--opt-level", "--extra-flags")
@click.pass_obj
def command(
    state: State,
    graph: str,
    target: Target,
    engine: str | None,
    prefer: tuple[str, ...],
    policy: str | None,
    chosen_knobs: dict[str, str],
    page: str | None,
) -> None:
    """Say which engines serve GRAPH, why the others decline, and who chooses which one.

    Nothing is compiled, unless a policy measures; for --html the compiler is asked what it
    fuses.  The exit code is 3 when no engine would run the graph.
    """
    from ...jit.options import BuildOptions
    from ...jit.pipeline import find
    from ..engines.iree.iree_engine import settings_with
    from ..selection.policies import policy_names
    from ..selection.select import candidates, choose
    from .files import read_graph

    frozen = read_graph(graph).freeze()
    now = settings()
    found = candidates(frozen, target, now, engine_name=engine)
    policies = policy_names(policy, now)
    chosen, why = None, ""
    try:
        with working("asking the policies"):  # some compile and measure
            chosen = choose(
                frozen,
                target,
                now,
                engine_name=engine,
                prefer=prefer,
                policy=policy,
                knobs=chosen_knobs,
            )
        why = chosen.why
    except NotSupportedError as error:
        why = _why_not(found, engine, error)
    by_iree = chosen is not None and chosen.engine.ALIAS == "iree"
    then = settings_with(now, chosen.choice if chosen else {})
    way = find(frozen, target, BuildOptions.of(then)) if by_iree else None
    about = {
        "graph": {"name": frozen.name, "digest": frozen.digest},
        "target": str(target),
        "chosen": _chosen(chosen) if chosen else None,
        "why": why,
        "policies": list(policies),
        "candidates": _candidates(frozen, target, found, now),
        "cache": _cache(way) if way else None,
        "plan": way.job.plan.as_dict(frozen) if way else None,
    }
    lines = [*way.lines(), *way.job.plan.lines(frozen)] if way else []
    if page is not None:
        _write_page(page, about, frozen, chosen, lines)
    if state.json:
        emit(about)
    else:
        _print(about, lines)
    if chosen is None:
        raise click.exceptions.Exit(NOT_SUPPORTED)


def _write_page(
    path: str,
    about: dict[str, Any],
    frozen: FrozenGraph,
    chosen: Candidate | None,
    lines: Sequence[str],
) -> None:
    from ..pages.explain_page import explain_page
    from ..pages.shown import by_candidate, uncoloured
    from .files import write_page

    with working("asking the compiler what it fuses"):
        found = by_candidate(chosen) if chosen is not None else uncoloured(frozen)
    write_page(path, explain_page(about, found, lines))


def _chosen(candidate: Candidate) -> dict[str, Any]:
    return {
        "engine": candidate.name,
        "engine_id": str(candidate.engine.id),
        "knobs": dict(candidate.choice),
        "policy": candidate.policy,
    }


def _why_not(found: Sequence[Candidate], pinned: str | None, error: NotSupportedError) -> str:
    if pinned:
        return "the pinned engine declines"
    if any(c.served for c in found if c.engine.BY_DEFAULT):
        return error.message
    return "every engine of the defaults declines"


def _candidates(
    frozen: FrozenGraph, target: Target, found: Sequence[Candidate], settings: Settings
) -> list[dict[str, Any]]:
    from ..selection.cost import estimate
    from ..selection.winners import winners

    served = [c for c in found if c.served]
    known = [
        entry
        for entry, _ in winners(settings.engine_winners).usable(frozen, target, served, settings)
    ]
    return [
        {
            **c.as_dict(),
            "estimate": estimate(frozen, target, c.engine).as_dict() if c.served else None,
            "parts": _parts(frozen, c) if c.served and c.engine.ALIAS == "split" else None,
            "measured": [
                {name: getattr(entry, name) for name in _MEASURED}
                | {"engine_id": str(entry.engine_id)}
                for entry in known
                if entry.engine_id == c.engine.id
            ],
        }
        for c in found
    ]


def _parts(frozen: FrozenGraph, candidate: Candidate) -> list[dict[str, Any]]:
    """Return which engine takes which nodes in the default split."""
    from ..engines.split.search import parse
    from ..registry import engine

    return [
        {
            "engine": engine(part.engine, candidate.engine.settings).NAME,
            "nodes": [node.label for node in frozen.nodes[part.first : part.last + 1]],
        }
        for part in parse(candidate.knobs[0].default)
    ]


def _cache(way: Found) -> dict[str, Any]:
    from ...jit.cache import explain_miss
    from ...jit.pipeline import store

    cache, key, hit = store(way.job.options.cache), way.job.key, way.entry is not None
    return {
        "state": "hit" if hit else ("off" if cache.off else "miss"),
        "key": key.digest,
        "root": str(cache.root),
        "miss": None if hit else explain_miss(cache, key).as_dict(),
        **way.as_dict(),
    }


def _print(about: dict[str, Any], plan: Iterable[str]) -> None:
    graph, cache, chosen = about["graph"], about["cache"], about["chosen"]
    rows = [
        ("graph", f"{graph['name'] or '(no name)'}  {graph['digest'][:16]}"),
        ("target", about["target"]),
        ("chosen", f"{_in_words(chosen)}: {about['why']}"),
        ("policies", ", ".join(about["policies"])),
    ]
    if cache is not None:
        rows.append(("cache", f"{cache['state']}  {cache['key'][:16]} in {cache['root']}"))
    facts(rows)
    if cache is not None and cache["miss"]:
        for line in cache["miss"]["text"].splitlines():
            say(f"  {shown(line)}")
    for line in plan:
        say(shown(line))
    for candidate in about["candidates"]:
        say()
        _print_candidate(candidate)


def _in_words(chosen: dict[str, Any] | None) -> str:
    if chosen is None:
        return "none"
    knobs = ", ".join(f"{name}={value}" for name, value in chosen["knobs"].items())
    return f"{chosen['engine']}{f' with {knobs}' if knobs else ''} by {chosen['policy']}"


def _print_candidate(candidate: dict[str, Any]) -> None:
    verdict = "serves the graph" if candidate["served"] else "declines"
    note = "" if candidate["default"] else ", and runs only when it is asked for"
    if not candidate["default"] and not candidate["last_resort"]:
        note += " or known to be faster"
    say(f"{bold(candidate['engine'])} ({candidate['alias']}) {verdict}{note}")
    for reason in candidate["reasons"]:
        say(f"  {shown(reason['text'])}")
    estimate = candidate["estimate"]
    if estimate is not None:
        terms = ", ".join(f"{name} {number(us)}" for name, us in estimate["terms_us"].items())
        factor, known = estimate["calibration"], estimate["measurements"]
        by = f"; times {number(factor)} as {known} measurement(s) say" if known else ""
        say(f"  estimated {number(estimate['us'])} µs for a call ({terms}{by})")
    for part in candidate["parts"] or ():
        say(f"  part for {part['engine']}: {', '.join(map(shown, part['nodes']))}")
    for row in candidate["measured"]:
        knobs = ", ".join(f"{name}={value}" for name, value in row["knobs"].items())
        spread = f"{number(row['low_us'])} to {number(row['high_us'])}, {row['samples']} samples"
        say(f"  measured {number(row['median_us'])} µs ({spread}) with {knobs or 'its defaults'}")
    for knob in candidate["knobs"]:
        choices = ", ".join(
            f"{c} (default)" if c == knob["default"] else c for c in knob["choices"]
        )
        say(f"  knob {knob['name']}: {choices}")
