# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A caller's buffers as NumPy arrays over the same memory, for the engines that run on the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ...graph_api.frozen import FrozenGraph
from ...jit.pipeline import signature_of
from ...jit.runtime.arrays import result
from ...jit.runtime.binding_rules import refusal, unknown
from ...jit.runtime.buffer_set import Argument, BufferSet
from ...jit.runtime.device import Device
from ...jit.runtime.elements import numpy_dtype
from ...jit.runtime.scalars import one_element

if TYPE_CHECKING:
    import numpy as np

    from ...jit.signature import ArgSpec

__all__ = ["HostMemory", "arguments_of", "buffer_set", "host_memory", "new_outputs"]


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
    outputs = {uid: result(spec) for uid, spec in arguments.items() if spec.output}
    if taken := outputs.keys() & inputs.keys():
        raise refusal(unknown(taken, "run() makes the outputs"))
    return outputs


def buffer_set(
    graph: FrozenGraph,
    arguments: Mapping[int, ArgSpec],
    buffers: Mapping[int, Any],
    workspace: Any = None,
) -> BufferSet:
    """Return the buffers of a graph as they were given, not checked yet."""
    labels = {uid: graph.tensors[uid].name or f"uid {uid}" for uid in arguments}
    rows = [Argument(uid, labels[uid], spec) for uid, spec in arguments.items()]
    return BufferSet(rows, buffers, workspace)


def host_memory(
    graph: FrozenGraph, arguments: Mapping[int, ArgSpec], buffers: Mapping[int, Any], copy: bool
) -> HostMemory:
    """Check the buffers of a graph and return them as arrays.

    Raises
    ------
    BindError
        With all broken rules (BIND-...).
    """
    found = buffer_set(graph, arguments, buffers)
    found.check(Device.described("local-sync"), copy=copy)
    tensors = [uid for uid, spec in arguments.items() if not spec.scalar]
    return HostMemory(
        arrays={uid: found.memory[uid].array(arguments[uid]) for uid in tensors},
        readers={uid: partial(_read, raw, arguments[uid]) for uid, raw in found.readers.items()},
        owners=found.owners,
    )


def _read(reader: Callable[[], bytes], spec: ArgSpec) -> np.ndarray[Any, Any]:
    value = one_element(reader(), spec.data_type).astype(numpy_dtype(spec.data_type))
    return value.reshape(spec.dims)
