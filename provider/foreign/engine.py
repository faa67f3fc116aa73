"""An engine of a plugin of others, with the contract of every engine.

The plugin is loaded into this process at the first question about a graph, and only as the file
that a probe process has found to behave.  How far it must show that for each graph as well is the
setting ``foreign.isolate``.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
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
from ...graph_api.ops.pointwise import Pointwise
from ...hipdnn_plugin.abi import Severity
from ...hipdnn_plugin.wire.encode import encode, required_api
from ...hipdnn_plugin.wire.engine import EngineConfig, EngineDetails, encode_config
from ...hipdnn_plugin.wire.op_table import FORMS_BY_OP
from ...hipdnn_plugin.wire.schema import Era
from ...jit.knobs import settings
from ...jit.target import Target
from ..dynamic import ExactPlan
from ..engine import Engine, EngineKnob, Plan
from ..latest import Latest
from . import places
from .calls import Library, Overrides, device_buffers, version_of
from .knobs import as_engine_knobs, values
from .plan import ForeignPlan, Override, Session, release
from .probe import identity, look, try_out
from .report import Report, Wanted
from .rules import MisfitError, problem
from .sink import listening

if TYPE_CHECKING:
    from .places import Place

__all__ = ["ForeignEngine", "PluginSession", "misplaced", "wire_form"]

log = logging.getLogger("hipdnn_iree.foreign")

_REMEMBERED = 256  # graphs of which an engine's answer is kept
_OVERRIDES = "ExecuteOpGraphWithOverrides"


def wire_form(graph: FrozenGraph, era: Era) -> bytes:
    """Return a graph as plugins of an era read it, by the settings for graph files.

    Raises
    ------
    FormatError
        If the era's format cannot hold the graph.
    """
    now = settings()
    if now.graph_backward_operands == "x_dy":
        nodes = tuple(
            replace(n, inputs=dict(zip(n.inputs, reversed([*n.inputs.values()]), strict=True)))
            if isinstance(n.op, Pointwise) and n.op.backward
            else n
            for n in graph.nodes
        )
        graph = replace(graph, nodes=nodes)
    return encode(graph, era, inv_variance=now.graph_inv_variance)


def misplaced(target: Target) -> list[Problem]:
    """Return a problem if the target is not where plugins work here."""
    try:
        here = places.here().target
    except DeviceError as error:
        return [problem("FOREIGN-08", "target", error, "a device that can be used")]
    if here.backend == target.backend and (here.is_cpu or here.arch == target.arch):
        return []
    return [
        problem(
            "FOREIGN-08",
            "target",
            target,
            str(here),
            "plugins run where HIPDNN_IREE_FOREIGN_DEVICE says",
        )
    ]


@dataclass(frozen=True)
class _Answer:
    """What a plugin says of one engine for one graph."""

    reasons: tuple[Problem, ...]
    details: EngineDetails | None = None


class ForeignEngine(Engine):
    """One engine id of a plugin.

    Parameters
    ----------
    report : Report
        Of a plugin that is usable.
    id : int
        hipDNN's id of the engine, signed.
    name, alias : str
        What it is called here; the plugin's own name for it, if it has one.
    """

    BY_DEFAULT = False

    def __init__(self, report: Report, id: int, name: str, alias: str) -> None:
        self.NAME = name
        self.ALIAS = alias
        self.report = report
        self._id = id
        self._mine: Library | None = None
        self._answers: Latest[_Answer] = Latest(_REMEMBERED)
        self._versions = {name: report.version, "file": str(identity(Path(report.path))[1:])}

    @property
    def id(self) -> int:
        """hipDNN's id of the engine, which its name need not give."""
        return self._id

    @property
    def era(self) -> Era:
        """The wire format that graphs are written in."""
        chosen = settings().foreign_era
        return Era(self.report.era if chosen == "auto" else chosen)

    def version(self) -> str:
        return self.report.version

    def source(self) -> str:
        return self.report.path

    def api_version(self) -> str:
        return self.report.api_version

    def versions(self) -> dict[str, str]:
        return self._versions

    def ops(self) -> tuple[str, ...]:
        """Return every op of hipDNN's graphs: a plugin says only of a graph what it serves."""
        return tuple(FORMS_BY_OP)

    def targets(self) -> tuple[str, ...]:
        try:
            return (str(places.here().target),)
        except DeviceError:
            return ()

    def declines(self, graph: FrozenGraph, target: Target) -> list[Decline]:
        if graph.symbols:
            graph = at_sizes(graph, {dim.name: dim.example for dim in graph.symbols})
        found = self._answer(graph, target)
        return [Decline(engine=self.NAME, problem=p) for p in found.reasons]

    def knobs(self, graph: FrozenGraph, target: Target) -> tuple[EngineKnob, ...]:
        if graph.symbols:
            return ()
        details = self._answer(graph, target).details
        return as_engine_knobs(details.knobs) if details else ()

    def build(
        self, graph: FrozenGraph, target: Target, knobs: Mapping[str, str] | None = None
    ) -> Plan:
        """Return the plan; see `Engine.build`."""
        if graph.symbols:
            return ExactPlan(engine=self.NAME, graph=graph, target=target, knobs=dict(knobs or {}))
        details = self._answer(graph, target).details
        chosen = values(self.NAME, details.knobs if details else (), knobs or {})
        config = encode_config(EngineConfig(engine_id=self.id, knobs=chosen))
        begin = time.perf_counter()
        try:
            place = places.here()
            session = PluginSession(self._library(), place, config, wire_form(graph, self.era))
        except MisfitError as error:
            raise CompileError(
                f"engine {self.NAME} does not build graph {graph.name!r}",
                stage="compile",
                diagnostics=(str(error),),
            ) from None
        return ForeignPlan(
            engine=self.NAME,
            graph=graph,
            target=target,
            knobs={name: str(value) for name, value in (knobs or {}).items()},
            seconds={"build": time.perf_counter() - begin},
            workspace_bytes=session.workspace_bytes,
            session=session,
            server=self,
            made_by=self.id,
        )

    # ------------------------------------------------------------------ questions

    def _answer(self, graph: FrozenGraph, target: Target) -> _Answer:
        now = settings()
        labels = (*(n.label for n in graph.nodes), *(s.name for s in graph.tensors.values()))
        choices = now.foreign_device, now.foreign_era, now.foreign_isolate
        key = graph.digest, graph.name, labels, tuple(graph.tensors), str(target), choices
        return self._answers.get(key, lambda: self._ask(graph, target))

    def _ask(self, graph: FrozenGraph, target: Target) -> _Answer:
        reasons = [*misplaced(target), *self._too_old(graph)]
        data = b""
        try:
            data = wire_form(graph, self.era)
        except FormatError as error:
            reasons += error.problems
        if reasons:
            return _Answer(tuple(reasons))
        try:
            return self._asked(graph, data)
        except MisfitError as error:
            return _Answer((error.problem,))

    def _asked(self, graph: FrozenGraph, data: bytes) -> _Answer:
        stage = settings().foreign_isolate
        if stage != "load":
            config = encode_config(EngineConfig(engine_id=self.id))
            wanted = Wanted(
                graph=data,
                config=config,
                engine_id=self.id,
                stage=stage,
                buffers=_sizes(graph) if stage == "run" else (),
            )
            trial = try_out(Path(self.report.path), wanted)
            if trial.problem is not None:
                return _Answer((_with_words(trial.problem, trial.said),))
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
            return _Answer((_with_words(found, said),))
        return _Answer((), handle.details(self.id, data))

    def _too_old(self, graph: FrozenGraph) -> list[Problem]:
        needed, have = required_api(graph), version_of(self.report.api_version) or (1, 0, 0)
        if have < needed:
            text = ".".join(map(str, needed))
            return [problem("FOREIGN-09", "API version", self.report.api_version, text)]
        if graph.is_override_shape_enabled and _OVERRIDES not in self.report.features:
            name = f"hipdnnEnginePlugin{_OVERRIDES}"
            return [problem("FOREIGN-09", name, "no such function", "a graph of fixed shapes")]
        return []

    def _library(self) -> Library:
        if self._mine is None:  # once it has one it keeps it, whatever becomes of the file
            self._mine = _loaded(Path(self.report.path), self.report)
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
    """Return a problem with what the plugin logged, which often is the reason."""
    words = "; ".join(said)[:1500]
    return replace(found, hint=f"the plugin said: {words}" if words else found.hint)


# ------------------------------------------------------------------ what is loaded

_lock = threading.Lock()
_libraries: dict[Path, tuple[list[object], Library]] = {}
"""Plugins in this process, with the state of the file then; they stay until it ends."""


def _loaded(path: Path, report: Report) -> Library:
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
            now = look(path) if known is None else report
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
