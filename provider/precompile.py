# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiling many graphs for many targets at once, so that later builds only look the code up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from ..graph_api.buckets import BucketsLike, as_buckets, combinations
from ..graph_api.dynamic import at_sizes
from ..graph_api.errors import CompileError, HipdnnIreeError, SettingError
from ..graph_api.frozen import FrozenGraph
from ..graph_api.graph import Graph
from ..jit.mlir_source import MlirSource
from ..jit.options import BuildOptions, WorkerOptions
from ..jit.settings import settings
from ..jit.settings_table import Settings
from ..jit.target import Target

if TYPE_CHECKING:
    from ..jit.compiler.pool import WorkerPool
    from ..jit.pipeline import Compiled
    from ..jit.stages import Source

__all__ = ["Precompiled", "compile_all", "compile_one", "dims_of", "pairs", "precompile"]

AllBuckets = BucketsLike | Mapping[str, BucketsLike] | None


@dataclass(frozen=True, kw_only=True)
class Precompiled:
    """What became of one graph for one target, or of one of its buckets.

    Attributes
    ----------
    index : int
        Its place in the list that `precompile` returns.
    name : str
        Name of the graph.
    graph : FrozenGraph, MlirSource or None
        The graph, at the sizes of the bucket where there is one; None when it breaks rules.
    target : Target
    bucket : dict of str to int or None
        The sizes of dynamic dims that the code is made for; None for code that is not for a bucket.
    cache : str
        ``"miss"`` (compiled now), ``"hit"``, ``"off"`` or ``"verified"``; ``"same"`` for the code
        of an earlier pair of the list; empty after an error.
    compiled : Compiled or None
        The code.
    error : HipdnnIreeError or None
        Why there is none.
    seconds : float
        Wall time, waiting for a free worker included.
    """

    index: int
    name: str
    graph: Source | None
    target: Target
    bucket: dict[str, int] | None = None
    cache: str = ""
    compiled: Compiled | None = None
    error: HipdnnIreeError | None = None
    seconds: float = 0.0


def precompile(
    graphs: Iterable[Graph | Source],
    targets: Iterable[Target | str] | Target | str = "cpu",
    *,
    knobs: Mapping[str, str] | None = None,
    buckets: AllBuckets = None,
    jobs: int = 0,
    progress: Callable[[Precompiled], None] | None = None,
) -> list[Precompiled]:
    """Compile graphs for targets, several at once, into the cache.

    What is in the cache is not compiled again, and of equal pairs only one is; another process
    that compiles the same at the same time is waited for.  Hardware is not needed.  Builds with
    ``require_precompiled`` then find the code, under the same settings, knobs and versions.  Of a
    graph with override shapes the code for all sizes is compiled too (``provider.overrides``).

    Parameters
    ----------
    graphs : iterable of Graph, FrozenGraph or MlirSource
    targets : target or iterable of targets
        Every graph is compiled for each of them.
    knobs : mapping of str to str, optional
        Choices of the IREE engine's knobs, as for ``Graph.build``.
    buckets : str, int, sequence of int, or mapping of name to one of these, optional
        As for ``Graph.build``: a graph with dynamic dims is compiled for every bucket (at most
        64), instead of once for all sizes.  A name must be that of a dim of one of the graphs.
    jobs : int
        Compiler workers; 0 takes the setting ``compiler.jobs`` (by default one per CPU, at most 4).
    progress : callable, optional
        Called with each `Precompiled` as it is done, in the caller's thread.

    Returns
    -------
    list of Precompiled
        One per graph, target and bucket, graph by graph, in the order given.  One that fails
        does not stop the others: its ``error`` says why.

    Raises
    ------
    SettingError
        If a target is unknown.
    """
    return compile_all(pairs(graphs, targets, buckets), knobs=knobs, jobs=jobs, progress=progress)


