"""Buffers of a caller as NumPy arrays over the same memory: what engines on the host share.

They take what the IREE engine takes (``jit.runtime.caller_memory``), by the same rules, in host
memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ...graph_api.errors import Problem
from ...graph_api.frozen import FrozenGraph

if TYPE_CHECKING:
    import numpy as np

    from ...jit.runtime.caller_memory import CallerMemory
    from ...jit.runtime.device import Device
    from ...jit.signature import ArgSpec

__all__ = [
    "Described",
    "HostMemory",
    "arguments_of",
    "describe_buffers",
    "host_memory",
    "new_outputs",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class HostMemory:
    """The buffers of a graph.

    Attributes
    ----------
    arrays : mapping of uid to ndarray
        Memory of each buffer with the tensor's dims (1 where it is broadcast); nothing is copied.
    readers : mapping of uid to callable
        How to read each scalar that the host passes, as an array of one element.
    owners : list
        What owns the memory, to be kept as long as it is used.
    """

    arrays: dict[int, np.ndarray[Any, Any]]
    readers: dict[int, Callable[[], np.ndarray[Any, Any]]]
    owners: list[object]


def arguments_of(graph: FrozenGraph) -> dict[int, ArgSpec]:
    """Return what each output and input is, by uid."""
    from ...jit.pipeline import signature_of

    uids = (*graph.outputs, *graph.inputs)
    return dict(zip(uids, signature_of(graph).args, strict=True))


def new_outputs(
    arguments: Mapping[int, ArgSpec], inputs: Mapping[int, Any]
) -> dict[int, np.ndarray[Any, Any]]:
    """Return new arrays for the outputs, in the right layout.

    Raises
    ------
    BindError
        If the caller gave a buffer for one (BIND-02).
    """
    from ...jit.runtime.arrays import result
    from ...jit.runtime.binding_rules import refusal, unknown

    outputs = {uid: result(spec) for uid, spec in arguments.items() if spec.output}
    if taken := outputs.keys() & inputs.keys():
        raise refusal(unknown(taken, "run() makes the outputs"))
    return outputs


@dataclass(kw_only=True, slots=True)
class Described:
    """The buffers of a graph as they were given, and what is wrong with them.

    Attributes
    ----------
    givens : mapping of uid to (CallerMemory, owner)
        Facts of each buffer, and what owns its memory.
    scalars : mapping of uid to callable
        How to read each scalar that the host passes, as bytes.
    owners : list
        What owns the memory of all of them.
    ranges : list
        Bytes that they take, for `rules.overlaps`.
    problems : list of Problem
    """

    givens: dict[int, tuple[CallerMemory, object]]
    scalars: dict[int, Callable[[], bytes]]
    owners: list[object]
    ranges: list[tuple[str, bool, int, int]]
    problems: list[Problem]

    def check(self) -> None:
        """Raise `BindError` if something is wrong, or outputs overlap."""
        from ...jit.runtime.binding_rules import overlaps, refusal

        problems = self.problems or overlaps(self.ranges)
        if problems:
            raise refusal(problems)


def describe_buffers(
    graph: FrozenGraph,
    arguments: Mapping[int, ArgSpec],
    buffers: Mapping[int, Any],
    device: Device,
    copy: bool,
) -> Described:
    """Judge the buffers of a graph by the rules of a device (which need not be open)."""
    from ...jit.runtime.binding_rules import judge, missing, unknown
    from ...jit.runtime.caller_memory import describe
    from ...jit.runtime.scalars import describe_scalar

    problems = unknown(buffers.keys() - arguments.keys())
    found = Described(givens={}, scalars={}, owners=[], ranges=[], problems=problems)
    for uid, spec in arguments.items():
        label = graph.tensors[uid].name or f"uid {uid}"
        if uid not in buffers:
            problems.append(missing(spec, uid, label))
            continue
        if spec.scalar:
            scalar = describe_scalar(buffers[uid], spec, label)
            if isinstance(scalar, list):
                problems += scalar
            else:
                found.scalars[uid] = scalar[0]
                found.owners.append(scalar[1])
            continue
        one = describe(buffers[uid], label)
        if isinstance(one, Problem):
            problems.append(one)
            continue
        found.givens[uid] = one
        found.owners.append(one[1])
        problems += judge(spec, one[0], label, device, copy)
        found.ranges.append((label, spec.output, *one[0].bounds(spec.nbytes)))
    return found


def host_memory(
    graph: FrozenGraph, arguments: Mapping[int, ArgSpec], buffers: Mapping[int, Any], copy: bool
) -> HostMemory:
    """Check the buffers of a graph and return them as arrays.

    Raises
    ------
    BindError
        With all misfits (BIND-…).
    """
    from ...jit.runtime.device import Device

    found = describe_buffers(graph, arguments, buffers, Device.described("local-sync"), copy)
    found.check()
    return HostMemory(
        arrays={uid: _array(arguments[uid], given) for uid, (given, _) in found.givens.items()},
        readers={uid: partial(_read, raw, arguments[uid]) for uid, raw in found.scalars.items()},
        owners=found.owners,
    )


def _read(reader: Callable[[], bytes], spec: ArgSpec) -> np.ndarray[Any, Any]:
    from ...jit.runtime.elements import numpy_dtype
    from ...jit.runtime.scalars import one_element

    value = one_element(reader(), spec.data_type).astype(numpy_dtype(spec.data_type))
    return value.reshape(spec.dims)


def _array(spec: ArgSpec, given: CallerMemory) -> np.ndarray[Any, Any]:
    """Return memory as an array; NumPy takes any strides, so nothing is copied."""
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
    return np.ndarray(given.dims, dtype, memory, given.address - low, steps)
