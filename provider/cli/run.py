# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree run``: build a graph, run it here, and check the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from ...graph_api.buckets import in_words
from ...graph_api.errors import NotSupportedError
from ...jit.settings import settings
from ...jit.trace import span, traced
from .device_here import must_fit, must_have_device
from .exits import CHECK_FAILED
from .options import (
    COMPILING,
    RUNNING,
    Command,
    State,
    buckets_option,
    choice_options,
    emulate_option,
    engine_knob_option,
    engine_option,
    graph_argument,
    knob_options,
    must_need_no_graph,
    target_option,
    trace_option,
)
from .output import complain, count, emit, facts, number, say, table, talk, working

if TYPE_CHECKING:
    from ...graph_api.frozen import FrozenGraph
    from ...graph_api.specialise import ShapeLike
    from ...graph_api.tensor import TensorSpec
    from ...jit.mlir_source import MlirSource
    from ...jit.target import Target
    from ..artifacts.artifact import Artifact
    from ..graph import Graph
    from ..plan import Plan, TensorKey
    from ..verify import OutputReport, Report

JSON: dict[str, str] = {
    "graph": "`name`, `digest` (of what it computes) and number of `nodes`",
    "engine": "name of the engine that ran",
    "engine_id": "hipDNN's id of it, a signed 64-bit integer as text",
    "engine_requested": "what `--engine` said, or null",
    "policy": "who chose the engine and its knobs: `pinned`, `preferred`, or the name of a policy",
    "knobs": "how the engine built the graph, where that is not its default",
    "target": "canonical spelling of the target",
    "driver": "IREE runtime driver, or null for an engine without one",
    "emulated": "whether the GPU is emulated: results only, and no times of executions",
    "bucket": "sizes of dynamic dims that the code was made for, with `--buckets`; else null",
    "cache": "`hit`, `miss`, `off`, `verified` (compiled again and found equal), or `artifact`",
    "attempt": "by what its code was made where it does not compile as planned, or null",
    "verified": "true or false with `--verify`, else null",
    "max_abs_error": "largest error of all outputs with `--verify`, else null",
    "max_rel_error": "the same, relative to the value or to the output's root mean square",
    "compile_s": "seconds of the build, from the frozen graph to a plan (`build` of `stages`): "
    "where `cache` is `hit`, the code was only looked up, else it was compiled",
    "execute_s": "seconds of one execution, the median with `--repeat`; null if emulated",
    "execute": "`repeat`, `first_s`, `min_s`, `median_s`, `max_s`; null if emulated",
    "stages": "seconds by stage: `load_graph`, `build` (of it `lookup`, `lower`, `compile`, and "
    "`failed` of what was tried before), "
    "`inputs`, `load`, `bind`, `verify`",
    "workspace_bytes": "scratch memory of an execution",
    "dispatches": "kernels that an execution starts, or null",
    "fills": "buffer fills of an execution, or null",
    "copies": "buffer copies of an execution, or null",
    "outputs": "of each one `uid`, `name`, `data_type`, `dims`, `strides`, `layout`; with "
    "`--verify` also `ok`, `max_abs_error`, `max_rel_error`, `of_bound` (the largest error in "
    "units of what is allowed), `elements`, `wrong`, and the `worst` element's index with what "
    "was `got`, `expected` and `allowed`: the distance to the farthest number of the output's type "
    "that is right there. Narrow types have few numbers, so that a good result is often just "
    "that far off; `of_bound` says how near to wrong it was before it was rounded",
}


