"""From a source (a frozen graph, or a module) to compiled code: key, cache, stages.

A cache hit goes from the canonical form of a graph straight to the stored code; neither torch-mlir
nor the compiler is imported then.  `dump` writes every stage (`stages.STAGES`) into a folder, with
``statistics.json``, ``flags.txt`` and, per dispatch, the compiler's IR and assembly in
``dispatches/``.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..graph_api.arguments import shown
from ..graph_api.errors import ArtifactError, FormatError, NotPrecompiledError
from ..graph_api.frozen import FrozenGraph
from .cache import CacheKey, CacheStore, Entry, source_digest, versions
from .code_plan import CodePlan
from .mlir_source import MlirSource
from .options import BuildOptions, CacheOptions, CompileOptions
from .signature import ArgSpec, Signature
from .stages import STAGES, VMFB, Job, Source, Stage, flags, plan_of, run
from .target import Target, cpu_features
from .tuning import FLAG

if TYPE_CHECKING:
    from .compiler.request import CompileResult

__all__ = [
    "Compiled",
    "cache_key",
    "compile_source",
    "dump",
    "flags",
    "lowering_sources",
    "made_with",
    "signature_of",
    "store",
]

log = logging.getLogger("hipdnn_iree.pipeline")

_COUNT = (int, type(None))


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
    return CacheStore(root, max_bytes, enabled=enabled, problem_of=_problem_of)


def store(options: CacheOptions) -> CacheStore:
    """Return the cache that the options name."""
    return _store(options.dir, options.max_bytes, options.mode != "off")


def lowering_sources() -> Iterator[Path]:
    """Yield the modules that decide what IR a graph becomes; options and target are in the key."""
    here = Path(__file__).resolve().parent
    for folder in ("lowering", "emit", "ops", "workarounds", "../graph_api"):
        yield from (here / folder).rglob("*.py")
    yield from (here / f"{name}.py" for name in ("code_plan", "node_context", "strategies"))


@lru_cache(maxsize=1)
def _lowering_digest() -> str:
    return source_digest(lowering_sources())


def cache_key(
    source: Source, target: Target, options: CompileOptions, plan: CodePlan | None = None
) -> CacheKey:
    """Return the key of the code for a source: every ingredient by name, no names of the graph.

    ``plan`` is the graph's, where it is made already.
    """
    graph = isinstance(source, FrozenGraph)
    plan = plan or plan_of(source, target, options)
    return CacheKey(
        {
            "graph" if graph else "module": source.digest,
            "target": str(target),
            "cpu": cpu_features() if target.is_host else "",
            # Where the spec lies says nothing about the code.
            "flags": tuple(
                f for f in flags(source, target, options, plan) if not f.startswith(f"{FLAG}=")
            ),
            "plan": plan.text,
            **{f"knob:{name}": text for name, text in options.key_ingredients(target).items()},
            **(made_with() if graph else versions()),
        }
    )


def made_with() -> dict[str, str]:
    """Return what every piece of code is made with: versions, and a digest of the lowerings."""
    return {"lowering": _lowering_digest(), **versions()}


def signature_of(source: Source, workspace_bytes: int = 0) -> Signature:
    """Return the arguments of the function that a source is compiled to."""
    if isinstance(source, MlirSource):
        return replace(source.signature, workspace_bytes=workspace_bytes)
    args, graph = [], source
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


def compile_source(
    source: Source,
    target: Target,
    options: BuildOptions,
    *,
    stages: Mapping[str, Stage] = STAGES,
) -> Compiled:
    """Return the code for a source, from the cache or by compiling.

    Parameters
    ----------
    source : FrozenGraph or MlirSource
        Enters at the stage that it is.
    target : Target
    options : BuildOptions
    stages : mapping of str to Stage
        How a stage is made of the one before it; others than `STAGES` only in tests.

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
    plan = plan_of(source, target, options.code)
    key = cache_key(source, target, options.code, plan)
    job = Job(source, target, options, plan, key)

    def build() -> tuple[Mapping[str, bytes], Mapping[str, Any]]:
        run(job, stages)
        return _files(job, stages), _manifest(job)

    if options.cache.require_precompiled:
        entry, state = cache.get(key), "hit"
        if entry is None:
            raise _not_precompiled(source, target, key, cache)
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
        entry, hit = cache.get_or_build(key, build, options.workers.timeout_s)
        state = "hit" if hit else ("off" if cache.off else "miss")
    job.seconds["lookup"] = time.perf_counter() - begin - sum(job.seconds.values())
    return _compiled(job, entry.read(VMFB), entry.manifest, state)


