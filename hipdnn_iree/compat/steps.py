# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From a graph to its execution, in the steps that both frontends have."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ..graph_api.errors import DeviceError, NotSupportedError
from ..graph_api.tensor import TensorSpec
from ..provider.graph import Graph
from .tensors import TensorAttributes

if TYPE_CHECKING:
    from ..jit.target import Target
    from ..provider.plan import Plan
    from ..provider.selection.candidate import Candidate

__all__ = ["DeviceBuffer", "Handle", "Steps"]


class Handle:
    """Where graphs run: a target, and a stream of it.

    Parameters
    ----------
    target : str or Target, optional
        What plans are built for; the first AMD GPU of this machine when there is one, else the
        CPU.  Of this package: the other frontends have the GPU only.
    stream : int
        ``hipStream_t``; 0 is the default stream.
    """

    def __init__(self, target: Target | str | None = None, stream: int = 0) -> None:
        from ..jit.target import Target

        self.target = _here() if target is None else Target.parse(target)
        self.stream = stream

    def __repr__(self) -> str:
        return f"<Handle for {self.target}>"


class DeviceBuffer:
    """Memory of the device that graphs run on, as ``hipdnn_frontend`` has it.

    Parameters
    ----------
    nbytes : int
        Size in bytes; the content is undefined.
    """

    def __init__(self, nbytes: int) -> None:
        from ..jit.runtime.arrays import aligned_bytes

        if not _here().is_cpu:
            raise DeviceError(
                "a DeviceBuffer holds host memory, and graphs run on a GPU here; pass tensors of "
                "PyTorch or CuPy, or addresses of HIP memory"
            )
        self.nbytes = nbytes
        self._memory = aligned_bytes(max(nbytes, 1))

    def ptr(self) -> int:
        """Return the address."""
        return int(self._memory.ctypes.data)

    def copy_from_host(self, data: bytes) -> None:
        """Fill the memory.

        Raises
        ------
        ValueError
            If there are more bytes than it has.
        """
        import numpy as np

        if len(data) > self.nbytes:
            raise ValueError(f"{len(data)} bytes for a DeviceBuffer of {self.nbytes}")
        self._memory[: len(data)] = np.frombuffer(data, np.uint8)

    def copy_to_host(self) -> bytes:
        """Return a copy of the memory."""
        return self._memory[: self.nbytes].tobytes()


class Steps:
    """A graph on its way: described, built, executed.

    Attributes
    ----------
    inner : Graph
        Ours, with everything that this package can do with a graph.
    handle : Handle
        Where it is built for.
    plan : Plan or None
        Ours, once it is built.
    """

    def __init__(self, inner: Graph, handle: Handle | None) -> None:
        self.inner = inner
        self.handle = handle or Handle()
        self.plan: Plan | None = None
        self.served: list[Candidate] = []
        self.pinned: tuple[int, Mapping[str, str]] | None = None

    def restart(self, inner: Graph, handle: Handle | None = None) -> None:
        """Take another graph."""
        self.inner, self.handle = inner, handle or self.handle
        self.plan, self.served, self.pinned = None, [], None

    def ask(self) -> list[Candidate]:
        """Return the engines that serve the graph.

        Raises
        ------
        NotSupportedError
            If there is none, with every reason.
        """
        if not self.served:
            found = self.inner.plans(self.handle.target)
            self.served = [candidate for candidate in found if candidate.served]
            if not self.served:
                reasons = [reason for candidate in found for reason in candidate.reasons]
                name = self.inner.name
                raise NotSupportedError(f"no engine serves graph {name!r}", reasons)
        return self.served

    def built(self) -> Plan:
        """Return the plan; it is built where it is not."""
        if self.plan is None:
            engine, knobs = self.pinned or (None, None)
            self.plan = self.inner.build(
                self.handle.target, engine=None if engine is None else str(engine), knobs=knobs
            )
        return self.plan

    def at(self, index: int) -> Candidate:
        """Return the engine with this index among those that serve the graph."""
        served = self.ask()
        if not 0 <= index < len(served):
            names = ", ".join(f"{i} {c.name}" for i, c in enumerate(served))
            raise NotSupportedError(f"there is no plan {index}; there are {names}")
        return served[index]

    def run(
        self,
        plan: Plan,
        pack: Mapping[Any, Any],
        workspace: Any,
        handle: Handle | None,
        shapes: Mapping[int, tuple[Sequence[int], Sequence[int]]] | None = None,
    ) -> None:
        """Execute a plan on a caller's buffers, by tensor or uid."""
        if shapes:
            plan = plan.with_shapes(shapes)
        buffers = {}
        for key, value in pack.items():
            if key is None:  # as results that were not asked for
                continue
            uid = key.get_uid() if isinstance(key, TensorAttributes) else int(key)
            spec = plan.graph.tensors.get(uid)
            if spec is not None and spec.virtual:
                continue
            buffers[uid] = value if spec is None else _memory(value, spec, plan.target)
        stream = (handle or self.handle).stream
        plan.execute(
            buffers, workspace if plan.workspace_bytes else None, stream=stream if stream else None
        )


def _memory(value: Any, spec: TensorSpec, target: Target) -> Any:
    """Return a buffer for a tensor; dense memory of other dims is taken for the tensor's.

    Both frontends look at addresses only, so that a bias of dims (1, 64, 1, 1) may come in an
    array of 64 elements.
    """
    from ..jit.runtime.caller_memory import HOST, Pointer, describe

    if isinstance(value, DeviceBuffer):
        return Pointer(value.ptr(), value.nbytes)
    if spec.runtime_scalar or isinstance(value, int) or value is None:
        return value
    found = describe(value, spec.label)
    if not isinstance(found, tuple):
        return value  # which is refused with the reason
    given, span = found[0], spec.layout.span
    fits = given.type is spec.data_type and (given.device == HOST) == target.is_cpu
    if not fits or given.dims in (None, spec.dims) or given.read_only or not given.contiguous:
        return value
    return Pointer(given.address, given.size) if prod(given.dims or ()) == span else value


def _here() -> Target:
    """Return the target of the first AMD GPU, or the CPU where there is no AMD GPU."""
    from ..jit.runtime.hip import KERNEL_DRIVER, call, emulated, target_of
    from ..jit.target import Target

    if not emulated() and not os.path.exists(KERNEL_DRIVER):
        return Target.parse("cpu")
    hint = 'or pass a handle: create_handle(target="cpu")'
    if not call("hipGetDeviceCount", instead=hint):
        return Target.parse("cpu")
    return target_of(0, call("hipGetDeviceProperties", 0, instead=hint))
