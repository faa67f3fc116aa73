# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The passes of the offload pipeline, by name, on a module that is text.

What touches MLIR runs in a worker process (`passes.steps`), so that a crash of MLIR is an
explained error; what is decided, which ops are claimed and which engine serves a region, is
decided here, on the worker's description of the module.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ...graph_api.errors import (
    CompileError,
    Decline,
    FormatError,
    GraphError,
    HipdnnIreeError,
    NotSupportedError,
    Problem,
)
from ...graph_api.frozen import FrozenGraph
from ...graph_api.graph import Graph
from ...jit.compiler.client import Compiler, default_compiler
from ...jit.options import WorkerOptions
from ...jit.settings_table import Settings
from ...jit.target import Target
from ..engines.iree.iree_engine import IreeEngine
from ..plan import Plan
from ..selection.candidate import Candidate
from ..selection.policies import unmeasured
from ..selection.select import build, choose
from .executor import Executor
from .finished import Executable, Program, planned, read_program
from .partition import leftovers, partition
from .program import Function, Ref, Remark
from .region import BuiltRegion, CannotBuild, build_region

log = logging.getLogger("hipdnn_iree.offload")

__all__ = ["PASSES", "PIPELINE", "RULES", "Module", "Options"]

RULES: dict[str, str] = {
    "OFFLOAD-01": "all ops of a source node are in one region, where whole nodes are wanted",
    "OFFLOAD-02": "an engine serves the graph of the region",
    "OFFLOAD-03": "a region has at least min_ops ops",
    "OFFLOAD-04": "the plan of a region can be built",
    "OFFLOAD-05": "a function has a body of one block",
    "OFFLOAD-06": "what is not offloaded is a function that IREE compiles",
    "OFFLOAD-07": "the file is MLIR of the torch dialect, or of a stage of the pipeline",
    "OFFLOAD-08": "inputs have the dims and types of the function's arguments",
    "OFFLOAD-09": "extents with one name have one size in a call",
}

