"""The reference engine: float64 NumPy on the host; slow, for checking, never chosen silently.

It says what a graph means (``provider.reference``), so that another engine's results can be held
against it, and it serves as an engine like any other when somebody asks for it by name.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ...graph_api.errors import BindError, Decline, Problem
from ...graph_api.frozen import FrozenGraph
from ...graph_api.ops import OPS
from ...jit.target import Target
from ..dynamic import ExactPlan
from ..engine import Engine, Plan, checked_knobs

if TYPE_CHECKING:
    import numpy as np

    from ...jit.runtime.buffers import Given
    from ...jit.signature import ArgSpec

__all__ = ["RULES", "ReferenceEngine", "ReferencePlan"]

RULES: dict[str, str] = {
    "REFERENCE-01": "the target is the CPU, which NumPy computes on",
    "REFERENCE-02": "tensors are not ragged",
}


class ReferenceEngine(Engine):
    """Serves every op that has a reference, on the CPU."""

    NAME = "REFERENCE_ENGINE"
    ALIAS = "reference"
    BY_DEFAULT = False  # slow, and for checking

    def ops(self) -> tuple[str, ...]:
        return tuple(OPS)  # every op has a reference; the tests see to that

    def targets(self) -> tuple[str, ...]:
        return ("cpu",)

    def declines(self, graph: FrozenGraph, target: Target) -> list[Decline]:
        from ..reference import unsupported

        found = list(unsupported(graph))
        if not target.is_cpu:
            found.append(Problem(rule="REFERENCE-01", port="target", got=str(target), wanted="cpu"))
        found += [
            Problem(rule="REFERENCE-02", port=spec.label, got="a ragged tensor", wanted="dense")
            for spec in graph.tensors.values()
            if spec.ragged_offset_uid is not None
        ]
        return [Decline(engine=self.NAME, problem=problem) for problem in found]

    def build(
        self, graph: FrozenGraph, target: Target, knobs: Mapping[str, str] | None = None
    ) -> Plan:
        checked_knobs(self, graph, target, knobs)
        if graph.symbols:
            return ExactPlan(engine=self.NAME, graph=graph, target=target)
        return ReferencePlan(engine=self.NAME, graph=graph, target=target)


@dataclass(kw_only=True)
class ReferencePlan(Plan):
    """A graph that is evaluated in float64 and rounded once to the type of each output.

    It takes what the IREE engine takes (``jit.runtime.buffers``), by the same rules, in host
    memory.  A workspace is not needed, and ignored.
    """

    def _execute(self, buffers: Mapping[int, Any], workspace: Any) -> None:
        self._bind(buffers, workspace, False)()

    def _run(self, inputs: Mapping[int, Any], copy: bool) -> dict[int, np.ndarray[Any, Any]]:
        from ...jit.runtime.arrays import result

        outputs = {uid: result(spec) for uid, spec in self._arguments().items() if spec.output}
        if taken := outputs.keys() & inputs.keys():
            raise BindError("the buffers do not fit", [_unknown(uid) for uid in sorted(taken)])
        self._bind({**inputs, **outputs}, None, copy)()
        return outputs

    def _bind(self, buffers: Mapping[int, Any], workspace: Any, copy: bool) -> Callable[[], None]:
        from ...jit.runtime.arrays import pack, unpack
        from ..reference import execute, to_dtype

        graph, arguments = self.graph, self._arguments()
        memory, readers, owners = _memory(graph, arguments, buffers, copy)

        # `owners` rides along as a default, so that the memory lives as long as the call.
        def call(owners: list[object] = owners) -> None:
            inputs = {
                u: readers[u]() if u in readers else unpack(arguments[u], memory[u])
                for u in graph.inputs
            }
            for uid, result in execute(graph, inputs).items():
                spec = arguments[uid]
                values = to_dtype(result, spec.data_type)
                packed = memory[uid].dtype != values.dtype
                memory[uid][...] = pack(spec, values) if packed else values

        return call

    def _arguments(self) -> dict[int, ArgSpec]:
        from ...jit.pipeline import signature_of

        uids = (*self.graph.outputs, *self.graph.inputs)
        return dict(zip(uids, signature_of(self.graph).args, strict=True))


def _memory(
    graph: FrozenGraph, arguments: Mapping[int, ArgSpec], buffers: Mapping[int, Any], copy: bool
) -> tuple[
    dict[int, np.ndarray[Any, Any]],
    dict[int, Callable[[], np.ndarray[Any, Any]]],
    list[object],
]:
    """Return the memory of each buffer as an array, how to read scalars, and what owns both.

    Raises `BindError`.
    """
    from ...jit.runtime.buffers import describe
    from ...jit.runtime.device import Device
    from ...jit.runtime.rules import judge, overlaps
    from ...jit.runtime.scalars import describe_scalar

    host = Device("local-sync", 0, None, None, None)  # a description only: nothing is opened
    givens: dict[int, Given] = {}
    readers: dict[int, Callable[[], np.ndarray[Any, Any]]] = {}
    owners: list[object] = []
    ranges: list[tuple[str, bool, int, int]] = []
    problems = [_unknown(uid) for uid in buffers if uid not in arguments]
    for uid, spec in arguments.items():
        label = graph.tensors[uid].name or f"uid {uid}"
        if uid not in buffers:
            wanted = f"{'a number' if spec.scalar else 'a buffer'} for uid {uid}"
            problems.append(Problem(rule="BIND-01", port=label, got="none", wanted=wanted))
            continue
        if spec.scalar:
            scalar = describe_scalar(buffers[uid], spec, label)
            if isinstance(scalar, list):
                problems += scalar
            else:
                readers[uid] = partial(_read, scalar[0], spec)
                owners.append(scalar[1])
            continue
        found = describe(buffers[uid], label)
        if isinstance(found, Problem):
            problems.append(found)
            continue
        givens[uid], owner = found
        owners.append(owner)
        problems += judge(spec, givens[uid], label, host, copy)
        ranges.append((label, spec.output, *givens[uid].bounds(spec.nbytes)))
    problems = problems or overlaps(ranges)
    if problems:
        raise BindError(f"{len(problems)} problem(s) with the buffers", problems)
    arrays = {uid: _array(arguments[uid], given) for uid, given in givens.items()}
    return arrays, readers, owners


def _read(reader: Callable[[], bytes], spec: ArgSpec) -> np.ndarray[Any, Any]:
    from ...jit.runtime.elements import numpy_dtype
    from ...jit.runtime.scalars import one_element

    value = one_element(reader(), spec.data_type).astype(numpy_dtype(spec.data_type))
    return value.reshape(spec.dims)


def _array(spec: ArgSpec, given: Given) -> np.ndarray[Any, Any]:
    """Return memory with the tensor's dims; NumPy takes any strides, so nothing is copied."""
    import numpy as np

    from ...jit.runtime.arrays import view
    from ...jit.runtime.elements import is_packed, value_dtype

    low, high = given.bounds(spec.nbytes)
    memory: Any = (ctypes.c_char * (high - low)).from_address(low)
    bytes_ = is_packed(spec.data_type) and given.type is not spec.data_type
    if given.dims is None or given.strides is None or bytes_:
        return view(memory, spec)
    unit = 1 if given.uneven else given.itemsize
    steps = tuple(s * unit for s in given.strides)
    dtype = value_dtype(spec.data_type)
    array = np.ndarray(given.dims, dtype, memory, given.address - low, steps)
    return array if spec.output else np.broadcast_to(array, spec.dims)


def _unknown(uid: int) -> Problem:
    wanted = "the uid of an input or output"
    return Problem(rule="BIND-02", port=f"uid {uid}", got="a buffer", wanted=wanted)
