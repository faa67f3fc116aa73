"""``hipdnn-iree explain``: who serves a graph, who declines it, and what the cache knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from .exits import NOT_SUPPORTED
from .options import (
    Command,
    State,
    engine_knob_option,
    engine_option,
    graph_argument,
    knob_options,
    target_option,
)
from .output import bold, emit, facts, say, shown

if TYPE_CHECKING:
    from ...graph_api.frozen import FrozenGraph
    from ...jit.target import Target
    from ..selection.candidate import Candidate

JSON: dict[str, str] = {
    "graph": "`name` and `digest`",
    "target": "canonical spelling of the target",
    "chosen": "name of the engine that would run the graph, or null",
    "why": "why that one",
    "candidates": "of each engine `engine`, `alias`, `engine_id`, `served`, `default` (whether it "
    "is taken without `--engine`), `reasons` (`rule`, `node`, `port`, `got`, `wanted`, `hint`, "
    "`text`), `knobs` (`name`, `choices`, `default`, `help`), `estimated_us` and `measured_us` "
    "(null where unknown)",
    "cache": "null unless the IREE engine is chosen: `state` (`hit`, `miss`, `off`), `key`, "
    "`root` and `miss`: null or `reason`, `nearest`, `differences`, `detail`, `text`",
}


@click.command(cls=Command)
@graph_argument
@target_option()
@engine_option
@engine_knob_option
@knob_options("--cache", "--cache-dir", "--opt-level", "--extra-flags")
@click.pass_obj
def command(
    state: State, graph: str, target: Target, engine: str | None, chosen_knobs: dict[str, str]
) -> None:
    """Say which engines serve GRAPH, why the others decline, and whether the code is cached.

    Nothing is compiled.  The exit code is 3 when no engine would run the graph.
    """
    from ..select import candidates, choose
    from .files import read_graph

    frozen = read_graph(graph).freeze()
    found = candidates(frozen, target, engine_name=engine)
    chosen = None
    if any(c.served for c in found if engine or c.engine.BY_DEFAULT):
        chosen = choose(frozen, target, engine_name=engine, knobs=chosen_knobs)
    about = {
        "graph": {"name": frozen.name, "digest": frozen.digest},
        "target": str(target),
        "chosen": chosen.name if chosen else None,
        "why": _why(chosen, engine),
        "candidates": [c.as_dict() for c in found],
        "cache": _cache(frozen, target, chosen.choice)
        if chosen and chosen.engine.ALIAS == "iree"
        else None,
    }
    if state.json:
        emit(about)
    else:
        _print(about)
    if chosen is None:
        raise click.exceptions.Exit(NOT_SUPPORTED)


def _why(chosen: Candidate | None, pinned: str | None) -> str:
    if chosen is None:
        return "the pinned engine declines" if pinned else "every engine of the defaults declines"
    return "pinned" if pinned else "the first of the default engines that serves the graph"


def _cache(frozen: FrozenGraph, target: Target, knobs: Mapping[str, str]) -> dict[str, Any]:
    from ...jit.cache import explain_miss
    from ...jit.pipeline import cache_key, store
    from ..engines.iree import under

    with under(knobs):
        cache, key = store(), cache_key(frozen, target)
    hit = cache.get(key) is not None
    return {
        "state": "hit" if hit else ("off" if cache.off else "miss"),
        "key": key.digest,
        "root": str(cache.root),
        "miss": None if hit else explain_miss(cache, key).as_dict(),
    }


def _print(about: dict[str, Any]) -> None:
    graph, cache = about["graph"], about["cache"]
    rows = [
        ("graph", f"{graph['name'] or '(no name)'}  {graph['digest'][:16]}"),
        ("target", about["target"]),
        ("chosen", f"{about['chosen'] or 'none'}: {about['why']}"),
    ]
    if cache is not None:
        rows.append(("cache", f"{cache['state']}  {cache['key'][:16]} in {cache['root']}"))
    facts(rows)
    if cache is not None and cache["miss"]:
        for line in cache["miss"]["text"].splitlines():
            say(f"  {shown(line)}")
    for candidate in about["candidates"]:
        say()
        verdict = "serves the graph" if candidate["served"] else "declines"
        note = "" if candidate["default"] else ", and runs only when pinned with --engine"
        say(f"{bold(candidate['engine'])} ({candidate['alias']}) {verdict}{note}")
        for reason in candidate["reasons"]:
            say(f"  {shown(reason['text'])}")