_TASK = f"{__package__}.passes.steps"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the passes go by.

    Attributes
    ----------
    target : Target
    settings : Settings
    whole_nodes : bool
        Whether ops of the same location are claimed together or not at all.
    min_ops : int
        Regions with fewer ops stay as they are.
    engine, policy : str, optional
        As of ``Graph.build``.
    compiles : bool
        Whether plans are made by the passes; otherwise when they are asked for.
    holds_weights : bool
        Whether graphs for a CPU have the module's weights as constants.
    """

    target: Target
    settings: Settings
    whole_nodes: bool = False
    min_ops: int = 1
    engine: str | None = None
    policy: str | None = None
    compiles: bool = True
    holds_weights: bool = True

    def build(self, graph: FrozenGraph, engine: str | None = None, **more: Any) -> Plan:
        """Return a plan by engine selection; ``more`` as of ``Graph.build``."""
        engine = engine or self.engine
        return build(graph, self.target, self.settings, engine=engine, policy=self.policy, **more)

    def choose(self, graph: FrozenGraph) -> Candidate:
        """Return the engine that `build` takes; raises as ``selection.select.choose``."""
        return choose(
            graph, self.target, self.settings, engine_name=self.engine, policy=self.policy
        )


class Module:
    """A module on its way through the pipeline.

    Parameters
    ----------
    source : bytes
    options : Options
    name : str
        What messages call it.
    weights : collection of int
        The arguments of its function, by number, that are the same at each call.

    Attributes
    ----------
    options : Options
    remarks : list of Remark
        Why ops are in no region, of all passes so far.
    graphs : dict of str to Executable
        What the module executes by name.
    finalized : dict
        What `passes.finalize` tells.
    """

    def __init__(
        self,
        source: bytes,
        options: Options,
        *,
        name: str = "the module",
        weights: Collection[int] = (),
    ) -> None:
        self.options, self.name, self._weights = options, name, frozenset(weights)
        self.remarks: list[Remark] = []
        self.graphs: dict[str, Executable] = {}
        self.finalized: dict[str, Any] = {}
        self._text = source
        self._queued: list[tuple[str, dict[str, Any]]] = []
        self._count = 0
        self._described: dict[str, Any] | None = None
        self.compiler: Compiler = default_compiler(WorkerOptions.of(options.settings))

    @property
    def text(self) -> bytes:
        """The module as MLIR text, with locations."""
        self._flush()
        return self._text

    def then(self, step: str, **options: Any) -> None:
        """Add one of the worker's steps; it is done with those that follow."""
        self._queued.append((step, options))

    def ask(self, step: str, **options: Any) -> Any:
        """Do a step, and those before it, and return what it found."""
        self.then(step, **options)
        return self._flush()[-1]

    def shown(self, *, local_scope: bool = False, elements: int | None = None) -> str:
        """Return the module as people read it."""
        return str(self.ask("show", local=local_scope, elements=elements))

    def run(self, *names: str) -> Module:
        """Run passes by name, in order."""
        for name in names:
            PASSES[name](self)
        return self

    def executor(
        self,
        function: str | None = None,
        *,
        device_id: int = 0,
        weights: Sequence[int] = (),
        kept: object = None,
    ) -> Executor:
        """Return what runs a function of the finished module, on a GPU where it is for one.

        ``weights`` are the addresses of the module's weights, whose memory ``kept`` owns.
        """
        program = planned(self.program(function))
        plans = {name: self.graphs[name].plan for name in program.graphs}
        number = None if self.options.target.is_cpu else device_id
        return Executor(program, plans, number, weights=weights, kept=kept)

    def program(
        self, function: str | None = None, names: Sequence[Sequence[str]] | None = None
    ) -> Program:
        """Return a function of the finished module; parameters as of `read_program`."""
        record = self.ask("program")
        return read_program(
            record, self.graphs, function, self.finalized, names=names, weights=self._weights
        )

    def held(self, functions: Sequence[Function], regions: Sequence[Function]) -> list[set[int]]:
        """Return the arguments of each region that are weights, by number, where they are held."""
        if not (self._weights and self.options.holds_weights and self.options.target.is_cpu):
            return [set() for _ in regions]
        (function,) = functions
        weights = {function.arguments[k] for k in self._weights}
        calls = [op.operands for op in function.ops if op.name == "hipdnn.graph"]
        return [
            {k for k, x in enumerate(one) if isinstance(x, Ref) and x.value in weights}
            for one in calls
        ]

    def functions(self) -> tuple[list[Function], list[Function], list[dict[str, Any]]]:
        """Return functions, regions in order, and what is no function of one block."""
        found = self.ask("describe")
        functions = [Function.of(one) for one in found["functions"]]
        regions = [Function.of(one) for one in found["regions"]]
        return functions, regions, found["odd"]

    def next_name(self) -> str:
        """Return a new name of a graph."""
        self._count += 1
        return f"hipdnn_graph_{self._count - 1}"

    def _flush(self) -> list[Any]:
        if not self._queued:
            return [None]
        steps, self._queued = self._queued, []
        facts, text = self.compiler.perform(_TASK, self._text, {"steps": steps}, label=self.name)
        if facts["problems"]:
            problems = [_unreadable(one, self.name) for one in facts["problems"]]
            raise FormatError(f"{self.name} is not an MLIR module that can be read", problems)
        self._text = text
        return list(facts["found"])


def _unreadable(record: Mapping[str, Any], name: str) -> Problem:
    where = f"line {record['line']}, column {record['column']}: " if record["line"] else ""
    return Problem(
        rule="OFFLOAD-07",
        port=name,
        got=f"{where}{record['message']}",
        wanted="a module in the torch dialect, or as a pass of the pipeline leaves it",
    )


# ------------------------------------------------------------------------ passes


def _convert_onnx(module: Module) -> None:
    module.then("convert-onnx")


def _clean(pipeline: str, module: Module) -> None:
    module.then("passes", pipeline=pipeline)
    module.then("close-regions")