@click.command(cls=Command)
@graph_argument
@target_option(help="Machine to run on.")
@emulate_option
@engine_option
@choice_options
@engine_knob_option
@click.option(
    "--verify/--no-verify",
    default=False,
    help="Compare with the float64 reference; exit code 1 when a result is off.",
)
@click.option(
    "--inputs",
    metavar="X.npz",
    help="Arrays by tensor name or uid; without it, random ones that suit the graph.",
)
@click.option("--outputs", metavar="Y.npz", help="Where to write the results, by name or uid.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Of the random inputs; the same seed gives the same ones.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Execute N times and report the median.",
)
@click.option(
    "--shape",
    "shapes",
    metavar="NAME=N",
    multiple=True,
    help="Size of a dynamic dim (n=17), or other dims of an input or output (x=8x64); repeatable.",
)
@click.option(
    "--exact/--no-exact",
    default=False,
    help="Compile for the sizes of dynamic dims as given, not once for all sizes.",
)
@buckets_option("Round sizes of dynamic dims up")
@trace_option()
@knob_options(*COMPILING, "--require-precompiled", *RUNNING)
@click.pass_obj
def command(
    state: State,
    graph: str,
    target: Target,
    engine: str | None,
    prefer: tuple[str, ...],
    policy: str | None,
    chosen_knobs: dict[str, str],
    verify: bool,
    inputs: str | None,
    outputs: str | None,
    seed: int,
    repeat: int,
    shapes: tuple[str, ...],
    exact: bool,
    buckets: Any,
) -> None:
    """Build GRAPH, run it on this machine, and show the result.

    GRAPH is a file of hipDNN's graph JSON ("-": standard input).  The code comes from the cache
    or is compiled; which engine ran, and how long each stage took, is always said.  The code of an
    artifact is that in it: one without code for the target is an error, nothing is compiled.
    GRAPH may be an MLIR file too (Torch dialect, or linalg on tensors); its arrays are called arg0,
    arg1 ... and out0, out1 ...
    """
    from ...jit.mlir_source import MlirSource
    from .files import read_inputs, read_source, write_outputs

    wanted = _shapes(shapes)
    how = {"exact": exact, "buckets": buckets}
    who = {"prefer": prefer, "policy": policy, "knobs": chosen_knobs}
    clock = _Clock()
    found, artifact = clock("load_graph", lambda: read_source(graph))
    if isinstance(found, MlirSource):
        options = {"engine": engine, "prefer": prefer, "policy": policy, "knob": chosen_knobs}
        must_need_no_graph(graph, **options, **how, shape=shapes, verify=verify)
        plan = _build_module(found, target, clock)
    else:
        whole, artifact = clock("load_graph", lambda: _choose(found, artifact, engine, how))
        plan = _build(whole, target, engine, who, clock, wanted, artifact, how)
    frozen = plan.graph
    arrays = clock("inputs", lambda: _inputs(frozen, inputs, seed, read_inputs))
    results, times = _execute(plan, arrays, repeat, clock)
    _trace_dispatches(plan, arrays)
    report = None
    if verify:
        with working("computing the reference"):
            report = clock("verify", lambda: _compare(plan, arrays, results))
    if outputs is not None:
        talk(write_outputs(outputs, frozen, results))
    about = _about(plan, engine, report, times, clock.seconds)
    if isinstance(found, MlirSource):
        about["graph"]["digest"] = found.digest
    if state.json:
        emit(about)
    else:
        _print(plan, report, about)
    if report is not None and not report.ok:
        for output in report.outputs:
            if not output.ok:
                complain(f"verification failed: {output}")
        raise click.exceptions.Exit(CHECK_FAILED)


class _Clock:
    """Calls things and notes how long they took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, stage: str, work: Callable[[], Any]) -> Any:
        begin = time.perf_counter()
        with span(stage, "run"):
            result = work()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - begin
        return result


def _shapes(texts: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Return what ``--shape`` says: one number or several by name."""
    found = {}
    for text in texts:
        name, _, digits = text.rpartition("=")
        parts = digits.split("x")
        if not name or not all(part.isascii() and part.isdecimal() for part in parts):
            raise click.BadParameter(
                f"{text!r} is neither NAME=N nor NAME=NxN...", param_hint="--shape"
            )
        found[name] = tuple(int(part) for part in parts)
    return found


def _choose(
    graph: Graph, artifact: Artifact | None, engine: str | None, how: Mapping[str, Any]
) -> tuple[FrozenGraph, Artifact | None]:
    """Return the graph, and the artifact if its code is what shall run."""
    from ..registry import engine as named

    if artifact is None:
        return graph.freeze(), None
    pinned = None if engine is None else named(engine, settings()).NAME
    ours = pinned is None or any(plan.engine == pinned for plan in artifact.plans)
    return artifact.frozen, artifact if ours and not any(how.values()) else None


