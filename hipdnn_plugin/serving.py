"""From hipDNN's bytes to answers and programs: what of the plugin needs graphs and engines."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from ..graph_api.errors import FormatError, GraphError, NotSupportedError, Problem
from ..graph_api.formats.flatbuffer.wire_rules import is_damage
from ..graph_api.frozen import FrozenGraph
from ..jit import support
from ..jit.options import BuildOptions
from ..jit.settings import scope, settings
from ..jit.settings_table import with_values
from ..jit.strategies import choices
from ..jit.target import Target
from ..provider.engine_ids import engine_id
from ..provider.engines.iree.iree_engine import IreeEngine
from ..provider.plugin_abi import Status
from . import messages
from .abi import PluginError
from .program import ALIGNMENT, Program

__all__ = ["ENGINE_ID", "RULES", "build", "details", "own", "reasons", "workspace_guess"]

RULES: dict[str, str] = {
    "PRECOMPILED-01": "where compiling is not allowed, the code for the graph is in the cache",
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


def details(id: int, graph: bytes = b"", target: Target | None = None) -> bytes:
    """Return the description of the engine, an ``EngineDetails`` buffer.

    With a graph that is served for the target the knobs of its ops' strategies are in it.
    """
    strategies = None
    if graph and target is not None:
        frozen, why = _answer(graph, target)
        strategies = choices(frozen, target) if frozen is not None and not why else None
    return messages.details(own(id), vars(settings()), strategies)


def reasons(graph: bytes, target: Target) -> tuple[Problem, ...]:
    """Return why a graph is not served; nothing when it is.

    Raises
    ------
    FormatError
        If the buffer is damaged, which hipDNN's never is.
    """
    frozen, why = _answer(graph, target)
    now = settings()
    if frozen is None or why or not now.cache_require_precompiled:
        return why
    from ..jit.pipeline import cache_key, store

    options = BuildOptions.of(now)
    key = cache_key(frozen, target, options.code)
    if store(options.cache).get(key) is not None:
        return ()
    missing = Problem(
        rule="PRECOMPILED-01",
        got=f"no code {key.digest[:16]} for {target} in {now.cache_dir}",
        wanted="code for the graph, as HIPDNN_IREE_REQUIRE_PRECOMPILED is on",
        hint=f"hipdnn-iree compile GRAPH --target {target}",
    )
    return (missing,)


def workspace_guess(config: bytes, graph: bytes, target: Target) -> int:
    """Return the bytes of workspace of code that is cached, else those of all virtual tensors."""
    from ..jit.pipeline import cache_key, store

    chosen = messages.read_config(config)
    own(chosen.engine_id)
    frozen = _served(graph, target)
    with scope(**chosen.settings) as now:
        options = BuildOptions.of(now)
    entry = store(options.cache).get(cache_key(frozen, target, options.code))
    if entry is not None:
        wanted = int(entry.manifest["workspace_bytes"])
    else:
        sizes = [s.data_type.nbytes(prod(s.dims)) for s in frozen.tensors.values() if s.virtual]
        wanted = sum(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)
    return wanted + ALIGNMENT if wanted else 0


def build(config: bytes, graph: bytes, target: Target) -> Program:
    """Return the compiled graph, from the cache or by compiling.

    Raises
    ------
    FormatError, SettingError
        If a buffer is damaged, or a knob has a value that is not allowed.
    NotSupportedError
        If the graph is not served.
    PluginError
        If the plan needs more workspace than the configuration allows.
    CompileError
        If the compiler fails.
    """
    chosen = messages.read_config(config)
    own(chosen.engine_id)
    frozen = _served(graph, target)
    engine = IreeEngine(with_values(settings(), **chosen.settings))
    program = Program.of(engine.build(frozen, target), chosen.settings)
    if program.workspace_bytes > chosen.workspace_limit:
        raise PluginError(
            Status.NOT_APPLICABLE,
            f"the plan needs {program.workspace_bytes} bytes of workspace; "
            f"{messages.WORKSPACE_LIMIT} is {chosen.workspace_limit}",
        )
    return program


@lru_cache(maxsize=32)
def _answer(data: bytes, target: Target) -> tuple[FrozenGraph | None, tuple[Problem, ...]]:
    """Return a graph and why it is not served; hipDNN asks several times with the same bytes."""
    try:
        frozen = messages.graph(data)
    except FormatError as error:
        if is_damage(error.problems) or not error.problems:
            raise
        return None, error.problems
    except GraphError as error:
        return None, error.problems
    return frozen, tuple(support.problems(frozen, target))


def _served(data: bytes, target: Target) -> FrozenGraph:
    frozen, why = _answer(data, target)
    if frozen is None or why:
        raise NotSupportedError("\n  ".join(["the graph is not served", *map(str, why)]))
    return frozen
