# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The common part of third-party engines: graphs in hipDNN's wire format, and pointers."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ....graph_api.dynamic import at_sizes
from ....graph_api.errors import CompileError, Decline, DeviceError, FormatError, Problem
from ....graph_api.formats.flatbuffer.encode import encode
from ....graph_api.formats.flatbuffer.engine_messages import EngineDetails
from ....graph_api.formats.flatbuffer.node_tables import OPS_BY_CODE
from ....graph_api.formats.flatbuffer.schema_types import Era
from ....graph_api.frozen import FrozenGraph
from ....jit.lru import LruCache
from ....jit.settings_table import Settings
from ....jit.target import Target
from ...dynamic_plan import ExactPlan
from ...engine import Engine
from ...plan import Plan
from . import places
from .foreign_plan import ForeignPlan, Session
from .foreign_rules import MisfitError, problem
from .probe_report import Report

__all__ = ["Answer", "WireEngine", "wire_form"]

_REMEMBERED = 256  # number of graphs for which the answer of an engine is kept


def wire_form(graph: FrozenGraph, era: Era, settings: Settings) -> bytes:
    """Return a graph as plugins of an era read it, by the settings for graph files.

    Raises
    ------
    FormatError
        If the era's format cannot hold the graph.
    """
    return encode(
        graph,
        era,
        inv_variance=settings.graph_inv_variance,
        backward_operands=settings.graph_backward_operands,
    )


@dataclass(frozen=True)
class Answer:
    """The answer of an engine for one graph.

    Attributes
    ----------
    reasons : tuple of Problem
        Why it does not serve the graph; empty if it does.
    engine_id : int
        hipDNN's id of the engine that would execute it.
    details : EngineDetails or None
        The details of that engine for the graph, from the plugin.
    """

    reasons: tuple[Problem, ...] = ()
    engine_id: int = 0
    details: EngineDetails | None = None


class WireEngine(Engine):
    """A third-party engine, known from a report.

    Parameters
    ----------
    report : Report
        The report on its file.
    name, alias : str
        Its names in this project.
    settings : Settings
    """

    BY_DEFAULT = False

    def __init__(self, report: Report, name: str, alias: str, settings: Settings) -> None:
        super().__init__(settings)
        self.NAME = name
        self.ALIAS = alias
        self.report = report
        self._answers: LruCache[Answer] = LruCache(_REMEMBERED)

    @property
    def era(self) -> Era:
        """The wire format of its graphs."""
        chosen = self.settings.foreign_era
        return Era(self.report.era if chosen == "auto" else chosen)

    def version(self) -> str:
        return self.report.version

    def source(self) -> str:
        return self.report.path

    def ops(self) -> tuple[str, ...]:
        """Return every op of hipDNN's graphs: only of a graph is it known what is served."""
        return tuple(op.NAME for op in OPS_BY_CODE.values()) if self.report.usable else ()

    def targets(self) -> tuple[str, ...]:
        try:
            return (
                (str(places.here(self.settings.foreign_device).target),)
                if self.report.usable
                else ()
            )
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
        chosen = {name: str(value) for name, value in (knobs or {}).items()}
        if graph.symbols:
            return ExactPlan(maker=self, graph=graph, target=target, knobs=chosen)
        answer = self._answer(graph, target)
        begin = time.perf_counter()
        try:
            session = self._session(answer, wire_form(graph, self.era, self.settings), chosen)
        except MisfitError as error:
            raise CompileError(
                f"engine {self.NAME} does not build graph {graph.name!r}",
                stage="compile",
                diagnostics=(str(error),),
            ) from None
        return ForeignPlan(
            maker=self,
            graph=graph,
            target=target,
            knobs=chosen,
            seconds={"build": time.perf_counter() - begin},
            workspace_bytes=session.workspace_bytes,
            statistics=self._statistics(answer),
            session=session,
            made_by=answer.engine_id,
        )

    def _answer(self, graph: FrozenGraph, target: Target) -> Answer:
        """Return what the engine says to a graph of fixed dims; the last answers are kept."""
        if not self.report.usable:
            return Answer(self.report.problems)
        # Reasons tell labels, and the wire format has names and uids.
        labels = (*(n.label for n in graph.nodes), *(s.name for s in graph.tensors.values()))
        key = graph.digest, graph.name, labels, tuple(graph.tensors), str(target)
        return self._answers.get(key, lambda: self._ask(graph, target))

    def _ask(self, graph: FrozenGraph, target: Target) -> Answer:
        reasons = [*_misplaced(target, self.settings.foreign_device), *self._lacking(graph)]
        data = b""
        try:
            data = wire_form(graph, self.era, self.settings)
        except FormatError as error:
            reasons += error.problems
        if reasons:
            return Answer(tuple(reasons))
        try:
            return self._asked(graph, data)
        except MisfitError as error:
            return Answer((error.problem,))

    def _lacking(self, graph: FrozenGraph) -> list[Problem]:
        """Return what the engine lacks for a graph, before it is asked."""
        return []

    @abstractmethod
    def _asked(self, graph: FrozenGraph, data: bytes) -> Answer:
        """Ask the engine; ``data`` is the graph in its wire format.  May raise `MisfitError`."""

    @abstractmethod
    def _session(self, answer: Answer, data: bytes, knobs: Mapping[str, str]) -> Session:
        """Build a graph that is served.

        Raises
        ------
        MisfitError
            If the engine fails.
        SettingError
            If it has no such knob, or the knob takes no such value.
        """

    def _statistics(self, answer: Answer) -> dict[str, Any]:
        """Return the statistics of a plan."""
        return {}


def _misplaced(target: Target, device: str) -> list[Problem]:
    """Return a problem if the target is not the device of plugins here."""
    try:
        here = places.here(device).target
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
