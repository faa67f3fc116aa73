# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From a source (a frozen graph, or a module) to compiled code: key, cache, stages.

A cache hit goes from the canonical form of a graph straight to the stored code; neither torch-mlir
nor the compiler is imported then.  `dump` writes every stage (`stages.STAGES`) into a folder, with
``statistics.json``, ``flags.txt`` and, per dispatch, the compiler's IR and assembly in
``dispatches/``.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..graph_api.arguments import shown
from ..graph_api.errors import (
    ArtifactError,
    CompileError,
    FormatError,
    NotPrecompiledError,
    TriedAttempt,
)
from ..graph_api.frozen import FrozenGraph
from . import bindings
from .attempts import Attempt, Chain, attempts, retriable
from .cache import CacheKey, CacheStore, Entry, source_digest, versions
from .code_plan import CodePlan
from .mlir_source import MlirSource
from .options import BuildOptions, CacheOptions, CompileOptions
from .outcomes import Outcome, is_outcome, read, recall, remember
from .signature import ArgSpec, Signature
from .stages import STAGES, VMFB, Job, Source, Stage, flags, plan_of, run
from .target import Target, cpu_features
from .trace import span
from .tuning import FLAG

if TYPE_CHECKING:
    from .compiler.request import CompileResult

__all__ = [
    "Compiled",
    "Found",
    "attempts_as_dict",
    "cache_key",
    "compile_source",
    "dump",
    "find",
    "flags",
    "ir_digest",
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
    ir : str
        As of `ir_digest`; empty for code of a cache that did not keep it.
    attempt : str
        The way in which it was compiled (`attempts`); empty where the planned one worked.
    failed : tuple of TriedAttempt
        What was tried before, without success.
    """

    key: CacheKey
    vmfb: bytes = field(repr=False)
    sha256: str
    signature: Signature
    cache: str
    seconds: dict[str, float] = field(default_factory=dict)
    statistics: dict[str, Any] = field(default_factory=dict)
    workspace_bytes: int | None = 0
    ir: str = ""
    attempt: str = ""
    failed: tuple[TriedAttempt, ...] = ()


@lru_cache(maxsize=8)
def _store(root: Path, max_bytes: int, enabled: bool) -> CacheStore:
    return CacheStore(root, max_bytes, enabled=enabled, problem_of=_problem_of)


def store(options: CacheOptions) -> CacheStore:
    """Return the cache that the options name."""
    return _store(options.dir, options.max_bytes, options.mode != "off")


_MODULES = (
    "code_plan",
    "compiler/consume",
    "compiler/dispatch_checks",
    "compiler/dispatch_text",
    "compiler/loop_tiles",
    "cpu_machine",
    "lowering_config",
    "node_context",
    "strategies",
    "subgroup_sums",
)


def lowering_sources() -> Iterator[str]:
    """Yield the modules that decide what IR a graph becomes; options and target are in the key."""
    here = os.path.dirname(os.path.realpath(__file__))
    for folder in ("lowering", "emit", "ops", "workarounds", "../graph_api"):
        for at, _, names in os.walk(f"{here}/{folder}"):  # not as paths: that took twice the time
            yield from (f"{at}/{name}" for name in names if name.endswith(".py"))
    yield from (f"{here}/{name}.py" for name in _MODULES)


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


def ir_digest(source: Source, target: Target, options: CompileOptions) -> str:
    """Return a digest of all that decides the compiled code: IR, flags, tiles, compiler versions.

    Unlike a key it stays when sources of the lowering change and the IR does not.

    Raises
    ------
    CompileError
        If lowering fails.
    """
    plan = plan_of(source, target, options)
    if isinstance(source, MlirSource):
        return _ir_digest(source.text, flags(source, target, options, plan))
    text = bindings.lower_graph(source, target, plan)
    return _ir_digest(text, flags(source, target, options, plan))


def _ir_digest(text: str, made_by: Sequence[str]) -> str:
    from .compiler import loop_tiles  # not for code that is found in the cache

    tools = (f"{name} {value}" for name, value in sorted(versions().items()))
    between = (source_digest([loop_tiles.__file__]),) if loop_tiles.lanes_of(made_by) else ()
    return sha256("\n".join((text, *made_by, *between, *tools)).encode()).hexdigest()[:16]


def signature_of(source: Source, workspace_bytes: int = 0) -> Signature:
    """Return the arguments of the function that a source is compiled to."""
    if isinstance(source, MlirSource):
        return replace(source.signature, workspace_bytes=workspace_bytes)
    args = [ArgSpec.of(source.tensors[uid], output=True) for uid in source.outputs]
    args += [ArgSpec.of(source.tensors[uid]) for uid in source.arguments]
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
    begin = time.perf_counter()
    with span("look up"):
        found = find(source, target, options)
    allowed = not options.cache.require_precompiled
    if allowed and options.cache.mode == "verify":
        served = _verified(found, stages)
    elif found.entry is not None:
        served = _Served(found.job, found.entry, found.failed, "hit")
    elif allowed:
        served = _built(found.first, stages)
    else:
        raise _not_precompiled(found.job)
    job, entry = served.job, served.entry
    job.seconds["lookup"] = time.perf_counter() - begin - sum(job.seconds.values())
    return _compiled(job, entry.read(VMFB), entry.manifest, served.state, served.failed)


class Found(NamedTuple):
    """The way in which a source is compiled, as far as that is known.

    Attributes
    ----------
    first, job : Job
        Of the planned way, and of the one that is known to work: most often the same.
    entry : Entry or None
        Its code, if it is in the cache.
    outcome : Outcome or None
        What is remembered of attempts, where the planned way did not work.
    """

    first: Job
    job: Job
    entry: Entry | None
    outcome: Outcome | None = None

    @property
    def failed(self) -> tuple[TriedAttempt, ...]:
        """What was tried before, without success."""
        return self.outcome.failed if self.outcome else ()

    def as_dict(self) -> dict[str, Any]:
        """Return what is known of attempts, in JSON types."""
        return attempts_as_dict(self.job.attempt, self.failed)

    def lines(self) -> Iterator[str]:
        """Yield what is known of attempts, in words; nothing where the planned way works."""
        if self.outcome is not None:
            yield f"served with: {self.job.attempt or 'nothing: every attempt failed'}"
            yield from (f"failed before: {one}" for one in self.failed)


def attempts_as_dict(served: str, failed: Iterable[TriedAttempt]) -> dict[str, Any]:
    """Return by what attempt code is served, and what failed before, in JSON types."""
    return {"attempt": served or None, "failed": [one._asdict() for one in failed]}


class _Served(NamedTuple):
    """The job whose code serves, its entry, what failed before it, and the cache's part in it."""

    job: Job
    entry: Entry
    failed: tuple[TriedAttempt, ...]
    state: str


def find(source: Source, target: Target, options: BuildOptions) -> Found:
    """Return how a source is compiled and its code, if it is in the cache; nothing is compiled."""
    first = _job(source, target, options)
    entry = store(options.cache).get(first.key)
    return Found(first, first, entry) if entry is not None else _remembered(first)


def _remembered(first: Job) -> Found:
    """Return what is known of a source whose planned code is not in the cache."""
    options, cache = first.options, store(first.options.cache)
    known = recall(cache, first.key, options.workers) if options.workers.fallback else None
    if known is None:
        return Found(first, first, None)
    others = set[str]()
    for one in attempts(first.source, first.target, options.code, known.op):
        if one.name == known.attempt:
            job = _job(first.source, first.target, options, one)
            return Found(first, job, cache.peek(job.key), known)
        others.add(one.name)
    if known.attempt or not others.issubset(known.listed):
        return Found(first, first, None)  # of another list of attempts
    return Found(first, first, None, known)


def _job(
    source: Source, target: Target, options: BuildOptions, attempt: Attempt | None = None
) -> Job:
    if attempt is not None:
        options = replace(options, code=attempt.options)
    plan = plan_of(source, target, options.code)
    key = cache_key(source, target, options.code, plan)
    return Job(source, target, options, plan, key, attempt=attempt.name if attempt else "")


def _verified(found: Found, stages: Mapping[str, Stage]) -> _Served:
    """Compile, and compare with what is in the cache."""
    cache = store(found.first.options.cache)
    job, failed = _made(found, stages)
    files = _files(job, stages)
    if found.entry is None or job.key != found.job.key:
        return _Served(job, cache.put(job.key, files, _manifest(job)), failed, "miss")
    if changed := found.entry.changed_files(files):
        raise ArtifactError(
            f"cache entry {job.key.digest[:16]} in {cache.root} is not what compiling gives now: "
            f"{', '.join(changed)} differ; remove it with 'hipdnn-iree cache clear'"
        )
    return _Served(job, found.entry, failed, "verified")


class _OtherServes(Exception):  # noqa: N818 - how the code of another key leaves `get_or_build`
    def __init__(self, served: _Served) -> None:
        super().__init__()
        self.served = served


def _built(first: Job, stages: Mapping[str, Stage]) -> _Served:
    """Return what serves after this process, or another one at the same time, has compiled.

    The key of the planned way is locked all the time, so of all that ask for a source one goes
    through the attempts.
    """
    cache, job = store(first.options.cache), first

    def build() -> tuple[Mapping[str, bytes], Mapping[str, Any]]:
        nonlocal job
        found = _remembered(first)  # others may have found it out while this one waited
        if found.entry is not None:
            raise _OtherServes(_Served(found.job, found.entry, found.failed, "hit"))
        job, failed = _made(found, stages)
        if job.attempt:
            entry = cache.put(job.key, _files(job, stages), _manifest(job))
            raise _OtherServes(_Served(job, entry, failed, _state(cache)))
        return _files(job, stages), _manifest(job)

    try:
        entry, hit = cache.get_or_build(first.key, build, first.options.workers.timeout_s)
    except _OtherServes as other:
        return other.served
    return _Served(job, entry, (), "hit" if hit else _state(cache))


def _state(cache: CacheStore) -> str:
    return "off" if cache.off else "miss"


def _made(
    found: Found, stages: Mapping[str, Stage], folder: Path | None = None
) -> tuple[Job, tuple[TriedAttempt, ...]]:
    """Return a job whose stages are all made, and what failed before it; the outcome is kept.

    Raises
    ------
    CompileError
        If no attempt works, naming all of them, or the first fails for a reason of the host.
    """
    begin, first, options = time.perf_counter(), found.first, found.first.options
    cache, label = store(options.cache), first.source.name or "a graph"
    if found.outcome is not None:
        if not found.outcome.attempt:
            raise found.outcome.error(label)
        try:
            return _run(found.job, stages, folder), found.failed
        except CompileError as error:
            log.warning("%s: %s, which worked before, fails: %s", label, found.job.attempt, error)
    try:
        return _run(first, stages, folder), ()
    except CompileError as error:
        if not (options.workers.fallback and retriable(error)):
            raise
        chain = Chain(first.source, first.target, options, error)
    seen = {_code(first)}
    for attempt, limits in chain:
        job = _job(first.source, first.target, replace(options, workers=limits), attempt)
        if (code := _code(job)) in seen:  # another name for what failed
            continue
        seen.add(code)
        log.info("%s: trying %s", label, attempt.name)
        try:
            _run(job, stages, folder)
        except CompileError as error:
            if not retriable(error):
                raise
            chain.failed(attempt, error)
            continue
        log.warning(
            "%s does not compile as planned; it is served with: %s (%s)",
            *(label, attempt.name, chain.tried[0]),
        )
        remember(cache, first.key, chain.outcome(attempt))
        job.seconds["failed"] = time.perf_counter() - begin - sum(job.seconds.values())
        return job, tuple(chain.tried)
    remember(cache, first.key, chain.outcome(None))
    raise chain.error()


def _code(job: Job) -> tuple[str, ...]:
    """Return what tells the code of two jobs for a source apart."""
    return (job.plan.text, *flags(job.source, job.target, job.options.code, job.plan))


def _run(job: Job, stages: Mapping[str, Stage], folder: Path | None) -> Job:
    job.folder = folder
    run(job, stages)
    return job


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
    folder.mkdir(parents=True, exist_ok=True)
    job, failed = _made(find(source, target, options), stages, folder)
    key, plan = job.key, job.plan
    for name, made in job.made.items():
        try:
            (folder / stages[name].file).write_bytes(stages[name].write(made))
        except FormatError as error:  # an infinite scalar, which JSON cannot hold
            log.warning("%s is not written: %s", stages[name].file, error)
    manifest = _manifest(job)
    (folder / "flags.txt").write_text(
        "\n".join(flags(source, target, job.options.code, plan)) + "\n"
    )
    (folder / "statistics.json").write_text(json.dumps(manifest["statistics"], indent=2) + "\n")
    store(options.cache).put(key, _files(job, stages), manifest)
    return _compiled(job, job.made["vmfb"].vmfb, manifest, "miss", failed)


def _not_precompiled(job: Job) -> NotPrecompiledError:
    from .cache import explain_miss

    source, target, key, cache = job.source, job.target, job.key, store(job.options.cache)
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


def _compiled(
    job: Job,
    vmfb: bytes,
    manifest: Mapping[str, Any],
    state: str,
    failed: tuple[TriedAttempt, ...],
) -> Compiled:
    return Compiled(
        key=job.key,
        vmfb=vmfb,
        sha256=manifest["sha256"],
        signature=signature_of(job.source, manifest["workspace_bytes"] or 0),
        cache=state,
        seconds=job.seconds,
        statistics=manifest["statistics"],
        workspace_bytes=manifest["workspace_bytes"],
        ir=manifest.get("ir", ""),
        attempt=job.attempt,
        failed=failed if job.attempt else (),
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
        "ir": _ir_digest(
            job.made["torch"], flags(job.source, job.target, job.options.code, job.plan)
        ),
    }


def _problem_of(entry: Entry) -> str:
    """Return why an entry is not what `_files` and `_manifest` made, or an outcome; else empty."""
    about = entry.manifest
    if is_outcome(entry):
        return "" if read(about) else "is no outcome of attempts"
    if VMFB not in entry.names or about.get("sha256") != sha256(entry.read(VMFB)).hexdigest():
        return "is not that of its code"
    workspace, counts = about.get("workspace_bytes", -1), about.get("statistics")
    if workspace is not None and not (type(workspace) is int and 0 <= workspace < 1 << 63):
        return f"states a workspace of {shown(workspace)} bytes"
    if not isinstance(about.get("ir", ""), str):
        return f"states the IR {shown(about['ir'])}"
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
