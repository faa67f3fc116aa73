"""Buffers of a caller as NumPy arrays over the same memory: what engines on the host share.

They take what the IREE engine takes (``jit.runtime.buffers``), by the same rules, in host memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ...graph_api.errors import BindError, Problem
from ...graph_api.frozen import FrozenGraph

if TYPE_CHECKING:
    import numpy as np

    from ...jit.runtime.buffers import Given
    from ...jit.signature import ArgSpec

__all__ = ["HostMemory", "arguments_of", "host_memory", "new_outputs"]


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

    outputs = {uid: result(spec) for uid, spec in arguments.items() if spec.output}
    if taken := outputs.keys() & inputs.keys():
        raise BindError("the buffers do not fit", [_unknown(uid) for uid in sorted(taken)])
    return outputs


def host_memory(
    graph: FrozenGraph, arguments: Mapping[int, ArgSpec], buffers: Mapping[int, Any], copy: bool
) -> HostMemory:
    """Check the buffers of a graph and return them as arrays.

    Raises
    ------
    BindError
        With all misfits (BIND-…).
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
    return HostMemory(arrays=arrays, readers=readers, owners=owners)


def _read(reader: Callable[[], bytes], spec: ArgSpec) -> np.ndarray[Any, Any]:
    from ...jit.runtime.elements import numpy_dtype
    from ...jit.runtime.scalars import one_element

    value = one_element(reader(), spec.data_type).astype(numpy_dtype(spec.data_type))
    return value.reshape(spec.dims)


def _array(spec: ArgSpec, given: Given) -> np.ndarray[Any, Any]:
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


def _unknown(uid: int) -> Problem:
    wanted = "the uid of an input or output"
    return Problem(rule="BIND-02", port=f"uid {uid}", got="a buffer", wanted=wanted)
