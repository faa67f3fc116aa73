# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random graphs put through everything that must not change a result."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from hipdnn_iree.graph_api.dynamic import at_sizes
from hipdnn_iree.graph_api.errors import FormatError, GraphError, NotSupportedError
from hipdnn_iree.graph_api.formats.json.json_form import dumps
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.jit import support
from hipdnn_iree.jit.inspect.isa import read_kernels
from hipdnn_iree.jit.options import BuildOptions
from hipdnn_iree.jit.pipeline import dump
from hipdnn_iree.jit.settings import scope, settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.plan import Plan
from hipdnn_iree.provider.registry import engine
from hipdnn_iree.provider.selection.select import build
from hipdnn_iree.provider.sweep.fuzz.forms import other_forms
from hipdnn_iree.provider.sweep.gaps import red_zones
from hipdnn_iree.provider.verify import Report, compare, expect, poisoned_outputs, random_inputs

from tools.survey.emulation import Emulator, emulated_report, without_result
from tools.survey.errors import brief

__all__ = ["GOOD", "Check", "check_formats", "check_on_cpu", "check_on_gfx9"]

GOOD = ("ok", "declined", "compiled")


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What one way of compiling or writing a graph gave.

    Attributes
    ----------
    what : str
        ``json``, ``wire``, ``build``, a knob with its choice, ``exact``...
    status : str
        ``ok``, ``compiled`` (not run), ``declined`` (by rules), ``wrong``, ``differs`` (another
        digest), ``compile-error``, ``accused`` or ``cannot-emulate`` (emulation) or ``error``.
    note : str
        Rules, or what is wrong.
    seconds : float
        Wall time.
    unbounded : float
        Share of the elements about which the reference could say nothing.
    spills : int
        Registers of gfx9 kernels that did not fit.
    attempt : str
        The way in which it compiled, where the planned one did not.
    stages : dict of str to float
        Seconds of the stages of the build.
    """

    what: str
    status: str
    note: str = ""
    seconds: float = 0.0
    unbounded: float = 0.0
    spills: int = 0
    attempt: str = ""
    stages: dict[str, float] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return self.status in GOOD

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self)


def _checked(what: str, work: Callable[[], Check]) -> Check:
    """Return what the work found, with the time it took; an error is a finding as well."""
    begin = time.perf_counter()
    try:
        found = work()
    except NotSupportedError as error:
        rules = sorted({d.problem.rule for d in error.declines})
        found = Check(what=what, status="declined", note=", ".join(rules))
    except Exception as error:  # everything is reported; the next graph is tried
        status = "compile-error" if type(error).__name__ == "CompileError" else "error"
        found = Check(what=what, status=status, note=brief(error))
    return replace(found, seconds=round(time.perf_counter() - begin, 2))


def _verdict(what: str, report: Report) -> Check:
    elements = sum(o.elements for o in report.outputs)
    vague = sum(o.unbounded for o in report.outputs) / elements
    wrong = "; ".join(str(o) for o in report.outputs if not o.ok)
    return Check(what=what, status="wrong" if wrong else "ok", note=wrong, unbounded=vague)


# ---------------------------------------------------------------------------- formats of a graph


def check_formats(graph: FrozenGraph, seed: int) -> Iterator[Check]:
    """Yield whether a graph is the same after it was written and read, and when it is renamed."""
    for form, wrong in other_forms(graph, seed):
        yield Check(what=form, status="differs" if wrong else "ok", note=wrong)


# ---------------------------------------------------------------------------- the CPU


def run_and_compare(plan: Plan, graph: FrozenGraph, seed: int) -> Report:
    """Run a plan on random inputs and poisoned outputs, and compare with the reference.

    Raises
    ------
    AssertionError
        If memory between the elements of an output, before or behind it has changed.
    """
    inputs = random_inputs(graph, seed)
    outputs = poisoned_outputs(graph)
    zones = red_zones(graph, seed)
    outputs |= {uid: zone.array for uid, zone in zones.items()}
    buffers: dict[Any, Any] = {**inputs, **outputs}
    plan.execute(buffers)
    for uid, zone in zones.items():
        outputs[uid] = zone.result
        at = list(zone.touched())
        assert not at, f"{graph.tensors[uid].label}: {len(at)} bytes around it, from {at[0]}"
    return compare(graph, outputs, expect(graph, inputs, plan.target))


def check_on_cpu(graph: FrozenGraph, seed: int, *, variants: int = 2) -> Iterator[Check]:
    """Yield what the CPU makes of a graph: as it is, and in some of the other ways to build it.

    Parameters
    ----------
    graph : FrozenGraph
    seed : int
        Of the data and of what is tried.
    variants : int
        How many other ways.
    """
    target = Target.parse("cpu")

    def one(what: str, at: FrozenGraph, make: Callable[[], Plan]) -> Check:
        def work() -> Check:
            plan = make()
            found = _verdict(what, run_and_compare(plan, at, seed))
            return replace(found, attempt=plan.attempt, stages=dict(plan.seconds))

        return _checked(what, work)

    yield one("build", graph, lambda: build(graph, target, settings(), engine="iree"))
    rng = Random(f"variants {seed}")
    ways = list(_ways(graph, target, rng))
    for what, at, make in rng.sample(ways, min(variants, len(ways))):
        yield one(what, at, make)


Way = tuple[str, FrozenGraph, Callable[[], Plan]]


def _ways(graph: FrozenGraph, target: Target, rng: Random) -> Iterator[Way]:
    """Yield other ways to build a graph: knobs, the split engine, PyTorch, dynamic dims."""
    ours = engine("iree", settings())
    for knob in ours.knobs(graph, target):
        others = [c for c in knob.choices if c != knob.default]
        for choice in (
            others if knob.name.endswith(".strategy") else rng.sample(others, bool(others))
        ):
            knobs = {knob.name: choice}
            what = f"{knob.name}={choice}"
            yield what, graph, partial(build, graph, target, settings(), engine="iree", knobs=knobs)
    for name in ("split", "torch"):
        found = engine(name, settings())
        if found.declines(graph, target):
            continue
        yield name, graph, partial(build, graph, target, settings(), engine=name)
        for knob in found.knobs(graph, target):
            for choice in knob.choices:
                if choice != knob.default:
                    knobs = {knob.name: choice}
                    what = f"{name} {knob.name}={choice}"
                    yield (
                        what,
                        graph,
                        partial(build, graph, target, settings(), engine=name, knobs=knobs),
                    )
    yield from _dynamic(graph, target, rng)


def _dynamic(graph: FrozenGraph, target: Target, rng: Random) -> Iterator[Way]:
    """Yield the graph with one extent made dynamic, run at another size than it has."""
    extents = {d for u in graph.inputs for d in graph.tensors[u].dims if d > 1}
    for extent in rng.sample(sorted(extents), min(2, len(extents))):
        data = json.loads(dumps(graph))
        data["dynamic_dims"] = {"n": {"range": [1, 64], "example": extent}}
        for tensor in data["tensors"]:
            if tensor["uid"] in graph.inputs:
                marks = {str(i): "n" for i, d in enumerate(tensor["dims"]) if d == extent}
                if marks:
                    tensor["dynamic_dims"] = marks
            # What follows from other dims is inferred.
        try:
            whole = Graph.from_json(json.dumps(data)).freeze()
            size = rng.choice([s for s in (1, 2, 3, 5, 8, 17, 33) if s != extent])
            at = at_sizes(whole, {"n": size})
        except (GraphError, FormatError):
            continue  # an extent that ops rely on
        for how, words in (({}, "dynamic"), ({"exact": True}, "exact"),
                           ({"buckets": "powers"}, "buckets")):  # fmt: skip
            what = f"{words} {extent} at {size}"

            def make(
                how: Mapping[str, Any] = how, whole: FrozenGraph = whole, size: int = size
            ) -> Plan:
                return build(whole, target, settings(), engine="iree", **how).with_sizes(
                    {"n": size}
                )

            yield what, at, make


# ---------------------------------------------------------------------------- gfx9


def check_on_gfx9(
    graph: FrozenGraph,
    target: Target,
    seed: int,
    *,
    run: Emulator | None = None,
    compile_timeout_s: float = 60,
    timeout_s: float = 60,
    keep: Path | None = None,
) -> Check:
    """Return what compiling for gfx9 gives and, with an emulator, the numbers."""
    what = str(target)

    def work() -> Check:
        problems = list(support.problems(graph, target))
        if problems:
            note = ", ".join(sorted({p.rule for p in problems}))
            return Check(what=what, status="declined", note=note)
        with TemporaryDirectory(prefix="hipdnn-iree-fuzz-") as scratch:
            folder = keep or Path(scratch)
            with scope(compiler_timeout_s=compile_timeout_s, cache_mode="off"):
                compiled = dump(graph, target, folder, BuildOptions.of(settings()))
            kernels = read_kernels(folder / "dispatches")
            spills = sum(k.vgpr_spills + k.sgpr_spills for k in kernels)
            if run is None:
                return Check(what=what, status="compiled", spills=spills)
            try:
                report = emulated_report(graph, target, compiled, folder, run, timeout_s, seed)
            except AssertionError:
                raise
            except Exception as error:  # the emulator knows not all instructions
                status, note = without_result(error)
                return Check(what=what, status=status, note=note, spills=spills)
            return replace(_verdict(what, report), spills=spills)

    return _checked(what, work)
