# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From hipDNN's bytes to answers and plans: what of the plugin needs graphs and engines."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from ..graph_api.errors import FormatError, GraphError, NotSupportedError, Problem
from ..graph_api.formats.flatbuffer.wire_rules import is_damage
from ..graph_api.frozen import FrozenGraph
from ..jit import support
from ..jit.options import BuildOptions
from ..jit.settings_table import Settings
from ..jit.strategies import choices
from ..jit.target import Target
from ..provider.engine_ids import engine_id
from ..provider.engines.iree.iree_engine import IreeEngine
from ..provider.engines.iree.iree_plan import IreePlan
from ..provider.native.deployment import compiles
from ..provider.plugin_abi import Status
from . import messages
from .abi import PluginError
from .execution import ALIGNMENT, workspace_bytes

if TYPE_CHECKING:
    from ..provider.overrides import OverridePlans

__all__ = [
    "ENGINE_ID",
    "RULES",
    "build",
    "details",
    "overrides",
    "own",
    "reasons",
    "workspace_guess",
]

RULES: dict[str, str] = {
    "PRECOMPILED-01": "where nothing can be compiled, the code for the graph is in the cache",
}

ENGINE_ID = engine_id(IreeEngine.NAME)


def own(id: int) -> int:
    """Return the id of the engine; 0 stands for the default one.

    Raises
    ------
    PluginError
        If the engine is another one.
    """
    if id not in (ENGINE_ID, 0):
        raise PluginError(Status.INVALID_VALUE, f"engine {id} is not of this plugin")
    return ENGINE_ID


def details(id: int, settings: Settings, graph: bytes = b"", target: Target | None = None) -> bytes:
    """Return the description of the engine, an ``EngineDetails`` buffer.

    For a graph that is served for the target it includes the knobs of its ops' strategies.
    """
    strategies = None
    if graph and target is not None:
        frozen, why = _answer(graph, target)
        strategies = choices(frozen, target) if frozen is not None and not why else None
    return messages.details(own(id), vars(settings), strategies)


def reasons(graph: bytes, target: Target, settings: Settings) -> tuple[Problem, ...]:
    """Return why a graph is not served; nothing when it is.

    Raises
    ------
    FormatError
        If the buffer is damaged, which hipDNN's never is.
    """
    frozen, why = _answer(graph, target)
    if frozen is None or why or compiles(settings):
        return why
    from ..jit.pipeline import find

    found = find(frozen, target, BuildOptions.of(settings))
    if found.entry is not None:
        return ()
    forbidden = settings.cache_require_precompiled
    why_not = "HIPDNN_IREE_REQUIRE_PRECOMPILED is on" if forbidden else "the compiler is missing"
    missing = Problem(
        rule="PRECOMPILED-01",
        got=f"no code {found.job.key.digest[:16]} for {target} in {settings.cache_dir}",
        wanted=f"code for the graph, as {why_not}",
        hint=f"hipdnn-iree compile GRAPH --target {target}" + ("" if forbidden else ", elsewhere"),
    )
    return (missing,)


def workspace_guess(config: messages.Config, graph: bytes, target: Target) -> int:
    """Return the bytes of workspace of code that is cached, else those of all virtual tensors.

    Raises
    ------
    FormatError
        If the buffer is damaged.
    NotSupportedError
        If the graph is not served, for what `reasons` says.
    """
    from ..jit.pipeline import find

    own(config.engine_id)
    frozen = _served(graph, target)
    if why := reasons(graph, target, config.settings):
        raise _refusal(why)
    entry = find(frozen, target, BuildOptions.of(config.settings)).entry
    if entry is not None:
        return workspace_bytes(int(entry.manifest["workspace_bytes"]))
    sizes = [s.data_type.nbytes(prod(s.dims)) for s in frozen.tensors.values() if s.virtual]
    return workspace_bytes(sum(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes))


def build(config: messages.Config, graph: bytes, target: Target) -> IreePlan:
    """Return the plan of a graph; its code is from the cache, or compiled.

    Raises
    ------
    FormatError
        If the buffer is damaged.
    SettingError
        If a form that was chosen does not fit the graph.
    NotSupportedError
        If the graph is not served.
    PluginError
        If the plan needs more workspace than the configuration allows.
    CompileError
        If the compiler fails.
    """
    own(config.engine_id)
    frozen = _served(graph, target)
    told = config.settings.cache_require_precompiled  # by the error of the plan
    if not told and (why := reasons(graph, target, config.settings)):
        raise _refusal(why)
    plan = IreeEngine(config.settings).build(frozen, target)
    assert isinstance(plan, IreePlan), plan  # hipDNN's graphs have fixed sizes
    plan.knobs = dict(config.knobs)
    needed = workspace_bytes(plan.workspace_bytes)
    if needed > config.workspace_limit:
        raise PluginError(
            Status.NOT_APPLICABLE,
            f"the plan needs {needed} bytes of workspace; "
            f"{messages.WORKSPACE_LIMIT} is {config.workspace_limit}",
        )
    return plan


def overrides(plan: IreePlan) -> OverridePlans | None:
    """Return what serves other shapes of a plan's graph; None for one without override shapes.

    Raises
    ------
    NotSupportedError
        If no dim of the graph can have another size without compiling (OVERRIDE-01).
    """
    if not plan.graph.is_override_shape_enabled:
        return None
    from ..provider.overrides import OverridePlans

    found = OverridePlans.of(plan)
    found.must_serve()
    return found


def _answer(data: bytes, target: Target) -> tuple[FrozenGraph | None, tuple[Problem, ...]]:
    """Return a graph and why it is not served; hipDNN asks several times with the same bytes."""
    return (_small if len(data) < _SMALL else _large)(data, target)


def _look(data: bytes, target: Target) -> tuple[FrozenGraph | None, tuple[Problem, ...]]:
    try:
        frozen = messages.graph(data)
    except FormatError as error:
        if is_damage(error.problems) or not error.problems:
            raise
        return None, error.problems
    except GraphError as error:
        return None, error.problems
    return frozen, tuple(support.problems(frozen, target))


_SMALL = 64 << 10  # bytes of a graph, which takes some ten times as many when it is read
_small, _large = (lru_cache(maxsize=most)(_look) for most in (32, 2))


def _served(data: bytes, target: Target) -> FrozenGraph:
    frozen, why = _answer(data, target)
    if frozen is None or why:
        raise _refusal(why)
    return frozen


def _refusal(why: tuple[Problem, ...]) -> NotSupportedError:
    return NotSupportedError("\n  ".join(["the graph is not served", *map(str, why)]))
