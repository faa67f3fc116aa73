# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The engine contract: decline with reasons, or build; nothing else.

An engine answers ``declines`` cheaply, from the graph alone, without importing a compiler.  An
empty answer is a promise: ``build`` then succeeds, or fails with a ``CompileError`` that is a
bug.  Where a graph can be built in more than one way, the engine names the ways as knobs, and
its own rules say which is the default.  Ranking and fallback are not an engine's business
(``provider.selection.select``).

An engine is made for one set of `Settings` (``provider.registry``) and reads no others.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..graph_api.arguments import suggestion
from ..graph_api.errors import Decline, NotSupportedError, SettingError
from ..graph_api.frozen import FrozenGraph
from ..jit.target import Target
from .engine_ids import engine_id

if TYPE_CHECKING:
    from ..jit.inspect.fused import Fused
    from ..jit.settings_table import Settings
    from .plan import Plan

__all__ = ["Engine", "EngineKnob", "build_pinned", "checked_knobs", "located", "must_serve"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineKnob:
    """One way in which an engine can build a graph differently.

    Attributes
    ----------
    name : str
        Dotted name such as ``"conv_fprop.strategy"``, ``"opt_level"``, ``"driver"``.
    choices : tuple of str
        What it can be for this graph and target.
    default : str
        What the engine's rules choose for this graph and target; one of the choices.
    help : str
        One line on what it does.
    tried : tuple of str
        The choices that autotuning measures; empty: all of them.
    open : bool
        Whether there are more choices than can be listed; the engine checks those.
    """

    name: str
    choices: tuple[str, ...]
    default: str
    help: str
    tried: tuple[str, ...] = ()
    open: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "name": self.name,
            "choices": list(self.choices),
            "default": self.default,
            "help": self.help,
        }


class Engine(ABC):
    """Something that serves graphs.

    Parameters
    ----------
    settings : Settings
        What holds for everything that the engine decides and builds.
    """

    NAME: str
    ALIAS: str
    """Short name for the command line."""

    BY_DEFAULT: bool = True
    """Whether it may be chosen when nobody asked for it by name, and no times are known."""

    MARGIN: float = 1.0
    """Its measured times count as this many times longer when the fastest engine is chosen."""

    LAST_RESORT: bool = False
    """Whether it only runs when it is asked for by name, whatever a policy would say."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @property
    def id(self) -> int:
        """hipDNN's id of the engine."""
        return engine_id(self.NAME)

    def version(self) -> str:
        """Return the version of what runs the graphs, for people."""
        return __version__

    def source(self) -> str:
        """Return the file that the engine is from."""
        return sys.modules[type(self).__module__].__file__ or ""

    def api_version(self) -> str:
        """Return the version of hipDNN's plugin API that it speaks; empty for one in Python."""
        return ""

    @abstractmethod
    def ops(self) -> tuple[str, ...]:
        """Return the names of the ops that it knows; ``declines`` knows the exceptions."""

    @abstractmethod
    def targets(self) -> tuple[str, ...]:
        """Return one spelling for every target that it builds for."""

    @abstractmethod
    def declines(self, graph: FrozenGraph, target: Target) -> list[Decline]:
        """Return every reason not to serve the graph; an empty list is a promise."""

    def versions(self) -> dict[str, str]:
        """Return what measured times depend on, by name; another answer makes them stale.

        Cheap: it is asked at each selection.
        """
        return {self.NAME: self.version()}

    def knobs(self, graph: FrozenGraph, target: Target) -> tuple[EngineKnob, ...]:
        """Return the ways in which a graph that it serves can be built differently."""
        return ()

    def dispatches(
        self, graph: FrozenGraph, target: Target, knobs: Mapping[str, str] | None = None
    ) -> tuple[Fused, ...]:
        """Return the kernels that an execution of a graph that it serves launches, if it knows.

        Nothing is run; that of IREE asks the compiler, in its worker, and raises `CompileError`
        if that fails.
        """
        return ()

    def engines(
        self, graph: FrozenGraph, target: Target, knobs: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """Return the name of the engine that computes each node: its own, unless it splits."""
        return (self.NAME,) * len(graph.nodes)

    @abstractmethod
    def build(
        self, graph: FrozenGraph, target: Target, knobs: Mapping[str, str] | None = None
    ) -> Plan:
        """Return the plan.  Call it only when ``declines`` gave nothing.

        Parameters
        ----------
        graph : FrozenGraph
        target : Target
        knobs : mapping, optional
            Choices by the name of the knob; the engine's defaults for the others.

        Raises
        ------
        SettingError
            If a knob or its choice is unknown for this graph and target.
        CompileError
            If the compiler fails.
        """


def checked_knobs(
    engine: Engine, graph: FrozenGraph, target: Target, given: Mapping[str, str] | None
) -> dict[str, str]:
    """Return the choices given, after a check; what every engine's ``build`` begins with.

    Raises
    ------
    SettingError
        Naming the engine, each knob or choice that it does not have, and those that it has.
    """
    if not given:
        return {}
    known = {knob.name: knob for knob in engine.knobs(graph, target)}
    wrong = []
    for name, choice in given.items():
        if name not in known:
            have = ", ".join(known) or "none for this graph and target"
            near = suggestion(name, known)
            wrong.append(f"engine {engine.NAME} has no knob {name!r}{near}; it has: {have}")
        elif choice not in known[name].choices and not known[name].open:
            allowed = " | ".join(known[name].choices)
            near = suggestion(choice, known[name].choices)
            told = f"knob {name!r} of engine {engine.NAME} is {choice!r}{near}"
            wrong.append(f"{told}; allowed: {allowed}")
    if wrong:
        raise SettingError("\n  ".join(wrong))
    return {str(name): str(choice) for name, choice in given.items()}


def build_pinned(
    engine: Engine,
    graph: FrozenGraph,
    target: Target,
    knobs: Mapping[str, str] | None = None,
) -> Plan:
    """Return the plan of this engine and no other.

    Raises
    ------
    NotSupportedError
        If the engine declines the graph; with every reason.
    SettingError
        If a knob or its choice is unknown.
    CompileError
        If the compiler fails.
    """
    must_serve(engine, graph, target, engine.declines(graph, target))
    plan = engine.build(graph, target, checked_knobs(engine, graph, target, knobs) or None)
    plan.policy = plan.why = "pinned"
    return plan


def must_serve(
    engine: Engine, graph: FrozenGraph, target: Target, reasons: Sequence[Decline], name: str = ""
) -> None:
    """Raise `NotSupportedError` if a pinned engine has reasons to decline a graph."""
    if reasons:
        raise NotSupportedError(
            f"engine {(name or engine.NAME)!r} was pinned and declines graph {graph.name!r} "
            f"for {target}",
            located(graph, reasons),
        )


def located(graph: FrozenGraph, reasons: Iterable[Decline]) -> list[Decline]:
    """Return reasons with the lines of the script that added their nodes, for an error."""
    lines = {node.label: node.at for node in graph.nodes if node.at}
    return [
        replace(reason, problem=replace(reason.problem, at=lines.get(reason.problem.node, "")))
        for reason in reasons
    ]
