"""What a group of nodes is made of: hipDNN graphs, the order they run in, and their buffers.

A program is made once by the offload pipeline and is data from then on: it is kept in the cache,
and without any of the pipeline it becomes plans again.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ...graph_api.errors import NotSupportedError
from ...graph_api.formats.json.json_form import loads
from ...graph_api.formats.json.json_write import dumps
from ...graph_api.frozen import FrozenGraph
from ...graph_api.graph import Graph
from ...graph_api.tensor import TensorSpec
from ..offload.executor import plan_buffers
from ..offload.pipeline import PIPELINE, Module, Options
from ..plan import Plan
from .expand import expanded
from .model import Model
from .torch_text import arguments, text

__all__ = ["SCALARS", "Copy", "Execution", "Place", "Program", "made"]

SCALARS = "func.func(torch-scalarize-shapes),canonicalize"

_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Place:
    """Where a buffer is: ``kind`` and the number among its kind.

    ``output`` and ``input`` count the group's, ``weight`` its weights, ``constant`` the program's
    constants; ``memory`` is an offset into the block of intermediate buffers.
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
    """A group of nodes as hipDNN graphs.

    Attributes
    ----------
    inputs, outputs, weights : tuple of str
        Names of values of the model.
    shapes : tuple of tuple of int
        Dims of the outputs.
    graphs : mapping of str to FrozenGraph
    nodes : mapping of str to tuple of str
        The ONNX nodes that each graph computes.
    steps : tuple of Execution or Copy
    constants : tuple of bytes
    memory : int
        Bytes of the block of intermediate buffers.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    graphs: Mapping[str, FrozenGraph]
    nodes: Mapping[str, tuple[str, ...]]
    steps: tuple[Execution | Copy, ...]
    constants: tuple[bytes, ...]
    memory: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of each output and input, as the graphs have them; 0 for what none touches."""
        found: dict[Place, int] = {}
        for step in self.steps:
            if isinstance(step, Copy):
                found[step.source] = found[step.target] = step.nbytes
                continue
            tensors = self.graphs[step.graph].tensors
            found.update((place, _nbytes(tensors[uid])) for uid, place in step.buffers)
        places = [Place("output", k) for k in range(len(self.outputs))]
        places += [Place("input", k) for k in range(len(self.inputs))]
        return tuple(found.get(place, 0) for place in places)

    def ordered(self, inputs: Sequence[str], outputs: Sequence[str]) -> Program:
        """Return the program with its inputs and outputs in another order."""

        def moved(place: Place) -> Place:
            if place.kind == "input":
                return Place("input", inputs.index(self.inputs[place.number]))
            if place.kind == "output":
                return Place("output", outputs.index(self.outputs[place.number]))
            return place

        shapes = dict(zip(self.outputs, self.shapes, strict=True))
        return replace(
            self,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            shapes=tuple(shapes[name] for name in outputs),
            steps=tuple(_moved(step, moved) for step in self.steps),
        )

    def as_json(self, *, graphs: bool = True) -> dict[str, Any]:
        """Return the JSON form; ``graphs`` are left out where plans are kept with it."""
        return {
            "inputs": self.inputs,
            "outputs": self.outputs,
            "weights": self.weights,
            "shapes": self.shapes,
            "graphs": {n: dumps(g) for n, g in self.graphs.items()} if graphs else {},
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
            shapes=tuple(tuple(dims) for dims in record["shapes"]),
            graphs={n: loads(t, Graph).freeze() for n, t in record["graphs"].items()},
            nodes={name: tuple(nodes) for name, nodes in record["nodes"].items()},
            steps=tuple(map(_step, record["steps"])),
            constants=tuple(base64.b64decode(data) for data in record["constants"]),
            memory=int(record["memory"]),
        )


def _nbytes(tensor: TensorSpec) -> int:
    return tensor.data_type.nbytes(prod(tensor.dims))


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


def made(model: Model, options: Options) -> tuple[Program, dict[str, Plan]]:
    """Return a group as a program, and the plans of its graphs.

    Parameters
    ----------
    model : Model
        The group's nodes alone, all extents known.
    options : Options
        Of the offload pipeline.

    Raises
    ------
    HipdnnIreeError
        If an op is neither served by an engine nor compiled by IREE.
    """
    module = Module(text(expanded(model)).encode(), options, name="the group")
    convert, *rest = PIPELINE
    module.run(convert)
    # Shapes and axes, which ONNX has as tensors, become numbers before anything is claimed.
    module.then("passes", pipeline=SCALARS)
    module.run(*rest)
    record = module.ask("program")
    (function,) = (f for f in record["functions"] if f["name"] == "main")
    finalized = module.finalized["main"]
    return _Reader(model, record, function, finalized, module).program()


