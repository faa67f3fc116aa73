# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Engines of all manners, and a file of winners of its own for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree.graph_api.errors import CompileError, Decline, Problem
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.jit.settings import KNOBS, Settings, scope, settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider import registry as manifest
from hipdnn_iree.provider.engine import Engine, EngineKnob, checked_knobs
from hipdnn_iree.provider.engines.reference_engine import ReferenceEngine, ReferencePlan
from hipdnn_iree.provider.plan import Plan

_OWN_ENGINES = manifest.own_engines


class FakeEngine(Engine):
    """The reference under another name, with whatever manners a test wants.

    Parameters
    ----------
    serves : tuple of str
        Ops that it serves; empty: all.
    knobs : tuple of EngineKnob
    spoil : callable
        Called with the knobs at each build; may raise.
    wrong : str
        Knob value "form" for which the results are wrong; "*" for all.
    """

    def __init__(
        self,
        name: str = "FAKE_ENGINE",
        *,
        serves: tuple[str, ...] = (),
        knobs: tuple[EngineKnob, ...] = (),
        spoil: Callable[[Mapping[str, str]], None] = lambda knobs: None,
        wrong: str = "",
        by_default: bool = True,
    ) -> None:
        self.NAME, self.ALIAS = name, name.lower()
        self.BY_DEFAULT = by_default
        self.serves, self.known, self.spoil, self.wrong = serves, knobs, spoil, wrong
        self.built: list[dict[str, str]] = []
        self.release = "1"

    @property
    def settings(self) -> Settings:  # type: ignore[override]
        return settings()

    def version(self) -> str:
        return self.release

    def ops(self) -> tuple[str, ...]:
        return self.serves or ReferenceEngine(settings()).ops()

    def targets(self) -> tuple[str, ...]:
        return ("cpu",)

    def declines(self, graph: FrozenGraph, target: Target) -> list[Decline]:
        found = [
            Problem(rule="FAKE", node=n.label, port="op", got=n.op.NAME, wanted=str(self.serves))
            for n in graph.nodes
            if self.serves and n.op.NAME not in self.serves
        ]
        if not target.is_cpu:
            found.append(Problem(rule="FAKE", port="target", got=str(target), wanted="cpu"))
        return [Decline(engine=self.NAME, problem=problem) for problem in found]

    def knobs(self, graph: FrozenGraph, target: Target) -> tuple[EngineKnob, ...]:
        return self.known

    def build(
        self, graph: FrozenGraph, target: Target, knobs: Mapping[str, str] | None = None
    ) -> Plan:
        chosen = checked_knobs(self, graph, target, knobs)
        self.built.append(chosen)
        self.spoil(chosen)
        wrong = self.wrong == "*" or (self.wrong and chosen.get("form") == self.wrong)
        cls = WrongPlan if wrong else ReferencePlan
        return cls(maker=self, graph=graph, target=target, knobs=chosen)


class WrongPlan(ReferencePlan):
    """Adds one to the first element of the first output."""

    def _bind(self, buffers: Mapping[int, Any], workspace: Any, copy: bool) -> Callable[[], None]:
        right, output = super()._bind(buffers, workspace, copy), buffers[self.graph.outputs[0]]

        def call() -> None:
            right()
            output.reshape(-1)[0] += 1

        return call


FORM = EngineKnob(name="form", choices=("a", "b"), default="a", help="How it is done.")


def crash(knobs: Mapping[str, str]) -> None:
    """What a compiler that crashes comes out as."""
    raise CompileError("the compiler died", stage="crash")


def _same(engine: Engine) -> Engine:
    return engine


class Install:
    """Makes engines known beside our own; and what to make them of."""

    Engine = FakeEngine
    FORM = FORM
    crash = staticmethod(crash)

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def __call__(self, *engines: Engine) -> None:
        fakes = {
            e.ALIAS: manifest.Entry(name=e.NAME, load=partial(_same, e), by_default=e.BY_DEFAULT)
            for e in engines
        }

        def table(settings: Settings) -> dict[str, manifest.Entry]:
            own = _OWN_ENGINES(settings)
            return {
                "iree": own["iree"],
                **fakes,
                "split": own["split"],
                "reference": own["reference"],
            }

        self._patch.setattr(manifest, "own_engines", table)
        self._patch.setattr(manifest, "DISCOVERERS", ())


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return what makes engines known for one test."""
    return Install(monkeypatch)


@pytest.fixture
def own_winners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file of winners of the test's own, and no variable that decides."""
    for knob in KNOBS:
        if knob.name.startswith("engine."):
            monkeypatch.delenv(knob.env, raising=False)
    path = tmp_path / "winners.json"
    with scope(engine_winners=path):
        yield path
