# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""hipDNN itself as engines: it is handed the graph, and runs it with one of its own.

``hipdnn`` takes what hipDNN's heuristics put first; ``hipdnn:<name>`` is one engine of hipDNN's,
pinned.  Where hipDNN is not installed, ``hipdnn`` is there and says so.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....graph_api.errors import HipdnnIreeError
from ....graph_api.frozen import FrozenGraph
from ....jit.lru import LruCache
from ....jit.settings_table import Settings
from ....jit.target import Target
from ....jit.trust import unsafe_path
from ...engine import checked_knobs
from ...plan import Plan
from . import places
from .discovery import backends, candidates, state
from .foreign_plan import Override, Session, release
from .foreign_rules import problem
from .hipdnn_backend import BackendHandle, BackendPlan, Hipdnn, Pack
from .probe import identity, look_at_backend
from .probe_report import Report
from .wire_engine import Answer, WireEngine

if TYPE_CHECKING:
    from .places import Place

__all__ = ["BackendEngine", "BackendSession"]

NAME, ALIAS = "HIPDNN_BACKEND", "hipdnn"


class BackendEngine(WireEngine):
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

    def __init__(
        self,
        report: Report,
        settings: Settings,
        id: int | None = None,
        name: str = NAME,
        alias: str = ALIAS,
    ) -> None:
        super().__init__(report, name, alias, settings)
        self._pinned = id
        file = str(identity(Path(report.path))[1:]) if report.usable else ""
        self._versions = {name: report.version, "file": file, "plugins": "; ".join(report.said)}

    def versions(self) -> dict[str, str]:
        return self._versions

    def build(
        self, graph: FrozenGraph, target: Target, knobs: Mapping[str, str] | None = None
    ) -> Plan:
        return super().build(graph, target, checked_knobs(self, graph, target, knobs))

    def _asked(self, graph: FrozenGraph, data: bytes) -> Answer:
        handle = _loaded(self.report, places.here(self.settings.foreign_device)).handle
        with handle.lock, handle.graph(data) as operations:
            ranked = handle.ranked(operations)
        wanted = self._pinned
        if wanted is None and graph.preferred_engine_id in ranked:
            wanted = graph.preferred_engine_id
        if not ranked or (wanted is not None and wanted not in ranked):
            got = ", ".join(f"{id % 2**64:#018x}" for id in ranked) or "no engine"
            expected = "an engine" if wanted is None else f"{wanted % 2**64:#018x}"
            return Answer((problem("BACKEND-03", "heuristics", got, expected),))
        return Answer(engine_id=ranked[0] if wanted is None else wanted)

    def _session(self, answer: Answer, data: bytes, knobs: Mapping[str, str]) -> Session:
        return BackendSession(
            _loaded(self.report, places.here(self.settings.foreign_device)), data, answer.engine_id
        )

    def _statistics(self, answer: Answer) -> dict[str, Any]:
        names = {e.id: e.name for e in self.report.engines}
        return {"hipdnn_engine": names.get(answer.engine_id) or hex(answer.engine_id)}


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


_made: LruCache[tuple[BackendEngine, ...]] = LruCache(4)
"""The engines, by what decides which ones there are."""


def engines(settings: Settings) -> tuple[BackendEngine, ...]:
    """Return ``hipdnn`` and, where hipDNN is installed, each of its engines.

    The same objects come back as long as nothing has changed.
    """
    return _made.get((settings, state(settings)), lambda: _engines(report(settings), settings))


def report(settings: Settings, *, again: bool = False) -> Report:
    """Return what is known of hipDNN here; ``again`` asks it anew.

    It is asked in a probe process, as it loads all of its plugins.
    """
    if again:
        _made.clear()
    if settings.foreign_mode == "off":
        off = problem("BACKEND-01", "hipDNN", "HIPDNN_IREE_PLUGINS_MODE=off", "another mode")
        return Report(path="", problems=(off,))
    paths = backends(settings)
    if not paths:
        got = "no libhipdnn_backend.so"
        hint = "looked on LD_LIBRARY_PATH, in ROCM_PATH, /opt/rocm, and Python packages"
        wanted = "hipDNN, or its path in HIPDNN_IREE_HIPDNN_BACKEND"
        return Report(path="", problems=(problem("BACKEND-01", "hipDNN", got, wanted, hint),))
    if reason := unsafe_path(paths[0]):
        unsafe = problem("BACKEND-05", str(paths[0]), reason, "a library that only you may write")
        return Report(path=str(paths[0]), problems=(unsafe,))
    plugins = []
    for one in candidates(settings, hipdnn_only=True):
        try:
            plugins.append(identity(one.path))
        except OSError:
            continue
    try:
        return look_at_backend(paths[0], plugins, settings, again=again)
    except (OSError, HipdnnIreeError) as error:
        failed = problem("BACKEND-01", str(paths[0]), error, "hipDNN in a probe process")
        return Report(path=str(paths[0]), problems=(failed,))


def _engines(found: Report, settings: Settings) -> tuple[BackendEngine, ...]:
    made = [BackendEngine(found, settings)]
    if found.usable:
        for one in found.engines:
            name = one.name or hex(one.id % 2**64)
            alias = name.lower().removesuffix("_engine")
            made.append(BackendEngine(found, settings, one.id, f"hipdnn:{name}", f"hipdnn:{alias}"))
    return tuple(made)
