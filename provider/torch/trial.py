# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's functions or an engine's code: measured where they run, at a graph's first call.

A hipDNN graph's time by itself says little about a model.  PyTorch's functions take views as they
are, where a plan of them copies; and a parallel loop takes longer where the threads of another
library have just been at work.  So the whole is run, by PyTorch's functions alone and with an
engine's code, and what does not pay is left to PyTorch until all that remains does.  What is the
fastest as a whole is kept.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple

from ..timing import TUNING, Times, measure
from ..torch_import import load_torch
from .report import Group
from .split import Sizes, Split, Splitter

__all__ = ["Seconds", "losing", "settled"]

log = logging.getLogger("hipdnn_iree.torch")

_CLEARLY = 1.1
"""PyTorch's functions stay unless they take this many times as long: measured twice, one model on
one machine differed by up to 9 %."""

_BUILDS = 3  # what is left to PyTorch changes the parts, and with them the times of the others
_ROUNDS = (3, 15)  # of each graph module, in turns
_BUDGET_S = 0.3  # of those, and again of the comparison of the whole
_PATIENCE_S = 3.0  # of those of a slow model, before the least number of rounds is reached

_Ways = dict[tuple[Group, ...], Split]
"""The whole, by what is left to PyTorch."""


class Seconds(NamedTuple):
    """The least times of what a graph module calls.

    Attributes
    ----------
    nodes : mapping of str to float
        By name; of a part, what it takes beside its graphs, such as for copies of inputs that are
        laid out in another way.  What binds new addresses does not count.
    graphs : mapping of (str, str) to float
        Of the graphs in parts, by both names.
    """

    nodes: Mapping[str, float]
    graphs: Mapping[tuple[str, str], float]


def settled(splitter: Splitter, sizes: Sizes, values: Sequence[Any], fused: Split) -> Split:
    """Decide who runs what is open, and return the graph at these sizes.

    Parameters
    ----------
    splitter : Splitter
    sizes : mapping
    values : sequence
        The inputs of a call, which is made many times.  A graph with effects is not measured:
        PyTorch's functions run what is open.
    fused : Split
        What the splitter has made for the sizes, with nothing left to PyTorch.
    """
    splitter.left = splitter.open
    native = splitter.at(sizes)
    if not _has_effects(native.module.graph):
        with load_torch().random.fork_rng(devices=[]):
            ways = {(): fused} | _thinned(splitter, sizes, values, native, fused)
            ways[splitter.open] = native
            splitter.left = _fastest(ways, splitter.open, values)
            native = ways[splitter.left]
    splitter.settled = True
    return native


def losing(groups: Sequence[Group], native: Seconds, fused: Seconds) -> list[Group]:
    """Return the graphs whose code does not take clearly less time than PyTorch's functions.

    The graphs of a part that does not pay for what it takes beside them lose together.

    Parameters
    ----------
    groups : sequence of Group
        In parts.
    native : Seconds
        All nodes by PyTorch's functions.
    fused : Seconds
        The parts.
    """
    theirs = {g.key: sum(native.nodes.get(node, 0.0) for node in g.nodes) for g in groups}
    kept = [g for g in groups if _CLEARLY * fused.graphs[g.key] <= theirs[g.key]]
    for part in {g.part for g in groups}:
        own = [g.key for g in kept if g.part == part]
        code = fused.nodes[part] + sum(fused.graphs[key] for key in own)
        if _CLEARLY * code > sum(theirs[key] for key in own):
            kept = [g for g in kept if g.part != part]
    return [g for g in groups if g not in kept]


def _contested(splitter: Splitter, fused: Split) -> list[Group]:
    """Return the graphs in parts that PyTorch's functions may run as well."""
    nodes = {name for group in splitter.open for name in group.nodes}
    return [group for group in fused.groups if group.part and nodes.issuperset(group.nodes)]


def _thinned(
    splitter: Splitter, sizes: Sizes, values: Sequence[Any], native: Split, fused: Split
) -> _Ways:
    """Return the graph with the code that pays by itself; nothing where none does, or all."""
    splitter.left = ()
    for _ in range(_BUILDS):
        lost = losing(_contested(splitter, fused), *_watched((native.module, fused.module), values))
        if not lost:
            break
        splitter.left += tuple(lost)
        fused = splitter.at(sizes)
        if not _contested(splitter, fused):
            return {}
    return {splitter.left: fused}


