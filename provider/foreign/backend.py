"""hipDNN itself as engines: it is handed the graph, and runs it with one of its own.

``hipdnn`` takes what hipDNN's heuristics put first; ``hipdnn:<name>`` is one engine of hipDNN's,
pinned.  Where hipDNN is not installed, ``hipdnn`` is there and says so.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...graph_api.dynamic import at_sizes
from ...graph_api.errors import (
    CompileError,
    Decline,
    DeviceError,
    FormatError,
    HipdnnIreeError,
    Problem,
)
from ...graph_api.frozen import FrozenGraph
from ...hipdnn_plugin.wire.op_table import FORMS_BY_OP
from ...hipdnn_plugin.wire.schema import Era
from ...jit.knobs import settings
from ...jit.target import Target
from ..dynamic import ExactPlan
from ..engine import Engine, Plan, checked_knobs
from ..latest import Latest
from . import places
from .engine import misplaced, wire_form
from .hipdnn import BackendHandle, BackendPlan, Hipdnn, Pack
from .plan import ForeignPlan, Override, Session, release
from .probe import identity, look_at_backend
from .report import Report
from .rules import MisfitError, problem

if TYPE_CHECKING:
    from .places import Place

__all__ = ["BackendEngine", "BackendSession"]

NAME, ALIAS = "HIPDNN_BACKEND", "hipdnn"
_REMEMBERED = 256  # graphs of which an engine's answer is kept


@dataclass(frozen=True)
class _Answer:
    """What hipDNN says to one graph: the engine that would run it, or why none does."""

    reasons: tuple[Problem, ...]
    engine_id: int = 0


class BackendEngine(Engine):
    """hipDNN's own choice, or one of its engines.

    Parameters
    ----------
    report : Report
        Of the backend; its problems are the reasons where it cannot be used.
    id : int, optional
        The engine; None for hipDNN's own choice.
    name, alias : str
        What it is called here; its id is that of this name, as the engine may be here by itself,
        loaded from its plugin.  Plans tell hipDNN's id of the engine that runs them.
    """

    BY_DEFAULT = False

    def __init__(
        self, report: Report, id: int | None = None, name: str = NAME, alias: str = ALIAS
    ) -> None:
        self.NAME = name
        self.ALIAS = alias
        self.report = report
        self._id = id
        self._answers: Latest[_Answer] = Latest(_REMEMBERED)
        file = str(identity(Path(report.path))[1:]) if report.usable else ""
        self._versions = {name: report.version, "file": file, "plugins": "; ".join(report.said)}

    def version(self) -> str:
        return self.report.version

    def versions(self) -> dict[str, str]:
        return self._versions

    def source(self) -> str:
        return self.report.path

    def ops(self) -> tuple[str, ...]:
        """Return every op of hipDNN's graphs; without hipDNN none."""
        return tuple(FORMS_BY_OP) if self.report.usable else ()

    def targets(self) -> tuple[str, ...]:
        try:
            return (str(places.here().target),) if self.report.usable else ()
        except DeviceError:
            return ()

    def declines(self, graph: FrozenGraph, target: Target) -> list[Decline]:
        if graph.symbols:
            graph = at_sizes(graph, {dim.name: dim.example for dim in graph.symbols})
        reasons = self._answer(graph, target).reasons
        return [Decline(engine=self.NAME, problem=p) for p in reasons]

    def build(
        self, graph: FrozenGraph, target: Target, knobs: Mapping[str, str] | None = None
    ) -> Plan:
        """Return the plan; see `Engine.build`."""
        checked_knobs(self, graph, target, knobs)
        if graph.symbols:
            return ExactPlan(engine=self.NAME, graph=graph, target=target)
        answer = self._answer(graph, target)
        begin = time.perf_counter()
        try:
            backend = _loaded(self.report, places.here())
            session = BackendSession(backend, wire_form(graph, self._era()), answer.engine_id)
        except MisfitError as error:
            raise CompileError(
                f"hipDNN does not build graph {graph.name!r}",
                stage="compile",
                diagnostics=(str(error),),
            ) from None
        names = {e.id: e.name for e in self.report.engines}
        return ForeignPlan(
            engine=self.NAME,
            graph=graph,
            target=target,
            seconds={"build": time.perf_counter() - begin},
            workspace_bytes=session.workspace_bytes,
            statistics={"hipdnn_engine": names.get(answer.engine_id) or hex(answer.engine_id)},
            session=session,
            server=self,
            made_by=answer.engine_id,
        )

    def _era(self) -> Era:
        chosen = settings().foreign_era
        return Era(self.report.era if chosen == "auto" else chosen)

    def _answer(self, graph: FrozenGraph, target: Target) -> _Answer:
        if not self.report.usable:
            return _Answer(self.report.problems)
        now = settings()
        choices = now.foreign_device, now.foreign_era
        key = graph.digest, graph.name, tuple(graph.tensors), str(target), choices
        return self._answers.get(key, lambda: self._ask(graph, target))

    def _ask(self, graph: FrozenGraph, target: Target) -> _Answer:
        reasons = misplaced(target)
        data = b""
        try:
            data = wire_form(graph, self._era())
        except FormatError as error:
            reasons += error.problems
        if reasons:
            return _Answer(tuple(reasons))
        try:
            handle = _loaded(self.report, places.here()).handle
            with handle.lock, handle.graph(data) as operations:
                ranked = handle.ranked(operations)
        except MisfitError as error:
            return _Answer((error.problem,))
        wanted = self._id
        if wanted is None and graph.preferred_engine_id in ranked:
            wanted = graph.preferred_engine_id
        if not ranked or (wanted is not None and wanted not in ranked):
            got = ", ".join(f"{id % 2**64:#018x}" for id in ranked) or "no engine"
            expected = "an engine" if wanted is None else f"{wanted % 2**64:#018x}"
            return _Answer((problem("BACKEND-03", "heuristics", got, expected),))
        return _Answer((), ranked[0] if wanted is None else wanted)


