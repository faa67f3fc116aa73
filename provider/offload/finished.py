# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a finished module is: hipDNN graphs, the order they run in, and their buffers.

A program is data: it is read once from the worker's record of a module, and kept in caches and in
files, from where it becomes plans again without any of the pipeline.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

from ...graph_api.constants import hold
from ...graph_api.dtypes import DataType
from ...graph_api.errors import NotSupportedError
from ...graph_api.formats.json.json_form import loads
from ...graph_api.formats.json.json_write import dumps
from ...graph_api.frozen import FrozenGraph
from ...graph_api.graph import Graph
from ..plan import Plan
from .program import TensorType
from .region import BuiltRegion

__all__ = [
    "Copy",
    "Executable",
    "Execution",
    "Place",
    "Program",
    "plan_buffers",
    "planned",
    "read_program",
]

_ALIGNMENT = 64

_BY_ELEMENT = {
    t.value.mlir.lstrip("s") if t.value.kind == "int" else t.value.mlir: t
    for t in DataType
    if t.value.mlir and t.value.kind != "uint"
}


@dataclass(frozen=True, kw_only=True)
class Executable:
    """A graph that a module executes by name.

    Attributes
    ----------
    name : str
        As of ``hipdnn.execute graph("...")``.
    region : BuiltRegion
        The graph, and which of its tensors are the operands and results.
    build : callable
        Makes the plan of the graph.
    ops, nodes : tuple of str
        The ops in it, and where they come from.
    custom : bool
        Whether it holds what hipDNN has no ops for, as a function for IREE.
    """

    name: str
    region: BuiltRegion
    build: Callable[[FrozenGraph], Plan]
    ops: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    custom: bool = False

    @cached_property
    def plan(self) -> Plan:
        """The plan, made when it is first asked for."""
        return self.build(self.region.graph)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a buffer is: ``kind`` and the number among its kind.

    ``output`` and ``input`` count the program's, ``weight`` its weights, ``constant`` its
    constants; ``value`` is an intermediate buffer that lies nowhere yet, ``memory`` an offset
    into the block of them.
    """

    kind: str
    number: int


@dataclass(frozen=True, slots=True)
class Execution:
    """One graph on buffers, by uid."""

    graph: str
    buffers: tuple[tuple[int, Place], ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """Bytes that go from one buffer to another."""

    source: Place
    target: Place
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class Program:
    """A function as hipDNN graphs.

    Attributes
    ----------
    inputs, outputs, weights : tuple of str
        Names; a weight is an input that is the same at each call, and a constant of the graphs
        that hold it (`graph_api.constants`).
    types : tuple of TensorType
        Dims and element types of the outputs and then of the inputs.
    graphs : mapping of str to FrozenGraph
    nodes : mapping of str to tuple of str
        The source nodes that each graph computes.
    steps : tuple of Execution or Copy
    constants : tuple of bytes
    memory : int
        Bytes of the block of intermediate buffers.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: tuple[str, ...]
    types: tuple[TensorType, ...]
    graphs: Mapping[str, FrozenGraph]
    nodes: Mapping[str, tuple[str, ...]]
    steps: tuple[Execution | Copy, ...]
    constants: tuple[bytes, ...]
    memory: int = 0

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Dims of the outputs."""
        return tuple(kind.dims for kind in self.types[: len(self.outputs)])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of each output and input, as the graphs have them; 0 for what none touches."""
        found = self._touched()
        places = [Place("output", k) for k in range(len(self.outputs))]
        places += [Place("input", k) for k in range(len(self.inputs))]
        return tuple(found.get(place, 0) for place in places)

    def _touched(self) -> dict[Place, int]:
        """Return the bytes of each buffer."""
        found: dict[Place, int] = {}
        for step in self.steps:
            if isinstance(step, Copy):
                found[step.source] = found[step.target] = step.nbytes
                continue
            tensors = self.graphs[step.graph].tensors
            for uid, place in step.buffers:
                found[place] = tensors[uid].data_type.nbytes(prod(tensors[uid].dims))
        return found

    def ordered(self, inputs: Sequence[str], outputs: Sequence[str]) -> Program:
        """Return the program with its inputs and outputs in another order."""

        def moved(place: Place) -> Place:
            if place.kind == "input":
                return Place("input", inputs.index(self.inputs[place.number]))
            if place.kind == "output":
                return Place("output", outputs.index(self.outputs[place.number]))
            return place

        given = dict(zip(self.outputs, self.types, strict=False))
        taken = dict(zip(self.inputs, self.types[len(self.outputs) :], strict=True))
        return replace(
            self,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            types=(*(given[name] for name in outputs), *(taken[name] for name in inputs)),
            steps=tuple(_moved(step, moved) for step in self.steps),
        )

    def as_json(self, *, graphs: bool = True) -> dict[str, Any]:
        """Return the JSON form; ``graphs`` are left out where plans are kept with it."""
        return {
            "inputs": self.inputs,
            "outputs": self.outputs,
            "weights": self.weights,
            "types": [[kind.dims, kind.data_type.name] for kind in self.types],
            "graphs": {n: dumps(g) for n, g in self.graphs.items()} if graphs else {},
            "constants_of": {n: g.constants for n, g in self.graphs.items() if g.constants},
            "nodes": dict(self.nodes),
            "steps": [_step_json(step) for step in self.steps],
            "constants": [base64.b64encode(data).decode() for data in self.constants],
            "memory": self.memory,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Program:
        """Return the program that `as_json` wrote."""
        return cls(
            inputs=tuple(record["inputs"]),
            outputs=tuple(record["outputs"]),
            weights=tuple(record["weights"]),
            types=tuple(TensorType(tuple(dims), DataType[name]) for dims, name in record["types"]),
            graphs={
                n: hold(loads(t, Graph).freeze(), record["constants_of"].get(n, ()))
                for n, t in record["graphs"].items()
            },
            nodes={name: tuple(nodes) for name, nodes in record["nodes"].items()},
            steps=tuple(map(_step, record["steps"])),
            constants=tuple(base64.b64decode(data) for data in record["constants"]),
            memory=int(record["memory"]),
        )


def _moved(step: Execution | Copy, to: Callable[[Place], Place]) -> Execution | Copy:
    if isinstance(step, Copy):
        return Copy(to(step.source), to(step.target), step.nbytes)
    return Execution(step.graph, tuple((uid, to(place)) for uid, place in step.buffers))


def _step_json(step: Execution | Copy) -> list[Any]:
    if isinstance(step, Copy):
        return [*_pair(step.source), *_pair(step.target), step.nbytes]
    return [step.graph, [[uid, *_pair(place)] for uid, place in step.buffers]]


def _pair(place: Place) -> tuple[str, int]:
    return place.kind, place.number


def _step(record: list[Any]) -> Execution | Copy:
    if len(record) == 2:
        buffers = tuple((uid, Place(kind, number)) for uid, kind, number in record[1])
        return Execution(record[0], buffers)
    kind, number, other, place, nbytes = record
    return Copy(Place(kind, number), Place(other, place), nbytes)


# ----------------------------------------------------------------------- buffers


def plan_buffers(
    sizes: Mapping[int, int], lives: Mapping[int, tuple[int, int]]
) -> tuple[dict[int, int], int]:
    """Return offsets for buffers with lives (first and last step), and the size of the block.

    The largest buffer comes first; each is put at the lowest place that is free as long as it
    lives, so that buffers whose lives do not overlap share bytes.
    """
    placed: list[tuple[int, int, int]] = []  # value, begin, end
    offsets: dict[int, int] = {}
    for value in sorted(sizes, key=lambda v: (-sizes[v], lives[v])):
        first, last = lives[value]
        taken = sorted(
            (begin, end)
            for other, begin, end in placed
            if lives[other][0] <= last and first <= lives[other][1]
        )
        at = 0
        for begin, end in taken:
            if at + sizes[value] <= begin:
                break
            at = max(at, end)
        offsets[value] = at
        placed.append((value, at, at + sizes[value]))
    return offsets, max((end for _, _, end in placed), default=0)


def planned(program: Program) -> Program:
    """Return a program whose intermediate buffers lie in one block of memory."""
    lives: dict[int, tuple[int, int]] = {}
    for at, step in enumerate(program.steps):
        for place in _places(step):
            if place.kind == "value":
                lives[place.number] = (lives.get(place.number, (at, at))[0], at)
    nbytes = program._touched()
    sizes = {v: max(-(-nbytes[Place("value", v)] // _ALIGNMENT), 1) * _ALIGNMENT for v in lives}
    offsets, memory = plan_buffers(sizes, lives)

    def final(place: Place) -> Place:
        return Place("memory", offsets[place.number]) if place.kind == "value" else place

    steps = tuple(_moved(step, final) for step in program.steps)
    return replace(program, steps=steps, memory=memory)


def _places(step: Execution | Copy) -> tuple[Place, ...]:
    if isinstance(step, Copy):
        return step.source, step.target
    return tuple(place for _, place in step.buffers)


# ----------------------------------------------------------------------- reading


def read_program(
    record: Mapping[str, Any],
    graphs: Mapping[str, Executable],
    function: str | None = None,
    finalized: Mapping[str, Any] | None = None,
    *,
    names: Sequence[Sequence[str]] | None = None,
    weights: Collection[int] = (),
) -> Program:
    """Return a function of a finished module as a program whose buffers lie nowhere yet.

    Parameters
    ----------
    record : mapping
        The worker's record of the module (`passes.program`).
    graphs : mapping of str to Executable
    function : str, optional
        Which function; the only one when not given.
    finalized : mapping, optional
        What `passes.finalize` tells: of each function the number of its results before, and the
        places of those that are arguments now.
    names : two sequences of str, optional
        Of the arguments and of the results; by default ``arg0``... and ``out0``...
    weights : collection of int
        The arguments, by number, that are the same at each call.

    Raises
    ------
    NotSupportedError
        If there is no such function, or it holds what no step stands for.
    """
    return _Reader(record, graphs, function, finalized or {}).program(names, set(weights))


class _Reader:
    def __init__(
        self,
        record: Mapping[str, Any],
        graphs: Mapping[str, Executable],
        function: str | None,
        finalized: Mapping[str, Any],
    ) -> None:
        self.function = _function(record, function)
        self.graphs, self.constants = graphs, record["constants"]
        self.names = list(self.constants)
        returned = self.function["returned"]
        about = finalized.get(self.function["name"], {})
        self.promoted: Sequence[int] = about.get("promoted", ())
        results = range(about.get("results", len(returned)))
        self.kept = [k for k in results if k not in self.promoted]
        self.kinds = self._by_graphs()
        self.places: dict[int, Place] = {}

    def program(self, names: Sequence[Sequence[str]] | None, held: set[int]) -> Program:
        function = self.function
        arguments, returned = function["arguments"], function["returned"]
        given = range(len(arguments) - len(self.promoted))
        outputs = len(self.promoted) + len(self.kept)
        taken, results = names or (
            [f"arg{k}" for k in given],
            [f"out{k}" for k in range(outputs)],
        )
        plain, fixed = [k for k in given if k not in held], [k for k in given if k in held]
        places = {arguments[k]: Place("input", n) for n, k in enumerate(plain)}
        places |= {arguments[k]: Place("weight", n) for n, k in enumerate(fixed)}
        promoted = arguments[len(given) :]
        places |= {v: Place("output", k) for v, k in zip(promoted, self.promoted, strict=True)}
        self.places.update(places)
        steps = [made for step in function["steps"] if (made := self._step(step)) is not None]
        made_by = dict(zip(self.promoted, promoted, strict=True))
        for place, value in zip(self.kept, returned, strict=True):
            made_by[place] = value
            steps.append(Copy(self._place(value), Place("output", place), self._nbytes(value)))
        used = dict.fromkeys(step.graph for step in steps if isinstance(step, Execution))
        wanted = [*(made_by[k] for k in range(outputs)), *(arguments[k] for k in plain)]
        return Program(
            inputs=tuple(taken[k] for k in plain),
            outputs=tuple(results),
            weights=tuple(taken[k] for k in fixed),
            types=tuple(map(self._kind, wanted)),
            graphs={name: self.graphs[name].region.graph for name in used},
            nodes={name: self.graphs[name].nodes for name in used},
            steps=tuple(steps),
            constants=tuple(base64.b64decode(self.constants[n]["data"]) for n in self.names),
        )

    def _step(self, step: Mapping[str, Any]) -> Execution | Copy | None:
        operands = step["operands"]
        match step["op"]:
            case "hipdnn.execute":
                pairs = zip(self._uids(step), operands, strict=True)
                buffers = tuple((uid, self._place(v)) for uid, v in pairs if uid is not None)
                return Execution(step["graph"], buffers)
            case "memref.copy":
                source, target = map(self._place, operands)
                return Copy(source, target, self._nbytes(operands[0]))
            case "memref.get_global":
                number = self.names.index(step["name"])
                self.places[step["results"][0]] = Place("constant", number)
                return None
            case "memref.dealloc":
                return None
            case "memref.alloc" if not operands:
                return None
        known = "hipdnn.execute, memref.alloc, .dealloc, .copy, .get_global of static sizes"
        raise _cannot(step["op"], known)

    def _uids(self, step: Mapping[str, Any]) -> tuple[int | None, ...]:
        if step["graph"] not in self.graphs:
            have = ", ".join(self.graphs) or "none"
            raise _cannot(f"no graph {step['graph']!r}", f"one of those built: {have}")
        region = self.graphs[step["graph"]].region
        return (*region.inputs, *region.outputs)

    def _by_graphs(self) -> dict[int, DataType]:
        """Return the types of buffers as graphs know them: MLIR's integers have no sign."""
        found = {}
        for step in self.function["steps"]:
            if step["op"] == "hipdnn.execute":
                for uid, value in zip(self._uids(step), step["operands"], strict=True):
                    if uid is not None:
                        tensors = self.graphs[step["graph"]].region.graph.tensors
                        found[value] = tensors[uid].data_type
        return found

    def _kind(self, value: int) -> TensorType:
        record = self.function["values"][value]
        if record is None or record[1] not in _BY_ELEMENT:
            raise _cannot("a value that is no buffer of static dims", "memref<4x8xf32>")
        return TensorType(tuple(record[0]), self.kinds.get(value, _BY_ELEMENT[record[1]]))

    def _place(self, value: int) -> Place:
        """Return where a value is; a new one lies nowhere yet."""
        return self.places.setdefault(value, Place("value", value))

    def _nbytes(self, value: int) -> int:
        kind = self._kind(value)
        return kind.data_type.nbytes(prod(kind.dims))


def _function(record: Mapping[str, Any], wanted: str | None) -> Mapping[str, Any]:
    functions = {one["name"]: one for one in record["functions"]}
    if wanted is None and len(functions) != 1:
        raise _cannot(f"{len(functions)} functions ({', '.join(functions)})", "one, or its name")
    name = next(iter(functions)) if wanted is None else wanted
    if name not in functions:
        raise _cannot(f"no function {name!r}", f"one of {', '.join(functions)}")
    found: Mapping[str, Any] = functions[name]
    if found["blocks"] != 1:
        raise _cannot(f"{name} with {found['blocks']} blocks", "a function of one block")
    return found


def _cannot(got: str, wanted: str) -> NotSupportedError:
    return NotSupportedError(f"the module cannot be executed: got {got}; wanted {wanted}")
