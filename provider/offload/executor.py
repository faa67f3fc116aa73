"""Running a finished module: buffers are planned once and reused, each graph by its plan."""

from __future__ import annotations

import base64
import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.errors import BindError, NotSupportedError, Problem
from ..plan import Plan
from .region import BuiltRegion

__all__ = ["BufferPlan", "Executable", "Executor", "numpy_type", "plan_buffers"]

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
    plan : Plan
    ops, nodes : tuple of str
        The ops in it, and where they come from.
    custom : bool
        Whether it holds what hipDNN has no ops for, as a function for IREE.
    """

    name: str
    region: BuiltRegion
    plan: Plan
    ops: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    custom: bool = False


@dataclass(frozen=True)
class BufferPlan:
    """Where intermediate buffers lie in one block of memory.

    Attributes
    ----------
    offsets : dict of int to int
        First byte by value.
    nbytes : int
        Size of the block; buffers whose lives do not overlap share bytes.
    unshared : int
        What it would be without sharing.
    """

    offsets: dict[int, int]
    nbytes: int
    unshared: int


def plan_buffers(sizes: Mapping[int, int], lives: Mapping[int, tuple[int, int]]) -> BufferPlan:
    """Return offsets for buffers with lives (first and last step), largest buffer first.

    Each is put at the lowest place that is free as long as it lives.
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
    total = max((end for _, _, end in placed), default=0)
    return BufferPlan(offsets, total, sum(sizes.values()))