def _fastest(ways: _Ways, native: tuple[Group, ...], values: Sequence[Any]) -> tuple[Group, ...]:
    """Return what is left to PyTorch in the way that takes clearly the least time; else all.

    Both the best and the median time have to be less: other programs only ever add time, and what
    is fast now and then is not.
    """
    calls = {left: partial(way.module.forward, *values) for left, way in ways.items()}
    by_pytorch: list[tuple[float, float]] = []
    calls[native] = partial(_noted, calls[native], by_pytorch)
    samples = measure(list(calls.values()), TUNING, budget_s=_BUDGET_S)
    if _disturbed(by_pytorch):
        log.info("a graph stays PyTorch's, as other programs had the cores while it was measured")
        return native
    times = dict(zip(ways, (Times.of(one.rounds_us) for one in samples), strict=True))
    theirs = times[native]
    ratios = {
        left: max(one.best / theirs.best, one.median / theirs.median) for left, one in times.items()
    }
    best = min(ratios, key=lambda left: ratios[left])
    log.info("a graph with engines' code takes %.3g of PyTorch's time at best", ratios[best])
    return best if _CLEARLY * ratios[best] <= 1 else native


def _noted(call: Callable[[], Any], seen: list[tuple[float, float]]) -> None:
    begin, own = time.perf_counter(), time.thread_time()
    call()
    seen.append((time.perf_counter() - begin, time.thread_time() - own))


def _disturbed(seen: Sequence[tuple[float, float]]) -> bool:
    """Whether PyTorch never had the cores to itself, by wall time and the calling thread's own.

    That thread computes, or spins until the others are done.  It sleeps where they have no core,
    which makes a call up to 160 times as long; how long it takes otherwise is not known then.
    """
    wall, own = min(seen)
    return _CLEARLY * own < wall


def _watched(modules: Sequence[Any], values: Sequence[Any]) -> list[Seconds]:
    """Return the least times of what graph modules call, which are run in turns.

    Each run follows one of the same module that is not counted, for caches and threads.
    """
    from torch.fx import Interpreter

    class Watch(Interpreter):  # type: ignore[misc]
        def __init__(self, module: Any) -> None:
            super().__init__(module)
            self.nodes: dict[str, float] = defaultdict(lambda: inf)
            self.graphs: dict[tuple[str, str], float] = defaultdict(lambda: inf)
            self._node, self._apart = "", 0.0

        def run_node(self, node: Any) -> Any:
            self._node = node.target if node.op == "call_module" else node.name
            return super().run_node(node)

        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            return self._timed(partial(target, *args, **kwargs))

        def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
            watch = partial(self._executed, target)
            return self._timed(partial(self.fetch_attr(target), *args, watch=watch))

        def _executed(self, part: str, graph: str, seconds: float) -> None:
            if graph:
                self.graphs[part, graph] = min(self.graphs[part, graph], seconds)
            self._apart += seconds

        def _timed(self, call: Callable[[], Any]) -> Any:
            self._apart, begin = 0.0, time.perf_counter()
            found = call()
            seconds = time.perf_counter() - begin - self._apart
            self.nodes[self._node] = min(self.nodes[self._node], seconds)
            return found

    watches = [Watch(module) for module in modules]
    least, most = _ROUNDS
    begin = time.perf_counter()
    for turn in range(most):
        if time.perf_counter() - begin > (_BUDGET_S if turn >= least else _PATIENCE_S):
            break
        for module, watch in zip(modules, watches, strict=True):
            module.forward(*values)
            watch.run(*values)
    return [Seconds(watch.nodes, watch.graphs) for watch in watches]


def _has_effects(graph: Any) -> bool:
    """Whether something in a graph may do more than return a result that follows from inputs."""
    return not all(_is_pure(node.target) for node in graph.nodes if node.op == "call_function")


def _is_pure(target: Any) -> bool:
    """Whether a function is PyTorch's own and writes nothing; random numbers are no effect."""
    operator = load_torch()._ops.OperatorBase
    if not isinstance(target, operator):
        return True  # arithmetic on sizes, an item of a tuple
    schema = getattr(target, "_schema", None)
    return schema is not None and target.namespace in _PURE and not schema.is_mutable


_PURE = ("aten", "prims")