def _offload(module: Module) -> None:
    """Claim ops and outline them as regions."""
    module.then("drop-dead")
    functions, _, odd = module.functions()
    for one in odd:
        got, wanted = f"{one['blocks']} blocks", "one block"
        problem = Problem(rule="OFFLOAD-05", got=got, wanted=wanted)
        remark = Remark(op="func.func", location=one["name"], problem=problem)
        module.remarks.append(remark)
    wanted_regions = {}
    checked: dict[Any, CannotBuild | None] = {}
    for function in functions:
        found = partition(
            function,
            partial(_check, options=module.options, known=checked),
            whole_nodes=module.options.whole_nodes,
            min_ops=module.options.min_ops,
        )
        module.remarks += found.remarks
        wanted_regions[function.name] = [[op.place for op in ops] for ops in found.regions]
    if any(wanted_regions.values()):
        module.then("outline", functions=wanted_regions)


def _check(function: Function, options: Options, known: dict[Any, CannotBuild | None]) -> None:
    """Raise `CannotBuild` unless an engine serves the function as a graph."""
    key = _signature(function)
    if key not in known:
        try:
            _served(build_region(function).graph, options)
            known[key] = None
        except CannotBuild as error:
            known[key] = error
    found = known[key]
    if found is not None:
        # Of an equal function: the op at fault is the one at the same place.
        op = found.op
        if op is not None and op not in function.ops:
            op = next((o for o in function.ops if o.name == op.name), None)
        raise CannotBuild(op, found.problem)


def _signature(function: Function) -> Any:
    """Return what decides whether a part of a function can be built: equal parts are equal."""
    numbers: dict[int, int] = {}

    def of(operand: Any) -> Any:
        if hasattr(operand, "value"):
            known = numbers.setdefault(operand.value, len(numbers))
            return (known, function.values[operand.value])
        if isinstance(operand, tuple):
            return tuple(map(of, operand))
        return (type(operand).__name__, operand)

    ops = tuple(
        (
            op.name,
            tuple(map(of, op.operands)),
            tuple((numbers.setdefault(v, len(numbers)), function.values[v]) for v in op.results),
        )
        for op in function.ops
    )
    return ops, tuple(numbers.get(v) for v in function.returned)


def _served(graph: FrozenGraph, options: Options) -> None:
    """Raise `CannotBuild` unless an engine serves the graph."""
    try:
        replace(options, policy=unmeasured(options.policy, options.settings)).choose(graph)
    except NotSupportedError as error:
        reason = next((d.problem for d in error.declines), None)
        got = error.message if reason is None else f"{reason.rule}, {reason.got}"
        wanted = "an engine that serves the graph" if reason is None else reason.wanted
        problem = Problem(rule="OFFLOAD-02", got=got, wanted=wanted)
        raise CannotBuild(None, problem) from None


def _to_executables(module: Module) -> None:
    """Build the graph and the plan of each region."""
    functions, regions, _ = module.functions()
    names: list[str | None] = []
    for region, held in zip(regions, module.held(functions, regions), strict=True):
        name = module.next_name()
        try:
            module.graphs[name] = _holding(module, name, build_region(region, name), region, held)
            names.append(name)
        except (CannotBuild, HipdnnIreeError) as error:
            names.append(None)
            module.remarks += _went_back(region, error)
    if names:
        module.then("name-graphs", names=names)


def _holding(
    module: Module, name: str, built: BuiltRegion, region: Function, held: Collection[int]
) -> Executable:
    """Return a region whose graph holds some arguments, where that compiles."""
    constant = built.holding(held)
    if constant is not built:
        try:
            return _executable(module, name, constant, region)
        except CompileError as error:
            log.info("graph %s takes its weights as arguments: %s", name, error)
    return _executable(module, name, built, region)


def _executable(
    module: Module, name: str, built: BuiltRegion, region: Function, *, custom: bool = False
) -> Executable:
    found = Executable(
        name=name,
        region=built,
        build=partial(module.options.build, engine="iree" if custom else None),
        ops=tuple(op.name for op in region.ops),
        nodes=tuple(dict.fromkeys(op.location for op in region.ops if op.location)),
        custom=custom,
    )
    if module.options.compiles:
        found.plan  # noqa: B018 - so that what cannot be built is known now
    return found


def _went_back(region: Function, error: Exception) -> list[Remark]:
    if isinstance(error, CannotBuild):
        problem = error.problem
    else:
        said = str(error).splitlines()[0]
        kind = type(error).__name__
        problem = Problem(rule="OFFLOAD-04", got=f"{kind}: {said}", wanted="a plan")
    return [
        Remark(op=op.name, location=op.location, problem=problem, function=region.name)
        for op in region.ops
    ]