def pairs(
    graphs: Iterable[Graph | Source],
    targets: Iterable[Target | str] | Target | str = "cpu",
    buckets: AllBuckets = None,
    dims: Collection[str] = (),
) -> list[Precompiled]:
    """Return what `precompile` would compile, with nothing compiled yet.

    ``buckets`` may name the dims of any of the graphs, and ``dims``, which others have.

    Raises
    ------
    SettingError
        If a target is unknown.
    """
    where = [targets] if isinstance(targets, Target | str) else list(targets)
    parsed = list(dict.fromkeys(map(Target.parse, where)))
    found: list[Precompiled] = []
    asked = [_Asked.of(graph) for graph in graphs]
    dims = {*dims, *dims_of(one.frozen for one in asked)}
    for name, frozen, error in asked:
        for target in parsed:
            one = Precompiled(index=0, name=name, graph=frozen, target=target, error=error)
            some = [one] if frozen is None else _of_buckets(one, frozen, buckets, dims)
            found += (replace(pair, index=i) for i, pair in enumerate(some, len(found)))
    return found


def dims_of(graphs: Iterable[Source | None]) -> set[str]:
    """Return the names of all dynamic dims."""
    return {dim.name for g in graphs if isinstance(g, FrozenGraph) for dim in g.symbols}


class _Asked(NamedTuple):
    """A graph that is to be compiled, or the rules that it breaks."""

    name: str
    frozen: Source | None
    error: HipdnnIreeError | None = None

    @classmethod
    def of(cls, graph: Graph | Source) -> _Asked:
        try:
            return cls(graph.name, graph.freeze() if isinstance(graph, Graph) else graph)
        except HipdnnIreeError as broken:
            return cls(graph.name, None, broken)


def _of_buckets(
    one: Precompiled, graph: Source, buckets: AllBuckets, dims: Collection[str]
) -> Iterator[Precompiled]:
    """Yield a pair for each bucket of a graph with dynamic dims, else the pair itself.

    Buckets may be of a dim that another graph of the list has.
    """
    if buckets is None or isinstance(graph, MlirSource):
        yield one
        return
    from .bucket_plan import must_be_paddable

    own = {dim.name for dim in graph.symbols}
    if isinstance(buckets, Mapping):
        buckets = {n: some for n, some in buckets.items() if n in own or n not in dims}
    try:
        rounded = as_buckets(graph.symbols, buckets)
        if not rounded:
            yield one
            return
        every = combinations(rounded)
        must_be_paddable(graph, one.target, "IREE_JIT_ENGINE")
    except HipdnnIreeError as error:
        yield replace(one, error=error)
        return
    for bucket in every:
        pair = replace(one, bucket=bucket)
        try:
            yield replace(pair, graph=at_sizes(graph, bucket))
        except HipdnnIreeError as error:
            yield replace(pair, error=error)


def compile_all(
    todo: list[Precompiled],
    *,
    knobs: Mapping[str, str] | None = None,
    jobs: int = 0,
    progress: Callable[[Precompiled], None] | None = None,
) -> list[Precompiled]:
    """Compile what `pairs` returned; see `precompile`."""
    from ..jit.compiler.client import workers_for

    before = settings()
    changed: dict[str, Any] = {"compiler_jobs": jobs} if jobs else {}
    now = replace(before, cache_require_precompiled=False, **changed)
    workers = workers_for(WorkerOptions.of(now).workers, WorkerOptions.of(before).workers)
    return _Batch(list(todo), knobs, progress, workers, now).run()


def compile_one(
    graph: Source, target: Target, settings: Settings, knobs: Mapping[str, str] | None = None
) -> Compiled:
    """Return the IREE engine's code for a graph or a module, from the cache or by compiling.

    Raises
    ------
    NotSupportedError
        If the IREE engine declines the graph.
    SettingError
        If a knob or its choice is unknown.
    CompileError
        If the compiler fails.
    """
    from ..jit import pipeline
    from .engines.iree.iree_engine import settings_with
    from .selection.select import choose

    if not isinstance(graph, MlirSource):
        chosen = choose(graph, target, settings, engine_name="iree", knobs=knobs)
        settings = settings_with(settings, chosen.choice)
    return pipeline.compile_source(graph, target, BuildOptions.of(settings))


