"""From a frozen graph to compiled code: key, cache, lowering, compiler.

A cache hit goes from the graph's canonical form straight to the stored code; neither torch-mlir
nor the compiler is imported then.  Stages can be dumped (``dump``): ``graph.json``,
``module.torch.mlir``, ``module.vmfb``, ``statistics.json``, ``flags.txt`` and, per dispatch, the
compiler's IR and assembly in ``dispatches/``.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..graph_api.dynamic import other_examples
from ..graph_api.errors import ArtifactError, CompileError, NotPrecompiledError, SettingError
from ..graph_api.frozen import FrozenGraph
from .cache import CacheKey, CacheStore, source_digest, versions
from .compiler.flags import target_flags
from .graph_flags import graph_flags
from .lowering.conv_forms import FLAGS as CONV_FLAGS
from .lowering.conv_forms import conv_form
from .lowering.forms import choose, flags_of
from .options import BuildOptions, CacheOptions, CompileOptions
from .signature import ArgSpec, Signature
from .target import Target, cpu_features
from .tuning import FLAG, spec_for

if TYPE_CHECKING:
    from .compiler.request import CompileResult

__all__ = ["Compiled", "cache_key", "compile_graph", "dump", "made_with", "signature_of", "store"]

log = logging.getLogger("hipdnn_iree.pipeline")

VMFB, MLIR = "module.vmfb", "module.torch.mlir"


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """Code for one graph and target.

    Attributes
    ----------
    key : CacheKey
        What the code was made from, by name.
    vmfb : bytes
        IREE VM module.
    sha256 : str
        Hex digest of ``vmfb``.
    signature : Signature
        Arguments in order, for the graph at hand.
    cache : str
        ``"hit"``, ``"miss"``, ``"verified"`` (compiled again and equal) or ``"off"``.
    seconds : dict
        Wall time of the stages in seconds: ``lookup``, ``lower``, ``compile``.
    statistics : dict
        ``dispatches``, ``fills``, ``copies``, ``transient_bytes``.
    workspace_bytes : int or None
        As in the signature, or None when they depend on the sizes of dynamic dims.
    """

    key: CacheKey
    vmfb: bytes = field(repr=False)
    sha256: str
    signature: Signature
    cache: str
    seconds: dict[str, float] = field(default_factory=dict)
    statistics: dict[str, Any] = field(default_factory=dict)
    workspace_bytes: int | None = 0


@lru_cache(maxsize=8)
def _store(root: Path, max_bytes: int, enabled: bool) -> CacheStore:
    return CacheStore(root, max_bytes, enabled=enabled)


def store(options: CacheOptions) -> CacheStore:
    """Return the cache that the options name."""
    return _store(options.dir, options.max_bytes, options.mode != "off")


@lru_cache(maxsize=1)
def _lowering_digest() -> str:
    """Digest of every source that decides what IR a graph becomes."""
    here = Path(__file__).resolve().parent
    folders = (here / "lowering", here / "emit", here.parent / "graph_api")
    return source_digest(path for folder in folders for path in folder.rglob("*.py"))


def cache_key(graph: FrozenGraph, target: Target, options: CompileOptions) -> CacheKey:
    """Return the key of the code for a graph: every ingredient by name, no names of the graph."""
    return CacheKey(
        {
            "graph": graph.digest,
            "target": str(target),
            "cpu": cpu_features() if target.is_host else "",
            # Where the spec lies says nothing about the code.
            "flags": tuple(
                f for f in flags(graph, target, options) if not f.startswith(f"{FLAG}=")
            ),
            **{f"knob:{name}": text for name, text in options.key_ingredients(target).items()},
            **made_with(),
        }
    )


def made_with() -> dict[str, str]:
    """Return what every piece of code is made with: versions, and a digest of the lowerings."""
    return {"lowering": _lowering_digest(), **versions()}


def flags(graph: FrozenGraph, target: Target, options: CompileOptions) -> tuple[str, ...]:
    """Return the compiler flags for a graph."""
    forms = choose(graph, target, options.forms)
    extra = (
        *graph_flags(graph, target, forms),
        *CONV_FLAGS[conv_form(graph, target)],
        *flags_of(graph, forms),
    )
    return target_flags(target, options, extra)


def signature_of(graph: FrozenGraph, workspace_bytes: int = 0) -> Signature:
    """Return the arguments of the function that a graph is compiled to."""
    args = []
    for uid, output in [(u, True) for u in graph.outputs] + [(u, False) for u in graph.inputs]:
        spec = graph.tensors[uid]
        layout = spec.layout
        args.append(
            ArgSpec(
                output=output,
                data_type=spec.data_type,
                dims=spec.dims,
                strides=spec.strides,
                shape=(layout.span,) if layout.padded else layout.shape,
                scalar=spec.runtime_scalar,
            )
        )
    return Signature(args=tuple(args), workspace_bytes=workspace_bytes)


def compile_graph(graph: FrozenGraph, target: Target, options: BuildOptions) -> Compiled:
    """Return the code for a graph, from the cache or by compiling.

    Raises
    ------
    NotPrecompiledError
        If there is no code at hand and ``require_precompiled`` holds.
    CompileError
        If lowering or the compiler fails; nothing is stored then.
    ArtifactError
        In mode ``verify``, if compiling again gives other bytes than those stored.
    """
    cache = store(options.cache)
    begin = time.perf_counter()
    key = cache_key(graph, target, options.code)
    seconds: dict[str, float] = {}

    def build() -> tuple[Mapping[str, bytes], Mapping[str, Any]]:
        text, result = _compile(graph, target, key, options, seconds)
        return {VMFB: result.vmfb, MLIR: text.encode()}, _manifest(result, target)

    if options.cache.require_precompiled:
        entry, state = cache.get(key), "hit"
        if entry is None:
            raise _not_precompiled(graph, target, key, cache)
    elif options.cache.mode == "verify":
        entry, state = cache.get(key), "verified"
        files, manifest = build()
        if entry is None:
            entry, state = cache.put(key, files, manifest), "miss"
        elif changed := entry.changed_files(files):
            raise ArtifactError(
                f"cache entry {key.digest[:16]} in {cache.root} is not what compiling gives now: "
                f"{', '.join(changed)} differ; remove it with 'hipdnn-iree cache clear'"
            )
    else:
        entry, hit = cache.get_or_build(key, build)
        state = "hit" if hit else ("off" if cache.off else "miss")
    seconds["lookup"] = time.perf_counter() - begin - sum(seconds.values())
    return _compiled(graph, key, entry.read(VMFB), entry.manifest, state, seconds)


def _not_precompiled(
    graph: FrozenGraph, target: Target, key: CacheKey, cache: CacheStore
) -> NotPrecompiledError:
    from .cache import explain_miss

    name = repr(graph.name) if graph.name else f"with digest {graph.digest[:16]}"
    return NotPrecompiledError(
        f"graph {name} is not precompiled for {target}, and compiling is not allowed here "
        f"(require_precompiled)",
        graph=graph.name,
        target=str(target),
        key=key.digest,
        cache=str(cache.root),
        nearest=str(explain_miss(cache, key)),
    )


def _compiled(
    graph: FrozenGraph,
    key: CacheKey,
    vmfb: bytes,
    manifest: Mapping[str, Any],
    state: str,
    seconds: dict[str, float],
) -> Compiled:
    return Compiled(
        key=key,
        vmfb=vmfb,
        sha256=manifest["sha256"],
        signature=signature_of(graph, manifest["workspace_bytes"] or 0),
        cache=state,
        seconds=seconds,
        statistics=manifest["statistics"],
        workspace_bytes=manifest["workspace_bytes"],
    )


def _manifest(result: CompileResult, target: Target) -> dict[str, Any]:
    """Return what is stored beside the code; a hit needs nothing else."""
    return {
        "sha256": sha256(result.vmfb).hexdigest(),
        "workspace_bytes": result.workspace_bytes,
        "statistics": _summary(result.statistics, result.workspace_bytes),
        "target": str(target),
        "compile_s": result.seconds,
    }


def _compile(
    graph: FrozenGraph,
    target: Target,
    key: CacheKey,
    options: BuildOptions,
    seconds: dict[str, float],
    dump_dir: Path | None = None,
) -> tuple[str, CompileResult]:
    from .compiler.client import default_compiler
    from .compiler.request import CompileRequest

    compiler = default_compiler(options.workers)
    compiler.start()  # the worker loads IREE while this process loads torch-mlir
    begin = time.perf_counter()
    from .lowering.module import lower_graph

    text = lower_graph(graph, target, options.code.forms, compiler)
    if graph.symbols:
        _must_not_depend(graph, target, options.code, text)
    seconds["lower"] = time.perf_counter() - begin
    log.info("compiling %s for %s (key %s)", graph.name or "a graph", target, key.digest[:16])
    begin = time.perf_counter()
    request = CompileRequest(
        source=text.encode(),
        flags=flags(graph, target, options.code),
        nodes={f"n{k}": node.label for k, node in enumerate(graph.nodes)},
        label=graph.name or key.digest[:16],
        dump_dir=dump_dir,
        want_statistics=True,
        dynamic=bool(graph.symbols),
    )
    try:
        result = compiler.compile(request)
    except CompileError as error:
        _blame_spec(error, spec_for(target, options.code))
        raise
    seconds["compile"] = time.perf_counter() - begin
    return text, result


def _blame_spec(error: CompileError, spec: Path | None) -> None:
    """Raise `SettingError` where the compiler complains about the tuning spec, not the graph."""
    about = [text for text in error.diagnostics if spec is not None and str(spec) in text]
    if about:
        raise SettingError(
            f"tuning spec {str(spec)!r} is not one that the compiler takes: {about[0]}; "
            "docs/tuning.md has an example"
        ) from error


def _must_not_depend(
    graph: FrozenGraph, target: Target, options: CompileOptions, text: str
) -> None:
    """Raise `CompileError` unless the module is the same text for other examples.

    No number that was made from an example can be in it then, whatever a lowering calculates.
    """
    from .lowering.module import lower_graph

    for other in other_examples(graph):
        if lower_graph(other, target, options.forms) != text:
            names = ", ".join(dim.name for dim in graph.symbols)
            raise CompileError(
                f"the code of graph {graph.name!r} depends on the sizes of its dynamic dims "
                f"({names}); build it for fixed sizes: plan.with_sizes, or buckets",
                stage="lower",
            )


def _summary(statistics: Mapping[str, Any] | None, workspace_bytes: int | None) -> dict[str, Any]:
    execution = (statistics or {}).get("stream-aggregate", {}).get("execution", {})
    return {
        "dispatches": execution.get("dispatch-count"),
        "fills": execution.get("fill-count"),
        "copies": execution.get("copy-count"),
        # With an external workspace IREE's own figure is 0; the workspace is what it takes.
        "transient_bytes": workspace_bytes,
    }


def dump(graph: FrozenGraph, target: Target, folder: Path, options: BuildOptions) -> Compiled:
    """Compile without looking into the cache and write every stage into a folder.

    Raises
    ------
    CompileError
        If lowering or the compiler fails.
    OSError
        If the folder cannot be written.
    """
    from ..graph_api.errors import FormatError
    from ..graph_api.formats.json.json_form import dumps

    key = cache_key(graph, target, options.code)
    folder.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, float] = {}
    text, result = _compile(graph, target, key, options, seconds, folder / "dispatches")
    manifest = _manifest(result, target)
    files = {VMFB: result.vmfb, MLIR: text.encode()}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "flags.txt").write_text("\n".join(flags(graph, target, options.code)) + "\n")
    (folder / "statistics.json").write_text(json.dumps(manifest["statistics"], indent=2) + "\n")
    try:
        (folder / "graph.json").write_text(dumps(graph) + "\n", encoding="utf-8")
    except FormatError as error:  # an infinite scalar, which JSON cannot hold
        log.warning("graph.json is not written: %s", error)
    store(options.cache).put(key, files, manifest)
    return _compiled(graph, key, result.vmfb, manifest, "miss", seconds)