def _legalize(module: Module) -> None:
    """Give what was not offloaded graphs of its own, and convert types."""
    module.then("drop-dead")
    functions, _, _ = module.functions()
    rest = {
        function.name: [[op.place for op in ops] for ops in leftovers(function)]
        for function in functions
    }
    if any(rest.values()):
        module.then("outline", functions=rest)
        texts = module.ask("extract")
        _, regions, _ = module.functions()
        names = []
        for text, region in zip(texts, regions, strict=True):
            names.append(module.next_name())
            module.graphs[names[-1]] = _for_iree(module, names[-1], text, region)
        module.then("name-graphs", names=names)
    module.then("legalize")


def _for_iree(module: Module, name: str, text: str, region: Function) -> Executable:
    """Return a function of torch ops as a graph of one custom op.

    Raises
    ------
    NotSupportedError
        If IREE does not compile it either.
    """
    kinds = [region.values[v] for v in (*region.arguments, *region.returned)]
    spelled = ", ".join(dict.fromkeys(op.name for op in region.ops))
    odd = [kind.text for kind in kinds if kind.type is None]
    if odd or not region.arguments or not region.returned:
        got = odd[0] if odd else "a function without operands or results"
        raise _not_compiled(region, spelled, got, "tensors of static dims")
    graph = Graph(name)
    inputs = []
    for i, kind in enumerate(kinds[: len(region.arguments)]):
        assert kind.type is not None
        dims, data_type = kind.type.graph_dims, kind.type.data_type
        inputs.append(graph.tensor(dims=dims, data_type=data_type, name=f"in{i}"))
    outputs = [
        (kind.type.graph_dims, kind.type.data_type)
        for kind in kinds[len(region.arguments) :]
        if kind.type is not None
    ]
    try:
        results = graph.custom_op(mlir=text, inputs=inputs, outputs=outputs, name=spelled[:200])
        for i, result in enumerate(results):
            result.set_name(f"out{i}").set_output()
        frozen = graph.freeze()
        built = BuiltRegion(frozen, tuple(t.uid for t in inputs), tuple(t.uid for t in results))
        return _executable(module, name, built, region, custom=True)
    except (CompileError, GraphError, NotSupportedError) as error:
        said = " ".join(str(error).split())
        raise _not_compiled(region, spelled, said[:600], "a function that IREE compiles") from None


def _not_compiled(region: Function, spelled: str, got: str, wanted: str) -> NotSupportedError:
    where = ", ".join(dict.fromkeys(op.location for op in region.ops if op.location))
    problem = Problem(rule="OFFLOAD-06", node=where, got=got, wanted=wanted)
    return NotSupportedError(
        f"{spelled} in {region.name} is not offloaded, and IREE does not compile it either",
        [Decline(engine=IreeEngine.NAME, problem=problem)],
    )


def _finalize(module: Module) -> None:
    module.finalized = module.ask("finalize")


Pass = Callable[[Module], None]

PASSES: dict[str, Pass] = {
    "convert-torch-onnx-to-torch": _convert_onnx,
    "cse": partial(_clean, "cse"),
    "hipdnn-offload": _offload,
    "canonicalize": partial(_clean, "canonicalize"),
    "hipdnn-graph-to-executable": _to_executables,
    "hipdnn-backend-legalize": _legalize,
    "eliminate-empty-tensors": lambda module: module.then("eliminate-empty-tensors"),
    "one-shot-bufferize": lambda module: module.then("bufferize"),
    "hipdnn-finalize-memrefs": _finalize,
}
"""Pass -> what it does to a module."""

PIPELINE: Sequence[str] = (
    "convert-torch-onnx-to-torch",
    "cse",
    "hipdnn-offload",
    "canonicalize",
    "cse",
    "hipdnn-graph-to-executable",
    "hipdnn-backend-legalize",
    "eliminate-empty-tensors",
    "one-shot-bufferize",
    "hipdnn-finalize-memrefs",
)
"""``hipdnn-offload-pipeline``, in order."""
