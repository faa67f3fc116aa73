# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A graph as calls of PyTorch's functions, on the caller's memory.

Values are kept in the type in which they were computed until a consumer or an output wants another
one.  A result goes straight to the caller's memory where PyTorch's function takes it, and into
the memory of an operand that nothing reads afterwards; all else is PyTorch's own allocation.

PyTorch is imported by the first program.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from ....graph_api.dtypes import DataType
from ....graph_api.frozen import FrozenGraph
from ....graph_api.tensor import TensorSpec
from ...reference.convert import int_range, scalar, to_dtype
from ..host_memory import HostMemory
from .groups import Piece, pieces
from .torch_op import TYPES, Kernel, dtype

__all__ = ["TorchProgram", "convert", "tensor_of", "using_threads"]

Registers = dict[int, Any]
Step = Callable[[Registers, Mapping[int, Any]], None]


@cache
def _kinds() -> dict[Any, DataType]:
    """Return our name of each of PyTorch's types."""
    import torch

    return {dtype(torch, kind): kind for kind in TYPES}


def convert(x: Any, kind: DataType) -> Any:
    """Return values in another type, by the project's rules (``provider.reference.convert``)."""
    import torch

    wanted = dtype(torch, kind)
    if x.dtype is wanted:
        return x
    if kind.is_bool:
        return x != 0
    if kind.is_float or x.dtype is torch.bool:
        return x.to(wanted)
    low, high = int_range(kind)
    if not x.dtype.is_floating_point:
        least, most = torch.iinfo(x.dtype).min, torch.iinfo(x.dtype).max
        return x.clamp(max(low, least), min(high, most)).to(wanted)
    wide = torch.where(torch.isnan(x), 0.0, x.double())
    # The largest number of 64 bits is no double, so the ends are set apart from the cast.
    inside = (wide > low) & (wide < high)
    whole = torch.where(inside, wide, 0.0).to(torch.int64)
    return torch.where(inside, whole, torch.where(wide >= high, high, low)).to(wanted)


def tensor_of(array: np.ndarray[Any, Any], kind: DataType) -> Any:
    """Return a tensor on the memory of an array.

    Raises
    ------
    ValueError
        If the strides are negative or no whole number of elements.
    """
    import torch

    if kind is DataType.BFLOAT16:  # a type of ml_dtypes, which PyTorch does not know
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Let PyTorch use this many threads in this thread's calls; 0 leaves its setting alone."""
    import torch

    before = torch.get_num_threads() if count else 0
    if before == count:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Call:
    """A kernel with the registers that it reads and writes, and those that nobody reads later."""

    kernel: Kernel
    inputs: tuple[int, ...]
    outputs: tuple[tuple[int, TensorSpec], ...]
    done: tuple[int, ...]
    reusable: tuple[int, ...]


class TorchProgram:
    """The calls of a graph, in order, and its constants.

    Parameters
    ----------
    graph : FrozenGraph
        One that the engine does not decline.
    threads : int
        Threads of PyTorch; 0: as it is set.
    forms : mapping, optional
        Choices of the engine's knobs.
    device : str, optional
        PyTorch's name of a GPU; the caller sees to it that inputs are there (`run`).
    """

    def __init__(
        self,
        graph: FrozenGraph,
        threads: int = 0,
        forms: Mapping[str, str] | None = None,
        *,
        device: str = "",
    ) -> None:
        import torch

        self.graph = graph
        self._threads = threads
        self._on_gpu = bool(device)
        with torch.inference_mode(), torch.device(device or "cpu"):
            self._constants = {
                uid: _constant(spec).to(device or "cpu")
                for uid, spec in graph.tensors.items()
                if spec.value is not None
            }
            calls = self._calls(pieces(graph, forms or {}))
        self.calls = len(calls)
        self._steps: list[Step] = [_step(call) for call in calls]

    def bind(self, memory: HostMemory) -> Callable[[], None]:
        """Return the call that computes on the memory of all inputs and outputs.

        Memory with strides that PyTorch does not have (negative ones) is copied at each call.
        """
        graph, specs = self.graph, self.graph.tensors
        given, copies = _tensors(memory, specs)
        inputs = {u: given[u].expand(specs[u].dims) for u in graph.inputs if u in given}
        targets = {u: given[u] for u in graph.outputs}
        before = [(copies[u], memory.arrays[u]) for u in inputs if u in copies]
        after = [(memory.arrays[u], copies[u]) for u in targets if u in copies]
        lock = threading.Lock()

        def call(keep: HostMemory = memory) -> None:
            with lock:
                for to, source in before:
                    np.copyto(to, source)
                self._run({**inputs, **self._scalars(keep)}, targets)
                for to, source in after:
                    np.copyto(to, source)

        return call

    def results(self, memory: HostMemory) -> Callable[[], list[Any]]:
        """Return the call whose results are in memory that PyTorch allocates, as its users do.

        That is what the engine costs in a program of PyTorch, without the copy into the caller's
        memory that functions without ``out=`` need; the outputs in ``memory`` are not touched.
        """
        graph, specs = self.graph, self.graph.tensors
        given, _ = _tensors(memory, specs)
        inputs = {u: given[u].expand(specs[u].dims) for u in graph.inputs if u in given}

        def call(keep: HostMemory = memory) -> list[Any]:
            return self.run({**inputs, **self._scalars(keep)})

        return call

    def operands(self, memory: HostMemory) -> Registers:
        """Return all inputs as tensors over the memory, the host's scalars as they are now."""
        specs = self.graph.tensors
        given, _ = _tensors(memory, specs)
        inputs = {u: given[u] for u in self.graph.inputs if u in given}
        return {**inputs, **self._scalars(memory)}

    def run(self, inputs: Registers) -> list[Any]:
        """Return the results for inputs of the graph's dims, in memory that PyTorch allocates."""
        import torch

        found, specs = self._run(inputs, {}), self.graph.tensors
        return [found[u].to(dtype(torch, specs[u].data_type)) for u in self.graph.outputs]

    def _scalars(self, memory: HostMemory) -> Registers:
        specs = self.graph.tensors
        return {u: tensor_of(read(), specs[u].data_type) for u, read in memory.readers.items()}

    def _run(self, given: Registers, targets: Mapping[int, Any]) -> Registers:
        import torch

        registers = {**self._constants, **given}
        with using_threads(self._threads), torch.inference_mode():
            for step in self._steps:
                step(registers, targets)
        return registers

    def _calls(self, found: list[Piece]) -> list[_Call]:
        """Return the calls, with constants in the types in which they are wanted."""
        import torch

        specs = self.graph.tensors
        uses = Counter(uid for piece in found for uid in piece.inputs)
        last = {uid: i for i, piece in enumerate(found) for uid in piece.inputs}
        fresh: set[int] = set()
        calls = []
        for i, piece in enumerate(found):
            kernel = piece.served.kernel(replace(piece.around, on_gpu=self._on_gpu), torch)
            inputs = tuple(map(self._held, piece.inputs, kernel.loads))
            done = {u for u in piece.inputs if last[u] == i and specs[u].virtual and u in fresh}
            reuses = piece.served.elementwise and len(piece.outputs) == 1
            calls.append(
                _Call(
                    kernel=kernel,
                    inputs=inputs,
                    outputs=tuple((u, specs[u]) for u in piece.outputs),
                    done=tuple(done),
                    reusable=tuple(u for u in done if reuses and uses[u] == 1),
                )
            )
            if kernel.takes_out or not (piece.served.views or piece.served.elementwise):
                fresh |= set(piece.outputs)
        return calls

    def _held(self, uid: int, wanted: Any) -> int:
        """Return the register of an operand: its own, or that of the converted constant."""
        constant = self._constants.get(uid)
        if constant is None or wanted in (None, constant.dtype):
            return uid
        free = min(-1, *self._constants) - 1
        self._constants[free] = convert(constant, _kinds()[wanted])
        return free