def dump(
    source: Source,
    target: Target,
    folder: Path,
    options: BuildOptions,
    *,
    stages: Mapping[str, Stage] = STAGES,
) -> Compiled:
    """Compile without looking into the cache and write every stage into a folder.

    Raises
    ------
    CompileError
        If lowering or the compiler fails.
    OSError
        If the folder cannot be written.
    """
    plan = plan_of(source, target, options.code)
    key = cache_key(source, target, options.code, plan)
    job = Job(source, target, options, plan, key, folder)
    folder.mkdir(parents=True, exist_ok=True)
    run(job, stages)
    for name, made in job.made.items():
        try:
            (folder / stages[name].file).write_bytes(stages[name].write(made))
        except FormatError as error:  # an infinite scalar, which JSON cannot hold
            log.warning("%s is not written: %s", stages[name].file, error)
    manifest = _manifest(job)
    (folder / "flags.txt").write_text("\n".join(flags(source, target, options.code, plan)) + "\n")
    (folder / "statistics.json").write_text(json.dumps(manifest["statistics"], indent=2) + "\n")
    store(options.cache).put(key, _files(job, stages), manifest)
    return _compiled(job, job.made["vmfb"].vmfb, manifest, "miss")


def _not_precompiled(
    source: Source, target: Target, key: CacheKey, cache: CacheStore
) -> NotPrecompiledError:
    from .cache import explain_miss

    name = repr(source.name) if source.name else f"with digest {source.digest[:16]}"
    return NotPrecompiledError(
        f"graph {name} is not precompiled for {target}, and compiling is not allowed here "
        f"(require_precompiled)",
        graph=source.name,
        target=str(target),
        key=key.digest,
        cache=str(cache.root),
        nearest=str(explain_miss(cache, key)),
    )


def _compiled(job: Job, vmfb: bytes, manifest: Mapping[str, Any], state: str) -> Compiled:
    return Compiled(
        key=job.key,
        vmfb=vmfb,
        sha256=manifest["sha256"],
        signature=signature_of(job.source, manifest["workspace_bytes"] or 0),
        cache=state,
        seconds=job.seconds,
        statistics=manifest["statistics"],
        workspace_bytes=manifest["workspace_bytes"],
    )


def _files(job: Job, stages: Mapping[str, Stage]) -> dict[str, bytes]:
    """Return what is kept of the stages beside the manifest."""
    return {stages[n].file: stages[n].write(job.made[n]) for n in ("vmfb", "torch")}


def _manifest(job: Job) -> dict[str, Any]:
    """Return what is stored beside the code; a hit needs nothing else."""
    result: CompileResult = job.made["vmfb"]
    return {
        "sha256": sha256(result.vmfb).hexdigest(),
        "workspace_bytes": result.workspace_bytes,
        "statistics": _summary(result.statistics, result.workspace_bytes),
        "target": str(job.target),
        "compile_s": result.seconds,
    }


def _problem_of(entry: Entry) -> str:
    """Return why an entry is not what `_files` and `_manifest` made; empty when it is."""
    about = entry.manifest
    if VMFB not in entry.names or about.get("sha256") != sha256(entry.read(VMFB)).hexdigest():
        return "is not that of its code"
    workspace, counts = about.get("workspace_bytes", -1), about.get("statistics")
    if workspace is not None and not (type(workspace) is int and 0 <= workspace < 1 << 63):
        return f"states a workspace of {shown(workspace)} bytes"
    if not isinstance(counts, dict) or not all(type(n) in _COUNT for n in counts.values()):
        return f"states the statistics {shown(counts)}"
    return ""


def _summary(statistics: Mapping[str, Any] | None, workspace_bytes: int | None) -> dict[str, Any]:
    execution = (statistics or {}).get("stream-aggregate", {}).get("execution", {})
    return {
        "dispatches": execution.get("dispatch-count"),
        "fills": execution.get("fill-count"),
        "copies": execution.get("copy-count"),
        # With an external workspace IREE's own figure is 0; the workspace is what it takes.
        "transient_bytes": workspace_bytes,
    }
