# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Other ways to build a graph, as names of engines: knobs, the split engine, PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from ....graph_api.frozen import FrozenGraph
from ....jit.settings_table import Settings
from ....jit.target import Target
from ...engine import Engine
from ...registry import engine
from ..contestants import with_knobs

__all__ = ["other_ways"]

_OTHERS = {"split": "split", "torch": "torch-engine"}
"""Further engines by alias, and what they are called as contestants."""


def other_ways(
    graph: FrozenGraph, target: Target, settings: Settings, rng: Random, count: int
) -> list[str]:
    """Return the names of some contestants (`contestants.contestant`), each another way to build.

    Parameters
    ----------
    graph : FrozenGraph
    target : Target
    settings : Settings
    rng : Random
    count : int
        How many at most.
    """
    ways = list(_ways(graph, target, settings, rng))
    return rng.sample(ways, min(count, len(ways)))


def _ways(graph: FrozenGraph, target: Target, settings: Settings, rng: Random) -> Iterator[str]:
    ours = engine("iree", settings)
    if not ours.declines(graph, target):
        yield from _choices("iree", ours, graph, target, rng)
    for alias, name in _OTHERS.items():
        other = engine(alias, settings)
        if not other.declines(graph, target):
            yield name
            yield from _choices(name, other, graph, target, rng)


def _choices(
    name: str, one: Engine, graph: FrozenGraph, target: Target, rng: Random
) -> Iterator[str]:
    """Yield an engine with each other strategy, and with one other choice of each other knob."""
    for knob in one.knobs(graph, target):
        others = [choice for choice in knob.choices if choice != knob.default]
        some = others if knob.name.endswith(".strategy") else rng.sample(others, bool(others))
        for choice in some:
            yield with_knobs(name, {knob.name: choice})