def _build(
    whole: FrozenGraph,
    target: Target,
    engine: str | None,
    who: Mapping[str, Any],
    clock: _Clock,
    shapes: Mapping[str, tuple[int, ...]],
    artifact: Artifact | None,
    how: Mapping[str, Any],
) -> Plan:
    from ..selection.select import build, choose

    ready = artifact.plan(target, engine=engine, knobs=who["knobs"] or None) if artifact else None
    if not any(how.values()) and ready is None:
        choose(
            whole, target, settings(), engine_name=engine, **who
        )  # declines come before all else
    must_have_device(target)
    must_fit(whole)

    def work() -> Plan:
        plan = ready or build(whole, target, settings(), engine=engine, **who, **how)
        sizes = {dim.name: dim.example for dim in whole.symbols}
        given = {name: dims[0] for name, dims in shapes.items() if name in sizes}
        others: dict[TensorKey, ShapeLike] = {
            int(name) if name.isdecimal() else name: dims
            for name, dims in shapes.items()
            if name not in sizes
        }
        if given or not others:  # dims of tensors say the sizes as well
            plan = plan.with_sizes(sizes | given)
        return plan.with_shapes(others)

    with working(f"building for {target}"):
        plan: Plan = clock("build", work)
    must_fit(plan.graph)
    return plan


def _build_module(source: MlirSource, target: Target, clock: _Clock) -> Plan:
    from ...jit.settings import settings
    from ..mlir_plan import build_module

    must_have_device(target)
    must_fit(source.frame)
    with working(f"building for {target}"):
        plan: Plan = clock("build", lambda: build_module(source, target, settings()))
    return plan


def _inputs(
    frozen: FrozenGraph, path: str | None, seed: int, read: Callable[..., Any]
) -> dict[int, Any]:
    if path is not None:
        return dict(read(path, frozen))
    from ..verify import random_inputs

    return random_inputs(frozen, seed)


def _execute(
    plan: Plan, arrays: dict[int, Any], repeat: int, clock: _Clock
) -> tuple[dict[int, Any], list[float]]:
    """Run into memory full of poison, so that elements that are never written show."""
    from ..verify import poisoned_outputs

    results = poisoned_outputs(plan.graph)
    buffers: dict[TensorKey, Any] = {u: a for part in (arrays, results) for u, a in part.items()}
    loaded = plan.seconds.get("load", 0.0)
    with working("running"):
        call = clock("bind", lambda: plan.bind(buffers, copy=not plan.target.is_cpu))
        times = []
        for _ in range(repeat):
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
    # Loading the code happens on first use and is told apart.
    clock.seconds["bind"] -= plan.seconds.get("load", 0.0) - loaded
    return results, times


def _trace_dispatches(plan: Plan, arrays: Mapping[int, Any]) -> None:
    """Add to a trace what IREE tells of dispatches, or why it does not."""
    for one in traced():
        try:
            plan.profile(arrays, runs=1)
        except NotSupportedError as error:
            one.notes["dispatches"] = error.message


def _compare(plan: Plan, arrays: Mapping[int, Any], results: Mapping[int, Any]) -> Report:
    from ..verify import compare, expect

    return compare(plan.graph, results, expect(plan.graph, arrays, plan.target))