class _Reader:
    """From the worker's record of a finished module to a program."""

    def __init__(
        self,
        model: Model,
        record: Mapping[str, Any],
        function: Mapping[str, Any],
        finalized: Mapping[str, Any],
        module: Module,
    ) -> None:
        self.model, self.function, self.module = model, function, module
        self.constants = record["constants"]
        self.names = list(self.constants)
        self.finalized = finalized
        self.places: dict[int, Place] = {}
        self.steps: list[Execution | Copy] = []

    def program(self) -> tuple[Program, dict[str, Plan]]:
        model, function = self.model, self.function
        taken = arguments(model)
        given = len(taken)
        for k, value in enumerate(function["arguments"]):
            if k < len(model.inputs):
                self.places[value] = Place("input", k)
            elif k < given:
                self.places[value] = Place("weight", k - len(model.inputs))
            else:
                self.places[value] = Place("output", self.finalized["promoted"][k - given])
        for step in function["steps"]:
            self._step(step)
        memory = self._lay_out()
        kept = [k for k in range(self.finalized["results"]) if k not in self.finalized["promoted"]]
        for place, value in zip(kept, function["returned"], strict=True):
            target = Place("output", place)
            self.steps.append(Copy(self.places[value], target, self._nbytes(value)))
        graphs = self.module.graphs
        used = dict.fromkeys(s.graph for s in self.steps if isinstance(s, Execution))
        program = Program(
            inputs=model.inputs,
            outputs=model.outputs,
            weights=taken[len(model.inputs) :],
            shapes=tuple(model.values[name].shape for name in model.outputs),
            graphs={name: graphs[name].plan.graph for name in used},
            nodes={name: graphs[name].nodes for name in used},
            steps=tuple(self.steps),
            constants=tuple(base64.b64decode(self.constants[n]["data"]) for n in self.names),
            memory=memory,
        )
        return program, {name: graphs[name].plan for name in used}

    def _step(self, step: Mapping[str, Any]) -> None:
        operands = step["operands"]
        match step["op"]:
            case "hipdnn.execute":
                region = self.module.graphs[step["graph"]].region
                uids = (*region.inputs, *region.outputs)
                buffers = tuple(
                    (uid, self._place(value))
                    for uid, value in zip(uids, operands, strict=True)
                    if uid is not None
                )
                self.steps.append(Execution(step["graph"], buffers))
            case "memref.alloc":
                self._place(step["results"][0])
            case "memref.copy":
                source, target = map(self._place, operands)
                self.steps.append(Copy(source, target, self._nbytes(operands[0])))
            case "memref.get_global":
                number = self.names.index(step["name"])
                self.places[step["results"][0]] = Place("constant", number)
            case "memref.dealloc":
                pass
            case other:
                raise NotSupportedError(f"the group holds {other}, which no step stands for")

    def _place(self, value: int) -> Place:
        """Return where a value is; a new one gets memory of its own for now."""
        return self.places.setdefault(value, Place("value", value))

    def _nbytes(self, value: int) -> int:
        dims, element = self.function["values"][value]
        bits = 8 if element == "i1" else int("".join(c for c in element if c.isdigit())[:2] or 0)
        bits = 8 if element.startswith("f8") else bits
        return int(prod(dims)) * bits // 8

    def _lay_out(self) -> int:
        """Put intermediate buffers into one block, and return its size."""
        lives: dict[int, tuple[int, int]] = {}
        for at, step in enumerate(self.steps):
            for place in _places(step):
                if place.kind == "value":
                    lives[place.number] = (lives.get(place.number, (at, at))[0], at)
        returned = set(self.function["returned"])
        for value, (first, _) in lives.items():
            if value in returned:
                lives[value] = (first, len(self.steps))
        sizes = {v: max(-(-self._nbytes(v) // _ALIGNMENT), 1) * _ALIGNMENT for v in lives}
        plan = plan_buffers(sizes, lives)
        moved = {v: Place("memory", offset) for v, offset in plan.offsets.items()}

        def final(place: Place) -> Place:
            return moved[place.number] if place.kind == "value" else place

        self.places = {value: final(place) for value, place in self.places.items()}
        self.steps = [_moved(step, final) for step in self.steps]
        return plan.nbytes


def _places(step: Execution | Copy) -> tuple[Place, ...]:
    if isinstance(step, Copy):
        return step.source, step.target
    return tuple(place for _, place in step.buffers)