class _Batch:
    """One call of `precompile`."""

    def __init__(
        self,
        items: list[Precompiled],
        knobs: Mapping[str, str] | None,
        progress: Callable[[Precompiled], None] | None,
        workers: AbstractContextManager[WorkerPool],
        settings: Settings,
    ) -> None:
        self._items = items
        self._workers = workers
        self._settings = settings
        self._knobs = knobs
        self._tell = progress or (lambda _: None)

    def run(self) -> list[Precompiled]:
        # Equal graphs may have other names; the code is the same.
        first: dict[tuple[str, str], int] = {}
        todo, same = [], []
        for i, item in enumerate(self._items):
            if item.graph is None or item.error is not None:
                self._tell(item)
                continue
            known = first.setdefault((item.graph.digest, str(item.target)), i)
            if known == i:
                todo.append(i)
            else:
                same.append((i, known))
        self._compile(todo)
        for i, known in same:
            found = self._items[known]
            cache = "" if found.error else "same"
            self._done(i, compiled=found.compiled, error=found.error, cache=cache)
        return self._items

    def _compile(self, todo: list[int]) -> None:
        if not todo:
            return
        waiting: SimpleQueue[int] = SimpleQueue()
        done: SimpleQueue[tuple[int, Precompiled | BaseException]] = SimpleQueue()
        stop = threading.Event()
        for i in todo:
            waiting.put(i)

        def work() -> None:
            with suppress(Empty):
                while not stop.is_set():
                    i = waiting.get_nowait()
                    try:
                        done.put((i, self._one(self._items[i])))
                    except BaseException as error:  # raised where somebody sees it
                        done.put((i, error))

        with self._workers as pool:
            # One thread more than workers: it lowers the next graph while all of them compile.
            # Not a pool of futures, which would wait at the end of the process, after Ctrl-C too,
            # for a thread that waits for another process.
            for _ in range(min(len(todo), pool.jobs + 1)):
                threading.Thread(target=work, daemon=True).start()
            try:
                for _ in todo:
                    i, found = done.get()
                    if isinstance(found, BaseException):
                        raise found
                    self._items[i] = found
                    self._tell(found)
            finally:
                stop.set()

    def _one(self, item: Precompiled) -> Precompiled:
        assert item.graph is not None
        begin = time.perf_counter()
        try:
            made = compile_one(item.graph, item.target, self._settings, self._knobs)
            item = replace(item, compiled=made, cache=made.cache)
            self._for_overrides(item.graph, item.target)
        except HipdnnIreeError as error:
            item = replace(item, error=error)
        except Exception as error:  # a bug in one lowering must not stop a long list
            text = f"internal error: {type(error).__name__}: {error}"
            item = replace(item, error=CompileError(text, stage="lower"))
        return replace(item, seconds=time.perf_counter() - begin)

    def _for_overrides(self, graph: Source | None, target: Target) -> None:
        """Compile what hipDNN's plugin serves override shapes with; without it they are padded."""
        if not isinstance(graph, FrozenGraph) or not graph.is_override_shape_enabled:
            return
        from .overrides import override_graph

        sizable = override_graph(graph, target)
        if sizable is None:
            return
        plain = replace(self._settings, compiler_strategies=())
        with suppress(CompileError):
            try:
                compile_one(sizable, target, self._settings, self._knobs)
            except SettingError:  # a strategy that was chosen is for the graph's own shapes
                compile_one(sizable, target, plain)

    def _done(
        self, i: int, *, compiled: Compiled | None, error: HipdnnIreeError | None, cache: str
    ) -> None:
        self._items[i] = replace(self._items[i], compiled=compiled, error=error, cache=cache)
        self._tell(self._items[i])