def _about(
    plan: Plan,
    requested: str | None,
    report: Report | None,
    times: list[float],
    seconds: Mapping[str, float],
) -> dict[str, Any]:
    from ...jit.runtime.hip import emulated

    frozen = plan.graph
    unreal = not plan.target.is_cpu and bool(emulated())
    checked = {o.uid: o for o in report.outputs} if report else {}
    return {
        "graph": {"name": frozen.name, "digest": frozen.digest, "nodes": len(frozen.nodes)},
        "engine": plan.engine,
        "engine_id": str(plan.engine_id),
        "engine_requested": requested,
        "policy": plan.policy,
        "knobs": plan.knobs,
        "target": str(plan.target),
        "driver": getattr(plan, "driver", None),
        "emulated": unreal,
        "bucket": getattr(plan, "bucket", None),
        "cache": plan.cache,
        "attempt": plan.attempt or None,
        "verified": report.ok if report else None,
        "max_abs_error": report.max_abs_error if report else None,
        "max_rel_error": report.max_rel_error if report else None,
        "compile_s": seconds["build"],
        "execute_s": None if unreal else median(times),
        "execute": None
        if unreal
        else {
            "repeat": len(times),
            "first_s": times[0],
            "min_s": min(times),
            "median_s": median(times),
            "max_s": max(times),
        },
        "stages": {**seconds, **plan.seconds},
        "workspace_bytes": plan.workspace_bytes,
        "dispatches": plan.statistics.get("dispatches"),
        "fills": plan.statistics.get("fills"),
        "copies": plan.statistics.get("copies"),
        "outputs": [_output(frozen.tensors[u], checked.get(u)) for u in frozen.outputs],
    }


def _output(spec: TensorSpec, checked: OutputReport | None) -> dict[str, Any]:
    from dataclasses import asdict

    from ...graph_api.draw import layout_name

    return {
        "uid": spec.uid,
        "name": spec.name,
        "data_type": spec.data_type.json,
        "dims": list(spec.dims),
        "strides": list(spec.strides),
        "layout": layout_name(spec.dims, spec.strides),
        **({**asdict(checked), "name": spec.name} if checked else {}),
    }


def _print(plan: Plan, report: Report | None, about: dict[str, Any]) -> None:
    built = {stage: s for stage, s in plan.seconds.items() if stage != "load"}
    stages = ", ".join(f"{stage} {s:.3f}" for stage, s in built.items())
    times = about["execute"] or {}
    spread = f" (median of {n})" if (n := times.get("repeat", 1)) > 1 else ""
    took = f"{_duration(times['median_s'])}{spread}" if times else "emulated; there are no times"
    code = [
        count(about[many], one, many)
        for one, many in (("dispatch", "dispatches"), ("fill", "fills"), ("copy", "copies"))
        if about[many] is not None
    ]
    facts(
        [
            ("graph", f"{plan.graph.name or '(no name)'}  {about['graph']['digest'][:16]}"),
            ("engine", f"{plan.engine} on {plan.target}" + _in_words(about["driver"], ", {}")),
            ("cache", plan.cache + _in_words(in_words(about["bucket"] or {}), ", padded to {}")),
            *([("served with", plan.attempt)] if plan.attempt else []),
            ("build", f"{about['compile_s']:.3f} s" + _in_words(stages, " ({})")),
            ("load", f"{plan.seconds.get('load', 0.0):.3f} s"),
            ("execute", took),
            ("code", ", ".join([*code, f"{plan.workspace_bytes:,} bytes of workspace"])),
        ]
    )
    say()
    headers = ["output", "type", "dims", "layout"]
    if report:
        headers += ["max abs error", "max rel error", "result"]
    table(headers, [_row(output, checked=report is not None) for output in about["outputs"]])
    say()
    if report is None:
        say(_NOT_VERIFIED if plan.graph.nodes else "not verified: a module has no reference")
    else:
        right = "verified by emulation" if about["emulated"] else "verified"
        say(f"{right}: every element is within what rounding allows" if report.ok else "WRONG")


_NOT_VERIFIED = "not verified; --verify compares with the float64 reference"


def _in_words(value: str | None, form: str) -> str:
    return form.format(value) if value else ""


def _row(output: dict[str, Any], *, checked: bool) -> list[object]:
    dims = "x".join(map(str, output["dims"]))
    row: list[object] = [output["name"] or f"uid {output['uid']}", output["data_type"], dims]
    row.append(output["layout"])
    if checked:
        row += [number(output["max_abs_error"]), number(output["max_rel_error"])]
        row.append("ok" if output["ok"] else f"{output['wrong']} of {output['elements']} wrong")
    return row


def _duration(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3f} {unit}"
    return f"{seconds * 1e6:.1f} µs"
