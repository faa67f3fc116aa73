# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From a caller's buffers to the arguments of plugins: pairs of a uid and an address.

The rules are those of all engines (``jit.runtime.binding_rules``).  Memory that a plugin cannot use
where it is (misaligned, in other strides, on the host for a GPU) is staged: copied at each call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ....graph_api.errors import Problem
from ....graph_api.tensor import TensorSpec
from ....jit.runtime.arrays import aligned_bytes
from ....jit.runtime.caller_memory import HOST, CallerMemory, same_layout
from ....jit.runtime.device import Device
from ....jit.runtime.device_memory import copies
from ....jit.signature import ArgSpec
from ..host_memory import buffer_set
from .places import Place

if TYPE_CHECKING:
    from ...binding import BindingPlan

__all__ = ["Binding", "bind"]

_SCALAR_BYTES = 16


@dataclass
class Binding:
    """Checked buffers.

    Attributes
    ----------
    pairs : list of (uid, address)
        Outputs first, then inputs; scalars that are read at execution have a host address.
    before, after : list of callable
        Copies before and after each execution, in order.
    workspace : int or None
        Its address, if the caller gave one.
    owners : list
        The objects that keep the memory alive.
    """

    pairs: list[tuple[int, int]] = field(default_factory=list)
    before: list[Callable[[], Any]] = field(default_factory=list)
    after: list[Callable[[], Any]] = field(default_factory=list)
    workspace: int | None = None
    owners: list[object] = field(default_factory=list)


def bind(
    plan: BindingPlan, place: Place, buffers: Mapping[int, Any], workspace: Any, copy: bool
) -> Binding:
    """Check the buffers of a plan and return the arguments of a plugin.

    Raises
    ------
    BindError
        With all broken rules.
    DeviceError
        If memory for staging runs out.
    """
    graph, arguments = plan.graph, plan.arguments
    found = buffer_set(graph, arguments, buffers, workspace if plan.workspace_bytes else None)
    for uid in arguments:
        if uid in found.memory:
            found.problems += _misaligned(place, found.memory[uid], graph.tensors[uid])
    device = Device.described(place.driver, place.device_id)
    found.check(device, workspace_bytes=plan.workspace_bytes, copy=copy)
    binding = Binding(owners=found.owners)
    if "workspace" in found.memory:
        binding.workspace = found.memory["workspace"].address
    for uid, spec in arguments.items():
        if uid in found.readers:
            address = _scalar(binding, found.readers[uid])
        else:
            alignment = graph.tensors[uid].alignment
            address = _address(binding, place, spec, found.memory[uid], alignment)
        binding.pairs.append((uid, address))
    return binding


def _scalar(binding: Binding, read: Callable[[], bytes]) -> int:
    """Return the host address of a scalar, which is read before each execution."""
    memory = ctypes.create_string_buffer(_SCALAR_BYTES * 2)
    start = ctypes.addressof(memory)
    start += -start % _SCALAR_BYTES

    def refresh() -> None:
        raw = read()
        ctypes.memmove(start, raw, len(raw))

    binding.before.append(refresh)
    binding.owners.append(memory)
    return start


def _address(
    binding: Binding,
    place: Place,
    spec: ArgSpec,
    given: CallerMemory,
    alignment: int,
) -> int:
    """Return the address of a tensor for a plugin: the caller's memory, or a copy of it."""
    usable = same_layout(spec, given) and given.address % max(alignment, 1) == 0
    if usable and (place.on_host or given.device != HOST):
        return given.address
    memory = aligned_bytes(spec.nbytes)
    fill, empty = copies(spec, given, memory)
    address = int(memory.ctypes.data)
    binding.owners.append(memory)
    before: list[Callable[[], Any]] = [] if spec.output else [fill]
    after: list[Callable[[], Any]] = [empty] if spec.output else []
    if not place.on_host:
        host, nbytes = address, spec.nbytes
        address, keeper = place.allocate(nbytes)
        binding.owners.append(keeper)
        before += [partial(place.write, address, host, nbytes)] if before else []
        after[:0] = [partial(place.read, host, address, nbytes)] if after else []
    binding.before += before
    binding.after += after
    return address


def _misaligned(place: Place, given: CallerMemory, tensor: TensorSpec) -> list[Problem]:
    """Return a problem for device memory that cannot be staged and is not aligned enough."""
    alignment = tensor.alignment
    if place.on_host or given.device == HOST or given.address % max(alignment, 1) == 0:
        return []
    label, got = tensor.name or f"uid {tensor.uid}", f"address {given.address:#x}"
    return [Problem(rule="BIND-13", port=label, got=got, wanted=f"a multiple of {alignment}")]
