# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The stages from a source to code, as a table: each can be given, dumped, or replaced in a test.

A graph enters at ``graph``, a module that somebody else wrote at ``torch``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..graph_api.dynamic import other_examples
from ..graph_api.errors import CompileError, SettingError
from ..graph_api.frozen import FrozenGraph
from . import bindings
from .cache import CacheKey
from .code_plan import CodePlan, plan_code
from .compiler.flags import target_flags
from .mlir_source import MlirSource
from .options import BuildOptions, CompileOptions
from .target import Target
from .trace import span
from .tuning import spec_for

if TYPE_CHECKING:
    from .compiler.client import Compiler
    from .compiler.request import CompileResult

__all__ = ["MLIR", "STAGES", "VMFB", "Job", "Source", "Stage", "flags", "plan_of", "run"]

log = logging.getLogger("hipdnn_iree.pipeline")

VMFB, MLIR = "module.vmfb", "module.torch.mlir"
"""Files that stand for code, and for the module that it is compiled from."""

Source = FrozenGraph | MlirSource
"""What code can be made of."""


@dataclass
class Job:
    """One way from a source to code, as far as it is made.

    Attributes
    ----------
    attempt : str
        What it differs in from the first job for the source; empty where it is that one.
    made : dict of str to object
        What each stage is, by its name in `STAGES`, from the source on.
    seconds : dict of str to float
        Wall time by the stage's verb.
    """

    source: Source
    target: Target
    options: BuildOptions
    plan: CodePlan
    key: CacheKey
    folder: Path | None = None
    attempt: str = ""
    made: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def compiler(self) -> Compiler:
        """Return the compiler whose workers all callers share."""
        from .compiler.client import default_compiler

        return default_compiler(self.options.workers)


@dataclass(frozen=True)
class Stage:
    """One form that a graph has on its way to code.

    Attributes
    ----------
    file : str
        What a dump calls it; the cache too, where it is kept.
    verb : str
        How the time of making it is told.
    make : callable
        What makes it of the stages before.
    write : callable
        Its bytes.
    """

    file: str
    verb: str
    make: Callable[[Job], Any]
    write: Callable[[Any], bytes]


def plan_of(source: Source, target: Target, options: CompileOptions) -> CodePlan:
    """Return what is decided about the code of a source: nothing, where it is a module."""
    if isinstance(source, MlirSource):
        return CodePlan((), (), ())
    return plan_code(source, target, options.strategies, options.copies)


def flags(
    source: Source, target: Target, options: CompileOptions, plan: CodePlan | None = None
) -> tuple[str, ...]:
    """Return the compiler flags for a source, whose ``plan`` may be made already."""
    plan = plan or plan_of(source, target, options)
    return target_flags(target, options, plan.flags)


def run(job: Job, stages: Mapping[str, Stage]) -> None:
    """Make every stage that comes after the source, in order.

    Raises
    ------
    CompileError
        If a stage cannot be made.
    """
    job.compiler().start()  # the worker loads IREE while this process loads torch-mlir
    names = list(stages)
    entry = "torch" if isinstance(job.source, MlirSource) else "graph"
    job.made[entry] = job.source.text if isinstance(job.source, MlirSource) else job.source
    if entry == "graph":
        job.made["plan"] = job.plan  # made before, as the key needs it
        entry = "plan"
    for name in names[names.index(entry) + 1 :]:
        begin = time.perf_counter()
        with span(stages[name].verb, attempt=job.attempt):
            job.made[name] = stages[name].make(job)
        job.seconds[stages[name].verb] = time.perf_counter() - begin


def _given(job: Job) -> Any:
    raise AssertionError(f"{job.source.name} is given, never made")


def _graph_file(graph: FrozenGraph) -> bytes:
    from ..graph_api.formats.json.json_form import dumps

    return f"{dumps(graph)}\n".encode()


def _torch(job: Job) -> str:
    graph: FrozenGraph = job.made["graph"]
    text = bindings.lower_graph(graph, job.target, job.plan, job.compiler())
    if graph.symbols:
        _must_not_depend(graph, job.target, job.options.code, text)
    return text


def _vmfb(job: Job) -> CompileResult:
    from .compiler.request import CompileRequest

    source, code = job.source, job.options.code
    graph = source if isinstance(source, FrozenGraph) else None
    log.info(
        "compiling %s for %s (key %s)", source.name or "a graph", job.target, job.key.digest[:16]
    )
    request = CompileRequest(
        source=job.made["torch"].encode(),
        flags=flags(source, job.target, code, job.plan),
        nodes={f"n{k}": node.label for k, node in enumerate(graph.nodes)} if graph else {},
        label=source.name or job.key.digest[:16],
        dump_dir=job.folder / "dispatches" if job.folder else None,
        want_statistics=True,
        dynamic=graph is not None and bool(graph.symbols),
    )
    try:
        return job.compiler().compile(request)
    except CompileError as error:
        _blame_spec(error, spec_for(job.target, code))
        raise


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
    for other in other_examples(graph):
        if bindings.lower_graph(other, target, plan_of(other, target, options)) != text:
            names = ", ".join(dim.name for dim in graph.symbols)
            raise CompileError(
                f"the code of graph {graph.name!r} depends on the sizes of its dynamic dims "
                f"({names}); build it for fixed sizes: plan.with_sizes, or buckets",
                stage="lower",
            )


STAGES: dict[str, Stage] = {
    "graph": Stage("graph.json", "", _given, _graph_file),
    "plan": Stage("plan.txt", "", _given, lambda plan: f"{plan.text}\n".encode()),
    "torch": Stage(MLIR, "lower", _torch, str.encode),
    "vmfb": Stage(VMFB, "compile", _vmfb, lambda result: bytes(result.vmfb)),
}
"""Every stage, each made of the one before it."""