class Executor:
    """Runs a function of a finished module.

    Parameters
    ----------
    program : mapping
        The worker's record of the module (`passes.program`).
    graphs : mapping of str to Executable
    function : str, optional
        Which function; the only one when not given.
    finalized : mapping, optional
        What `passes.finalize` tells: of each function the number of its results before, and the
        places of those that are arguments now.

    Attributes
    ----------
    arguments : tuple of (dims, DataType)
        What the finished function takes: inputs, then results.
    promoted : tuple of int
        The results, counted before they were promoted, that the last arguments are.
    buffers : BufferPlan
    """

    def __init__(
        self,
        program: Mapping[str, Any],
        graphs: Mapping[str, Executable],
        function: str | None = None,
        finalized: Mapping[str, Any] | None = None,
    ) -> None:
        names = [one["name"] for one in program["functions"]]
        if function is None and len(names) != 1:
            raise _cannot(f"{len(names)} functions ({', '.join(names)})", "one, or its name")
        wanted = names[0] if function is None else function
        if wanted not in names:
            raise _cannot(f"no function {wanted!r}", f"one of {', '.join(names)}")
        record = program["functions"][names.index(wanted)]
        if record["blocks"] != 1:
            raise _cannot(f"{wanted} with {record['blocks']} blocks", "a function of one block")
        about = (finalized or {}).get(wanted, {})
        self.name, self.promoted = wanted, tuple(about.get("promoted", ()))
        self._values = record["values"]
        self._constants = {name: _constant(one) for name, one in program["constants"].items()}
        self._steps = [self._checked(step, graphs) for step in record["steps"]]
        self._graphs = graphs
        self._kinds = self._by_graphs()
        self._arguments = list(record["arguments"])
        self._returned = list(record["returned"])
        self._places = {value: i for i, value in enumerate(self._arguments)}
        self.arguments = tuple(self._kind(value) for value in self._arguments)
        self.buffers = self._planned()
        self._run = [self._made(step) for step in self._steps]
        self._pool: list[np.ndarray[Any, Any]] = []

    def _checked(
        self, step: Mapping[str, Any], graphs: Mapping[str, Executable]
    ) -> Mapping[str, Any]:
        known = ("memref.alloc", "memref.dealloc", "memref.copy", "memref.get_global")
        if step["op"] == "hipdnn.execute":
            if step["graph"] not in graphs:
                have = ", ".join(graphs) or "none"
                raise _cannot(f"no graph {step['graph']!r}", f"one of those built: {have}")
        elif step["op"] not in known or (step["op"] == "memref.alloc" and step["operands"]):
            raise _cannot(step["op"], f"hipdnn.execute, {', '.join(known)} of static sizes")
        return step

    def _kind(self, value: int) -> tuple[tuple[int, ...], DataType]:
        record = self._values[value]
        if record is None or record[1] not in _BY_ELEMENT:
            raise _cannot("a value that is no buffer of static dims", "memref<4x8xf32>")
        return tuple(record[0]), self._kinds.get(value, _BY_ELEMENT[record[1]])

    def _by_graphs(self) -> dict[int, DataType]:
        """Return the types of buffers as graphs know them: MLIR's integers have no sign."""
        found = {}
        for step in self._steps:
            if step["op"] == "hipdnn.execute":
                executable = self._graphs[step["graph"]]
                uids = (*executable.region.inputs, *executable.region.outputs)
                for uid, value in zip(uids, step["operands"], strict=True):
                    if uid is not None:
                        found[value] = executable.region.graph.tensors[uid].data_type
        return found

    def _planned(self) -> BufferPlan:
        sizes: dict[int, int] = {}
        lives: dict[int, tuple[int, int]] = {}
        for at, step in enumerate(self._steps):
            if step["op"] == "memref.alloc":
                (value,) = step["results"]
                if value in self._returned:
                    continue  # it lives on with the caller
                dims, kind = self._kind(value)
                size = max(kind.nbytes(prod(dims)), 1)
                sizes[value] = -(-size // _ALIGNMENT) * _ALIGNMENT
            for value in step["operands"]:
                if value in sizes and step["op"] != "memref.dealloc":
                    lives[value] = (lives.get(value, (at, at))[0], at)
        sizes = {value: size for value, size in sizes.items() if value in lives}
        return plan_buffers(sizes, lives)

    def run(self, *inputs: Any) -> tuple[np.ndarray[Any, Any], ...]:
        """Run on arrays and return the results in the order of the source function.

        Raises
        ------
        BindError
            For another number of inputs, or one of other dims or another type.
        """
        count = len(self.arguments) - len(self.promoted)
        given = [np.asarray(one) for one in inputs]
        problems = []
        if len(given) != count:
            got = f"{len(given)} arrays"
            problems.append(Problem(rule="OFFLOAD-08", got=got, wanted=f"{count}"))
        for i, (array, (dims, kind)) in enumerate(zip(given, self.arguments, strict=False)):
            wanted = numpy_type(kind)
            if array.shape != dims or array.dtype != wanted:
                problems.append(
                    Problem(
                        rule="OFFLOAD-08",
                        port=f"arg{i}",
                        got=f"{array.dtype} {list(array.shape)}",
                        wanted=f"{wanted} {list(dims)}",
                    )
                )
        if problems:
            raise BindError(f"the inputs do not fit {self.name!r}", problems)
        outputs = [_empty(dims, kind) for dims, kind in self.arguments[count:]]
        arrays = [*map(np.ascontiguousarray, given), *outputs]
        kept = iter(self.execute([array.ctypes.data for array in arrays]))
        written = dict(zip(self.promoted, outputs, strict=True))
        total = len(outputs) + len(self._returned)
        found = []
        for i in range(total):
            one = written[i] if i in written else next(kept)
            found.append(arrays[one] if isinstance(one, int) else one)
        return tuple(found)

    def execute(self, addresses: Sequence[int]) -> tuple[int | np.ndarray[Any, Any], ...]:
        """Run on the finished function's arguments: inputs and then results, all contiguous.

        Parameters
        ----------
        addresses : sequence of int
            Of the first byte of each; they are not checked.

        Returns
        -------
        tuple of int or ndarray
            What the function returns besides: the number of an argument that is handed back, or
            an array.
        """
        try:
            memory = self._pool.pop()
        except IndexError:  # the first call, or one beside others
            memory = _bytes(self.buffers.nbytes)
        known = dict(zip(self._arguments, addresses, strict=True))
        base = memory.ctypes.data
        for value, offset in self.buffers.offsets.items():
            known[value] = base + offset
        kept: dict[int, np.ndarray[Any, Any]] = {}
        try:
            for step in self._run:
                step(known, kept)
        finally:
            self._pool.append(memory)
        return tuple(kept[v] if v in kept else self._places[v] for v in self._returned)

    def _made(self, step: Mapping[str, Any]) -> Callable[[dict[int, int], dict[int, Any]], object]:
        """Return what a step does to the addresses that are known, and to the arrays kept."""
        operands, results = step["operands"], step["results"]
        match step["op"]:
            case "hipdnn.execute":
                executable = self._graphs[step["graph"]]
                uids = (*executable.region.inputs, *executable.region.outputs)
                pairs = [(u, v) for u, v in zip(uids, operands, strict=True) if u is not None]
                execute = executable.plan.execute
                return lambda known, _: execute({uid: known[value] for uid, value in pairs})
            case "memref.alloc" if results[0] not in self.buffers.offsets:
                dims, kind = self._kind(results[0])

                def allocate(known: dict[int, int], kept: dict[int, Any]) -> None:
                    kept[results[0]] = _empty(dims, kind)
                    known[results[0]] = kept[results[0]].ctypes.data

                return allocate
            case "memref.copy":
                dims, kind = self._kind(operands[0])
                size = kind.nbytes(prod(dims))
                return lambda known, _: ctypes.memmove(known[operands[1]], known[operands[0]], size)
            case "memref.get_global":
                constant = self._constants[step["name"]]

                def get(known: dict[int, int], kept: dict[int, Any]) -> None:
                    kept[results[0]] = constant
                    known[results[0]] = constant.ctypes.data

                return get
        return lambda known, kept: None


def numpy_type(kind: DataType) -> np.dtype[Any]:
    """Return NumPy's (or ml_dtypes') type of an element."""
    import ml_dtypes

    name = kind.value.numpy
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def _bytes(count: int) -> np.ndarray[Any, Any]:
    raw = np.empty(count + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + count]


def _empty(dims: tuple[int, ...], kind: DataType) -> np.ndarray[Any, Any]:
    return _bytes(kind.nbytes(prod(dims))).view(numpy_type(kind)).reshape(dims)


def _constant(record: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    kind = _BY_ELEMENT[record["element"]]
    found = _empty(tuple(record["dims"]), kind)
    data = np.frombuffer(base64.b64decode(record["data"]), numpy_type(kind))
    found[...] = data.reshape(found.shape)
    return found


def _cannot(got: str, wanted: str) -> NotSupportedError:
    return NotSupportedError(f"the module cannot be executed: got {got}; wanted {wanted}")
