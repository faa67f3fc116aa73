# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An engine of a third-party plugin, with the contract of every engine.

The plugin is loaded into this process at the first question about a graph, and only if a probe
process has loaded the same file without a problem.  The setting ``foreign.isolate`` says what it
must do successfully in a probe process for each graph as well.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from ....graph_api.errors import HipdnnIreeError, Problem
from ....graph_api.formats.flatbuffer.encode import required_api
from ....graph_api.formats.flatbuffer.engine_messages import EngineConfig, encode_config
from ....graph_api.frozen import FrozenGraph
from ....jit.settings_table import Settings
from ....jit.target import Target
from ...engine import EngineKnob
from ...plugin_abi import Severity
from . import places
from .foreign_knobs import as_engine_knobs, values
from .foreign_plan import Override, Session, release
from .foreign_rules import MisfitError, problem
from .log_sink import listening
from .plugin_calls import Library, Overrides, device_buffers, version_of
from .probe import identity, look, try_out
from .probe_report import Report, Wanted
from .wire_engine import Answer, WireEngine

if TYPE_CHECKING:
    from .places import Place

__all__ = ["ForeignEngine", "PluginSession"]

_OVERRIDES = "ExecuteOpGraphWithOverrides"


class ForeignEngine(WireEngine):
    """One engine id of a plugin.

    Parameters
    ----------
    report : Report
        Of a plugin that is usable.
    id : int
        hipDNN's id of the engine, signed.
    name, alias : str
        What it is called here; the plugin's own name for it, if it has one.
    settings : Settings
    """

    def __init__(self, report: Report, id: int, name: str, alias: str, settings: Settings) -> None:
        super().__init__(report, name, alias, settings)
        self._id = id
        self._mine: Library | None = None
        self._versions = {name: report.version, "file": str(identity(Path(report.path))[1:])}

    @property
    def id(self) -> int:
        """hipDNN's id of the engine, which its name need not give."""
        return self._id

    def api_version(self) -> str:
        return self.report.api_version

    def versions(self) -> dict[str, str]:
        return self._versions

    def knobs(self, graph: FrozenGraph, target: Target) -> tuple[EngineKnob, ...]:
        if graph.symbols:
            return ()
        details = self._answer(graph, target).details
        return as_engine_knobs(details.knobs) if details else ()

    def _session(self, answer: Answer, data: bytes, knobs: Mapping[str, str]) -> Session:
        chosen = values(self.NAME, answer.details.knobs if answer.details else (), knobs)
        config = encode_config(EngineConfig(engine_id=self.id, knobs=chosen))
        place = places.here(self.settings.foreign_device)
        return PluginSession(self._library(), place, config, data)

    def _asked(self, graph: FrozenGraph, data: bytes) -> Answer:
        stage = self.settings.foreign_isolate
        if stage != "load":
            config = encode_config(EngineConfig(engine_id=self.id))
            wanted = Wanted(
                graph=data,
                config=config,
                engine_id=self.id,
                stage=stage,
                buffers=_sizes(graph) if stage == "run" else (),
            )
            trial = try_out(Path(self.report.path), wanted, self.settings)
            if trial.problem is not None:
                return Answer((_with_words(trial.problem, trial.said),))
        library = self._library()
        handle = library.questions()
        library.set_log_level(Severity.INFO)
        try:
            with listening() as said:
                applicable = self.id in handle.applicable(data)
        finally:
            library.set_log_level(Severity.WARN)
        if not applicable:
            name = "hipdnnEnginePluginGetApplicableEngineIds"
            found = problem("FOREIGN-10", name, "not applicable", "the engine's id")
            return Answer((_with_words(found, said),))
        return Answer(engine_id=self.id, details=handle.details(self.id, data))

    def _lacking(self, graph: FrozenGraph) -> list[Problem]:
        needed, have = required_api(graph), version_of(self.report.api_version) or (1, 0, 0)
        if have < needed:
            text = ".".join(map(str, needed))
            return [problem("FOREIGN-09", "API version", self.report.api_version, text)]
        if graph.is_override_shape_enabled and _OVERRIDES not in self.report.features:
            name = f"hipdnnEnginePlugin{_OVERRIDES}"
            return [problem("FOREIGN-09", name, "no such function", "a graph of fixed shapes")]
        return []

    def _library(self) -> Library:
        if self._mine is None:  # once loaded it is kept, even if the file changes
            self._mine = _loaded(Path(self.report.path), self.report, self.settings)
        return self._mine


def _sizes(graph: FrozenGraph) -> tuple[tuple[int, int, bool], ...]:
    """Return uid, bytes and "is a scalar" of every buffer."""
    found = []
    for uid in (*graph.outputs, *graph.inputs):
        spec = graph.tensors[uid]
        count = spec.layout.span if spec.layout.padded else prod(spec.layout.shape)
        found.append((uid, spec.data_type.nbytes(count), spec.runtime_scalar))
    return tuple(found)


def _with_words(found: Problem, said: tuple[str, ...] | list[str]) -> Problem:
    """Return a problem with the plugin's log messages, which often give the reason."""
    words = "; ".join(said)[:1500]
    return replace(found, hint=f"the plugin said: {words}" if words else found.hint)


# ------------------------------------------------------------------ what is loaded

_lock = threading.Lock()
_libraries: dict[Path, tuple[list[object], Library]] = {}
"""Plugins in this process, with the state of the file then; they stay until it ends."""


def _loaded(path: Path, report: Report, settings: Settings) -> Library:
    """Return a plugin, loaded into this process if a probe process has found it sound.

    Raises
    ------
    MisfitError
        If it is not, or is another one meanwhile: a file of one name is loaded once.
    """
    with _lock:
        try:
            state = identity(path)
            known = _libraries.get(path)
            now = look(path, settings) if known is None else report
        except (OSError, HipdnnIreeError) as error:
            raise MisfitError(problem("FOREIGN-02", str(path), error, "the file")) from None
        if known is not None and known[0] != state:
            got, wanted = "a file that was replaced after it was loaded", "the same file"
            raise MisfitError(problem("FOREIGN-05", str(path), got, wanted, "start a new process"))
        if known is not None:
            return known[1]
        if not now.usable or not {e.id for e in report.engines} <= {e.id for e in now.engines}:
            found = problem("FOREIGN-05", str(path), "another plugin", "the one that was found")
            raise MisfitError(now.problems[0] if now.problems else found)
        library = Library(path)
        _libraries[path] = state, library
        return library


class PluginSession(Session):
    """A context on a handle and a stream of its own.

    All of it is released when nothing uses the object any more: the context, then the handle,
    then the stream.
    """

    def __init__(self, library: Library, place: Place, config: bytes, graph: bytes) -> None:
        super().__init__(place)
        self.stream, free_stream = place.stream()
        steps: list[Callable[[], object]] = [free_stream]
        weakref.finalize(self, release, steps)
        handle = library.handle()
        steps.insert(0, handle.close)
        # hipDNN sets a stream when its user does; a null one is the default stream.
        handle.set_stream(self.stream)
        self._context = handle.context(config, graph)
        steps.insert(0, self._context.close)
        self.workspace_bytes = self._context.workspace_bytes

    def prepare(
        self,
        pairs: Sequence[tuple[int, int]],
        workspace: int | None,
        overrides: Sequence[Override],
    ) -> Callable[[], None]:
        shapes = Overrides(overrides) if overrides else None
        return self._context.prepared(device_buffers(pairs), len(pairs), workspace, shapes)
