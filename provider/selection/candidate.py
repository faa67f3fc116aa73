# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One engine as seen for one graph and target: served or declined, its knobs, its times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...graph_api.errors import Decline
from ...graph_api.frozen import FrozenGraph
from ...jit.settings_table import Settings
from ...jit.target import Target
from ..engine import Engine, EngineKnob, build_pinned

if TYPE_CHECKING:
    from ..plan import Plan

__all__ = ["Asked", "Candidate", "Candidates", "with_choice"]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An engine that was asked whether it serves a graph.

    Attributes
    ----------
    engine : Engine
        Who was asked.
    graph : FrozenGraph
        About what.
    target : Target
        Where it is to run.
    reasons : tuple of Decline
        Why it does not serve the graph; empty when it does.
    knobs : tuple of EngineKnob
        The ways in which it can build the graph differently; empty when it declines.
    choice : mapping of str to str
        What was chosen of the knobs; the engine's defaults for the others.
    policy : str
        Who chose it; empty for a candidate that was not.
    why : str
        What the policy rests on, in words.
    estimated_us : float or None
        Time of one execution in microseconds by the cost model.
    measured_us : float or None
        Time of one execution in microseconds, as remembered from a measurement.
    """

    engine: Engine
    graph: FrozenGraph
    target: Target
    reasons: tuple[Decline, ...] = ()
    knobs: tuple[EngineKnob, ...] = ()
    choice: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    policy: str = ""
    why: str = ""
    estimated_us: float | None = None
    measured_us: float | None = None

    @classmethod
    def of(cls, engine: Engine, graph: FrozenGraph, target: Target) -> Candidate:
        """Ask an engine about a graph."""
        reasons = tuple(engine.declines(graph, target))
        return cls(
            engine=engine,
            graph=graph,
            target=target,
            reasons=reasons,
            knobs=() if reasons else tuple(engine.knobs(graph, target)),
        )

    @property
    def name(self) -> str:
        """Full name of the engine."""
        return self.engine.NAME

    @property
    def served(self) -> bool:
        """Whether the engine serves the graph."""
        return not self.reasons

    def chosen_by(self, policy: str, choice: Mapping[str, str], why: str = "") -> Candidate:
        """Return the candidate with what was decided."""
        return replace(self, policy=policy, choice=MappingProxyType(dict(choice)), why=why)

    def build(self, knobs: Mapping[str, str] | None = None) -> Plan:
        """Return the plan of this engine, which is pinned by that.

        Raises
        ------
        NotSupportedError
            If the engine declines the graph.
        SettingError
            If a knob or its choice is unknown.
        CompileError
            If the compiler fails.
        """
        given = self.choice if knobs is None else knobs
        return build_pinned(self.engine, self.graph, self.target, given)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: whether it serves the graph, its knobs or its reasons."""
        from ..pages.shown import candidates_fragment

        return candidates_fragment([self])

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "engine": self.name,
            "alias": self.engine.ALIAS,
            "engine_id": str(self.engine.id),  # JSON's numbers end at 2**53
            "served": self.served,
            "default": self.engine.BY_DEFAULT,
            "last_resort": self.engine.LAST_RESORT,
            "reasons": [{**r.problem.as_dict(), "text": str(r.problem)} for r in self.reasons],
            "knobs": [knob.as_dict() for knob in self.knobs],
            "estimated_us": self.estimated_us,
            "measured_us": self.measured_us,
        }


class Candidates(list[Candidate]):
    """Candidates, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        from ..pages.shown import candidates_fragment

        return candidates_fragment(self)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a policy is asked.

    Attributes
    ----------
    graph : FrozenGraph
    target : Target
    candidates : tuple of Candidate
        The engines that serve the graph and may be chosen, in the order of the table; never
        empty.  Their ``choice`` holds the knobs that the caller has fixed.
    settings : Settings
        What the policies go by: files, orders, names of engines.
    """

    graph: FrozenGraph
    target: Target
    candidates: tuple[Candidate, ...]
    settings: Settings


def with_choice(candidate: Candidate, chosen: Mapping[str, str]) -> Mapping[str, str] | None:
    """Return stored knobs joined with those the caller fixed; None when they do not fit.

    They fit when the engine still has every knob and choice, and none contradicts the caller.
    """
    allowed = {knob.name: knob.choices for knob in candidate.knobs}
    fixed = candidate.choice
    for name, value in chosen.items():
        if value not in allowed.get(name, ()) or fixed.get(name, value) != value:
            return None
    return {**chosen, **fixed}