@dataclass
class _Loaded:
    """hipDNN in this process: one handle, on a stream of its own."""

    place: Place
    stream: int | None
    handle: BackendHandle


_lock = threading.Lock()
_loaded_ones: dict[tuple[str, int], _Loaded] = {}
"""By file and device; they stay until the process ends, as hipDNN keeps its plugins anyway."""


def _loaded(report: Report, place: Place) -> _Loaded:
    """Return hipDNN, loaded into this process; its report says that a probe process did well."""
    key = report.path, -1 if place.on_host else place.device_id
    with _lock:
        found = _loaded_ones.get(key)
        if found is None:
            stream, _ = place.stream()
            handle = Hipdnn(Path(report.path)).handle()
            if stream is not None:
                handle.set_stream(stream)
            found = _loaded_ones[key] = _Loaded(place, stream, handle)
        return found


class BackendSession(Session):
    """An execution plan of hipDNN's; plans share hipDNN's one handle, and wait for one another."""

    def __init__(self, backend: _Loaded, graph: bytes, engine_id: int) -> None:
        super().__init__(backend.place)
        self.stream = backend.stream
        self._plan: BackendPlan = backend.handle.plan(graph, engine_id)
        weakref.finalize(self, release, [self._plan.close])
        self.workspace_bytes = self._plan.workspace_bytes

    def prepare(
        self,
        pairs: Sequence[tuple[int, int]],
        workspace: int | None,
        overrides: Sequence[Override],
    ) -> Callable[[], None]:
        return _Bound(self, Pack(self._plan, pairs, workspace, overrides))


class _Bound:
    """A call that keeps the session, and destroys its variant pack before the plan goes."""

    def __init__(self, session: BackendSession, pack: Pack) -> None:
        self._session = session
        self._pack = pack
        # The finalizer refers to the session, so that the plan outlives the pack.
        weakref.finalize(self, _let_go, session, pack)

    def __call__(self) -> None:
        self._pack.execute()


def _let_go(session: BackendSession, pack: Pack) -> None:
    release([pack.close])


# ------------------------------------------------------------------ the table


_last: tuple[object, tuple[BackendEngine, ...]] | None = None


def engines() -> tuple[BackendEngine, ...]:
    """Return ``hipdnn`` and, where hipDNN is installed, each of its engines.

    The same objects come back as long as nothing has changed.
    """
    global _last  # noqa: PLW0603 - what was found last, for this process
    from .found import state

    key = state()
    with _lock:
        if _last is not None and _last[0] == key:
            return _last[1]
    found = _engines(report())
    with _lock:
        _last = key, found
    return found


def report(*, again: bool = False) -> Report:
    """Return what is known of hipDNN here; ``again`` asks it anew.

    It is asked in a probe process, as it loads all of its plugins.
    """
    from .found import backends, candidates

    if again:
        _forget()
    if settings().foreign_mode == "off":
        off = problem("BACKEND-01", "hipDNN", "HIPDNN_IREE_PLUGINS_MODE=off", "another mode")
        return Report(path="", problems=(off,))
    paths = backends()
    if not paths:
        got = "no libhipdnn_backend.so"
        hint = "looked on LD_LIBRARY_PATH, in ROCM_PATH, /opt/rocm, and Python packages"
        wanted = "hipDNN, or its path in HIPDNN_IREE_HIPDNN_BACKEND"
        return Report(path="", problems=(problem("BACKEND-01", "hipDNN", got, wanted, hint),))
    plugins = []
    for one in candidates(hipdnn_only=True):
        try:
            plugins.append(identity(one.path))
        except OSError:
            continue
    try:
        return look_at_backend(paths[0], plugins, again=again)
    except (OSError, HipdnnIreeError) as error:
        failed = problem("BACKEND-01", str(paths[0]), error, "hipDNN in a probe process")
        return Report(path=str(paths[0]), problems=(failed,))


def _forget() -> None:
    global _last  # noqa: PLW0603
    with _lock:
        _last = None


def _engines(found: Report) -> tuple[BackendEngine, ...]:
    made = [BackendEngine(found)]
    if found.usable:
        for one in found.engines:
            name = one.name or hex(one.id % 2**64)
            alias = name.lower().removesuffix("_engine")
            made.append(BackendEngine(found, one.id, f"hipdnn:{name}", f"hipdnn:{alias}"))
    return tuple(made)
