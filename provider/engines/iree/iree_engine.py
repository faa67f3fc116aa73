# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The IREE engine: graphs compiled just in time, run by the IREE runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ....graph_api.errors import Decline
from ....graph_api.frozen import FrozenGraph
from ....graph_api.ops import OPS
from ....jit import support
from ....jit.options import BuildOptions, CompileOptions
from ....jit.pipeline import Compiled, compile_source, made_with
from ....jit.settings_table import ENGINE_KNOBS, Settings, with_values
from ....jit.strategies import choices, merged
from ....jit.target import Target
from ...engine import Engine, EngineKnob, checked_knobs
from ...plan import Plan
from .iree_dynamic_plan import DynamicIreePlan
from .iree_plan import IreePlan, driver_for

if TYPE_CHECKING:
    from ....jit.inspect.fused import Fused

__all__ = ["IreeEngine", "settings_with"]

_STRATEGY = ".strategy"


class IreeEngine(Engine):
    """Serves what ``jit.support`` does not decline."""

    NAME = "IREE_JIT_ENGINE"
    ALIAS = "iree"

    def ops(self) -> tuple[str, ...]:
        return tuple(OPS)

    def targets(self) -> tuple[str, ...]:
        return Target.known()

    def declines(self, graph: FrozenGraph, target: Target) -> list[Decline]:
        return [Decline(engine=self.NAME, problem=p) for p in support.problems(graph, target)]

    def versions(self) -> dict[str, str]:
        now = self.settings
        # The settings decide the defaults of the knobs, and more that times depend on.
        more = {"runtime.driver": now.runtime_driver, "runtime.threads": str(now.runtime_threads)}
        return {**made_with(), **CompileOptions.of(now).key_ingredients(), **more}

    def knobs(self, graph: FrozenGraph, target: Target) -> tuple[EngineKnob, ...]:
        now, found = self.settings, _strategy_knobs(graph, target, self.settings)
        for name, knob in ENGINE_KNOBS.items():
            choices, default = knob.choices, getattr(now, knob.field)
            tried: tuple[str, ...] = ()
            if name == "driver":  # "auto" is decided by the graph
                choices, default = target.drivers, driver_for(graph, target, now)
            if name == "opt_level":
                tried = (default,)
            elif not target.is_cpu:
                continue
            found.append(
                EngineKnob(name=name, choices=choices, default=default, help=knob.help, tried=tried)
            )
        return tuple(found)

    def dispatches(
        self, graph: FrozenGraph, target: Target, knobs: Mapping[str, str] | None = None
    ) -> tuple[Fused, ...]:
        from ....jit.inspect.fused import fused

        chosen = checked_knobs(self, graph, target, knobs)
        return fused(graph, target, BuildOptions.of(settings_with(self.settings, chosen)))

    def build(
        self, graph: FrozenGraph, target: Target, knobs: Mapping[str, str] | None = None
    ) -> Plan:
        chosen = checked_knobs(self, graph, target, knobs)
        settings = settings_with(self.settings, chosen)
        compiled = compile_source(graph, target, BuildOptions.of(settings))
        return self.plan(graph, target, chosen, compiled, settings)

    def plan(
        self,
        graph: FrozenGraph,
        target: Target,
        knobs: dict[str, str],
        compiled: Compiled,
        settings: Settings,
    ) -> Plan:
        """Return the plan for code that is there already: just compiled, or from an artifact.

        ``settings`` are those of `settings_with` for the knobs.
        """
        number = 0 if target.is_cpu else settings.runtime_device
        if graph.symbols:
            return DynamicIreePlan(
                maker=self,
                graph=graph,
                target=target,
                knobs=knobs,
                cache=compiled.cache,
                seconds=compiled.seconds,
                workspace_bytes=compiled.workspace_bytes or 0,
                statistics=compiled.statistics,
                compiled=compiled,
                device_id=number,
            )
        return IreePlan(
            maker=self,
            graph=graph,
            target=target,
            knobs=knobs,
            cache=compiled.cache,
            seconds=compiled.seconds,
            workspace_bytes=compiled.signature.workspace_bytes,
            statistics=compiled.statistics,
            compiled=compiled,
            driver=driver_for(graph, target, settings),
            threads=settings.runtime_threads,
            device_id=number,
        )


def settings_with(settings: Settings, knobs: Mapping[str, str]) -> Settings:
    """Return the settings with some choices of `IreeEngine.knobs` in their place."""
    overrides: dict[str, Any] = {
        ENGINE_KNOBS[name].field: choice for name, choice in knobs.items() if name in ENGINE_KNOBS
    }
    strategies = {
        name.removesuffix(_STRATEGY): choice
        for name, choice in knobs.items()
        if name.endswith(_STRATEGY)
    }
    if strategies:
        overrides["compiler_strategies"] = merged(settings.compiler_strategies, strategies)
    return with_values(settings, **overrides)


def _strategy_knobs(graph: FrozenGraph, target: Target, settings: Settings) -> list[EngineKnob]:
    """Return a knob for each op of the graph that has more than one strategy."""
    set_now = dict(text.partition("=")[::2] for text in settings.compiler_strategies)
    found = []
    for op, choice in choices(graph, target).items():
        default = set_now.get(op, set_now.get("all", ""))
        if default not in choice.names:
            default = choice.default
        found.append(
            EngineKnob(
                name=op + _STRATEGY,
                choices=choice.names,
                default=default,
                help=f"How the nodes of {op} are expressed in IR (docs/strategies.md).",
                tried=tuple(dict.fromkeys((default, *choice.tried))),
            )
        )
    return found
