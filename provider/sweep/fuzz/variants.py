# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Other ways to build a random graph: knobs, other engines, an extent made dynamic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from ....graph_api.dynamic import at_sizes
from ....graph_api.errors import FormatError, GraphError
from ....graph_api.frozen import FrozenGraph
from ....jit.settings_table import Settings
from ....jit.target import Target
from ...engine import Engine
from ...registry import engine
from ..contestants import SIZES, with_knobs
from .cases import Draw, drawn_cases

__all__ = ["Way", "other_ways"]

Way = tuple[Draw, str]
"""A graph, and the contestant that builds it (`contestants.contestant`)."""

_OURS = "iree"
_OTHERS = {"split": "split", "torch": "torch-engine"}
"""Further engines by alias, and what they are called as contestants."""
_EXTENTS = 2  # that are made dynamic, one at a time
_SIZES = (1, 2, 3, 5, 8, 17, 33)


def other_ways(
    draw: Draw, target: Target, settings: Settings, rng: Random, count: int
) -> list[Way]:
    """Return some other ways to build the one graph of a draw.

    Parameters
    ----------
    draw : Draw
    target : Target
    settings : Settings
    rng : Random
    count : int
        How many at most.
    """
    (case,) = drawn_cases(draw)
    ways = list(_ways(draw, case.freeze(), target, settings, rng))
    return rng.sample(ways, min(count, len(ways)))


def _ways(
    draw: Draw, graph: FrozenGraph, target: Target, settings: Settings, rng: Random
) -> Iterator[Way]:
    ours = engine(_OURS, settings)
    if not ours.declines(graph, target):
        yield from ((draw, name) for name in _choices(_OURS, ours, graph, target, rng))
    for alias, name in _OTHERS.items():
        other = engine(alias, settings)
        if not other.declines(graph, target):
            yield draw, name
            yield from ((draw, way) for way in _choices(name, other, graph, target, rng))
    for opened in _dynamic(draw, graph, rng):
        for name in (_OURS, *(with_knobs(_OURS, {"sizes": how}) for how in SIZES)):
            yield opened, name


def _choices(
    name: str, one: Engine, graph: FrozenGraph, target: Target, rng: Random
) -> Iterator[str]:
    """Yield an engine with each other strategy, and with one other choice of each other knob."""
    for knob in one.knobs(graph, target):
        others = [choice for choice in knob.choices if choice != knob.default]
        some = others if knob.name.endswith(".strategy") else rng.sample(others, bool(others))
        for choice in some:
            yield with_knobs(name, {knob.name: choice})


def _dynamic(draw: Draw, graph: FrozenGraph, rng: Random) -> Iterator[Draw]:
    """Yield draws of the same graph with an extent that is dynamic, at another size."""
    extents = {d for uid in graph.inputs for d in graph.tensors[uid].dims if d > 1}
    for extent in rng.sample(sorted(extents), min(_EXTENTS, len(extents))):
        size = rng.choice([size for size in _SIZES if size != extent])
        opened = replace(draw, extent=extent, size=size)
        (case,) = drawn_cases(opened)
        try:
            at_sizes(case.freeze(), case.sizes)
        except (GraphError, FormatError):
            continue  # an extent that ops rely on
        yield opened
