# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Who takes part: an engine with its knobs and settings, under a name for the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ...graph_api.errors import NotSupportedError, SettingError
from ...graph_api.frozen import FrozenGraph
from ...jit.settings_table import KNOBS, Settings, with_values
from ...jit.target import Target
from ..engine import Engine
from ..plan import Buffers, Plan
from ..registry import engine
from ..selection.select import build

__all__ = ["Contestant", "contestant"]


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
    strict : bool
        Whether a graph that lacks one of these choices is not served.
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
    strict: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    native: bool = False

    def under(self, settings: Settings, threads: int) -> Settings:
        """Return the settings of its builds and runs."""
        known = {knob.field for knob in KNOBS}
        mine = {name: value for name, value in self.settings.items() if name in known}
        return with_values(
            settings, **mine, **({"runtime_threads": str(threads)} if threads else {})
        )

    def build(self, graph: FrozenGraph, target: Target, settings: Settings) -> Plan:
        """Return the plan.

        Raises
        ------
        NotSupportedError
            Also if the contestant is strict, and the graph has no such choice.
        HipdnnIreeError
            As of `select.build`.
        """
        if self.engine is None:
            return build(graph, target, settings, policy=self.policy)
        knobs = self._knobs(engine(self.engine, settings), graph, target)
        return build(graph, target, settings, engine=self.engine, knobs=knobs)

    def _knobs(self, one: Engine, graph: FrozenGraph, target: Target) -> dict[str, str] | None:
        if not self.knobs:
            return None
        allowed = {knob.name: knob.choices for knob in one.knobs(graph, target)}
        found = {n: v for n, v in self.knobs.items() if v in allowed.get(n, ())}
        for name in self.knobs if self.strict else ():
            if name not in found:
                there = " | ".join(allowed.get(name, ())) or f"knobs are {', '.join(allowed)}"
                raise NotSupportedError(
                    f"{self.name}: the graph has no {name}={self.knobs[name]} for {target}; {there}"
                )
        return found or None

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
    """Return who takes part by a name.

    That is one of ours, ``policy:NAME``, any engine's alias, or ``ENGINE:KNOB=CHOICE`` for an
    engine with one choice of its own, such as ``iree:conv_fprop.strategy=direct``.

    Raises
    ------
    SettingError
        For a name that is none of these.
    """
    if text in _NAMED:
        return _NAMED[text]
    kind, _, name = text.partition(":")
    if kind == "policy" and name:
        return Contestant(name=text, policy=name)
    knob, _, choice = name.partition("=")
    chosen = {knob: choice} if knob and choice else {}
    alias = kind if chosen else text
    try:
        engine(alias, settings)
    except SettingError as error:
        known = ", ".join(_NAMED)
        raise SettingError(f"{error}; or one of {known}, policy:NAME, ENGINE:KNOB=CHOICE") from None
    return Contestant(name=text, engine=alias, knobs=chosen, strict=bool(chosen))
