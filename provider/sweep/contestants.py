# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Who takes part: an engine with its knobs and settings, under a name for the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...graph_api.errors import Decline, NotSupportedError, Problem, SettingError
from ...graph_api.frozen import FrozenGraph
from ...jit.settings_table import KNOBS, Settings, with_values
from ...jit.target import Target
from ..engine import Engine
from ..plan import Buffers, Plan
from ..registry import engine
from ..selection.policies import policy_names
from ..selection.select import build

__all__ = ["RULES", "SIZES", "Contestant", "contestant", "with_knobs"]

RULES: dict[str, str] = {
    "CONTESTANT-01": "a contestant with knobs takes part where the graph has these choices",
}

SIZES: dict[str, dict[str, Any]] = {"exact": {"exact": True}, "powers": {"buckets": "powers"}}
"""Ways to serve dynamic dims by code for single sizes: arguments of `select.build`."""

_SIZES = "sizes"


@dataclass(frozen=True, kw_only=True, slots=True)
class Contestant:
    """One column of the results.

    Attributes
    ----------
    name : str
        What it is called on the command line and in the results.
    engine : str or None
        The engine, pinned; None: the one that the policy chooses.
    policy : str or None
        Selection policy, where no engine is pinned.
    knobs : mapping
        Choices by the name of the engine's knob, used where the graph has that knob.
    required : tuple of str
        Knobs without which, or without whose choice, a graph is declined.
    sizes : str
        How dynamic dims are served, one of `SIZES`; empty: by one code for all sizes.  A graph
        without dynamic dims is declined.
    settings : mapping
        Settings under which it is built and run (`jit.settings`).
    native : bool
        Whether it is measured as a program of its own library: with that library's fastest
        functions, and results where it allocates them.  It is a yardstick, not an engine.
    """

    name: str
    engine: str | None = None
    policy: str | None = None
    knobs: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    native: bool = False
    required: tuple[str, ...] = ()
    sizes: str = ""

    def under(self, settings: Settings, threads: int) -> Settings:
        """Return the settings of its builds and runs."""
        known = {knob.field for knob in KNOBS}
        mine = {name: value for name, value in self.settings.items() if name in known}
        return with_values(
            settings, **mine, **({"runtime_threads": str(threads)} if threads else {})
        )

    def build(self, graph: FrozenGraph, target: Target, settings: Settings) -> Plan:
        """Return the plan; errors as of `select.build`.

        Raises
        ------
        NotSupportedError
            Also for a graph that lacks a knob that was asked for (CONTESTANT-01).
        """
        if self.engine is None:
            return build(graph, target, settings, policy=self.policy)
        one = engine(self.engine, settings)
        knobs = self._knobs(one, graph, target)
        if self.sizes and not graph.symbols:
            raise self._lacking(one, f"{_SIZES}={self.sizes}", "a graph with dynamic dims")
        if self.native and not target.is_cpu:
            from ..engines.torch.gpu_yardstick import gpu_yardstick

            return gpu_yardstick(graph, target, one, knobs)
        return build(
            graph, target, settings, engine=self.engine, knobs=knobs, **SIZES.get(self.sizes, {})
        )

    def _knobs(self, one: Engine, graph: FrozenGraph, target: Target) -> dict[str, str] | None:
        if not self.knobs:
            return None
        has = {knob.name: knob for knob in one.knobs(graph, target)}
        mine = {
            name: choice
            for name, choice in self.knobs.items()
            if name in has and (has[name].open or choice in has[name].choices)
        }
        if lacking := [name for name in self.required if name not in mine]:
            lacks = ", ".join(f"{name}={self.knobs[name]}" for name in lacking)
            known = ", ".join(f"{k.name}={'|'.join(k.choices)}" for k in has.values())
            raise self._lacking(one, lacks, known or "no knobs here")
        return mine or None

    def _lacking(self, one: Engine, got: str, wanted: str) -> NotSupportedError:
        wrong = Problem(rule="CONTESTANT-01", got=got, wanted=wanted)
        decline = Decline(engine=one.NAME, problem=wrong)
        return NotSupportedError(f"{self.name} has no such knob for this graph", [decline])

    def call(self, plan: Plan, buffers: Buffers) -> Callable[[], object]:
        """Return what is timed."""
        native: Callable[..., Callable[[], object]] | None = getattr(plan, "native", None)
        if native is not None and self.native:
            return native(buffers)
        return plan.bind(buffers, copy=not plan.target.is_cpu)


_NAMED: dict[str, Contestant] = {
    one.name: one
    for one in (
        Contestant(name="iree", engine="iree"),
        # The ops as they are, without the strategies that this project chooses, compiled with
        # IREE's own defaults.
        Contestant(
            name="iree-plain",
            engine="iree",
            settings={
                "compiler_strategies": "plain",
                "compiler_opt_level": "O0",
                "compiler_data_tiling": "off",
            },
        ),
        # What somebody gets who writes the graph in PyTorch.
        Contestant(name="torch", engine="torch", knobs={"batchnorm.form": "folded"}, native=True),
        Contestant(name="torch-engine", engine="torch"),
        Contestant(name="auto"),
    )
}


def contestant(text: str, settings: Settings) -> Contestant:
    """Return who takes part by a name: one of ours, ``policy:NAME``, or any engine's alias.

    Knobs may follow, such as ``iree+matmul.strategy=plain``, and ``sizes`` (`SIZES`).

    Raises
    ------
    SettingError
        For a name that is none of these, and for what is no knob with a choice.
    """
    name, *given = text.split("+")
    if given:
        base, knobs = contestant(name, settings), dict(_pair(text, one) for one in given)
        if base.engine is None:
            raise SettingError(f"{text!r}: {name} pins no engine, and has no knobs of its own")
        sizes = knobs.pop(_SIZES, "")
        if sizes and sizes not in SIZES:
            raise SettingError(f"{text!r}: {_SIZES} is {sizes!r}; wanted {' or '.join(SIZES)}")
        return replace(
            base, name=text, knobs={**base.knobs, **knobs}, required=tuple(knobs), sizes=sizes
        )
    if text in _NAMED:
        return _NAMED[text]
    kind, _, name = text.partition(":")
    if kind == "policy" and name:
        policy_names(name, settings)  # none is unknown
        return Contestant(name=text, policy=name)
    try:
        engine(text, settings)
    except SettingError as error:
        known = ", ".join(_NAMED)
        raise SettingError(f"{error}; or one of {known}, policy:NAME") from None
    return Contestant(name=text, engine=text)


def with_knobs(name: str, knobs: Mapping[str, str]) -> str:
    """Return the name of a contestant with other choices of knobs."""
    return "+".join([name, *(f"{knob}={choice}" for knob, choice in knobs.items())])


def _pair(text: str, given: str) -> tuple[str, str]:
    knob, sign, choice = given.partition("=")
    if not (knob and sign and choice):
        raise SettingError(f"{text!r}: wanted KNOB=CHOICE after each +, not {given!r}")
    return knob, choice