def _tensors(
    memory: HostMemory, specs: Mapping[int, TensorSpec]
) -> tuple[Registers, dict[int, np.ndarray[Any, Any]]]:
    """Return the memory as tensors, and what stands in for memory that PyTorch does not take."""
    found, copies = {}, {}
    for uid, array in memory.arrays.items():
        kind = specs[uid].data_type
        try:
            found[uid] = tensor_of(array, kind)
        except ValueError:
            copies[uid] = np.ascontiguousarray(array)
            found[uid] = tensor_of(copies[uid], kind)
    return found, copies


def _constant(spec: TensorSpec) -> Any:
    assert spec.value is not None
    array = to_dtype(scalar(spec.value, spec.data_type), spec.data_type)
    return tensor_of(array, spec.data_type).reshape(spec.dims)


def _step(call: _Call) -> Step:
    """Return the function that makes a call on registers; targets are the caller's memory."""
    loads = [
        (uid, wanted, None if wanted is None else _kinds()[wanted])
        for uid, wanted in zip(call.inputs, call.kernel.loads, strict=True)
    ]
    run, done, reusable = call.kernel.run, call.done, call.reusable
    # A function that takes out= has a result of the type of its operands.
    direct = call.kernel.loads[0] if call.kernel.takes_out else None
    single, several = call.outputs[0], len(call.outputs) > 1

    def operands(registers: Registers) -> list[Any]:
        return [
            registers[uid]
            if kind is None or registers[uid].dtype is wanted
            else convert(registers[uid], kind)
            for uid, wanted, kind in loads
        ]

    def one(registers: Registers, targets: Mapping[int, Any]) -> None:
        given = operands(registers)
        uid, spec = single
        into = targets.get(uid)
        if direct is not None:
            if into is not None and into.dtype is direct:
                registers[uid] = run(*given, out=into)
                _drop(registers, done)
                return
            for place in reusable:
                if registers[place].dtype is direct and registers[place].shape == spec.dims:
                    _store(registers, uid, spec, run(*given, out=registers[place]), into)
                    _drop(registers, done)
                    return
        _store(registers, uid, spec, run(*given), into)
        _drop(registers, done)

    def many(registers: Registers, targets: Mapping[int, Any]) -> None:
        found = run(*operands(registers))
        for (uid, spec), value in zip(call.outputs, found, strict=True):
            _store(registers, uid, spec, value, targets.get(uid))
        _drop(registers, done)

    return many if several else one


def _drop(registers: Registers, done: tuple[int, ...]) -> None:
    for uid in done:
        del registers[uid]


def _store(registers: Registers, uid: int, spec: TensorSpec, value: Any, into: Any) -> None:
    """Keep a result, converted where its type is not a floating one, and hand it out."""
    if not spec.data_type.is_float:
        value = convert(value, spec.data_type)
    registers[uid] = value
    if into is not None:
        into.copy_(value)
