# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A program on the addresses of its outputs and inputs."""

from __future__ import annotations

import ctypes
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ...jit.runtime.address_calls import Call
from ...jit.runtime.arrays import ALIGNMENT
from ..engines.iree.iree_plan import IreePlan
from ..plan import Plan, TensorKey
from .finished import Copy, Execution, Place, Program
from .memory import GpuMemory, HostMemory, Memory

__all__ = ["Kernel", "Watch"]

_REMEMBERED = 64  # sets of addresses of a frame
_KEPT_STREAMS = 8

Watch = Callable[[str, float], None]
"""Is told a graph's name, and the seconds that its execution took; without a name what binding
took, which only a call with new addresses needs."""

_Frames = list["_Frame"]


class Kernel:
    """A program with plans and weights, ready to run; any number of threads may call it.

    Parameters
    ----------
    program : Program
    plans : mapping of str to Plan
        By the name of their graph.
    weights : sequence of int
        Addresses, in the program's order; kept by ``kept``.
    memory : Memory
        Of a GPU: plans run on that, and each call passes a stream of it.
    kept : object
        Lives as long as the kernel.
    """

    def __init__(
        self,
        program: Program,
        plans: Mapping[str, Plan],
        weights: Sequence[int],
        memory: Memory,
        *,
        kept: object = None,
    ) -> None:
        self._streams = isinstance(memory, GpuMemory)
        if isinstance(memory, GpuMemory):
            plans = {
                name: plan.on_device(memory.device_id) if isinstance(plan, IreePlan) else plan
                for name, plan in plans.items()
            }
        self.program, self.plans = program, _with_constants(program, plans, weights)
        self._weights, self._memory, self._kept = weights, memory, kept
        self._free: OrderedDict[int, _Frames] = OrderedDict()
        self._constants = [memory.keep(data) for data in program.constants]
        self._lock = threading.Lock()

    def __call__(self, addresses: tuple[int, ...], watch: Watch | None = None) -> None:
        """Run on addresses: of outputs, of inputs, and the stream where there are any."""
        stream = addresses[-1] if self._streams else 0
        frames = self._free.get(stream)
        if frames is None:
            frames = self._frames(stream)
        try:
            frame = frames.pop()  # one operation, so that no two threads get the same
        except IndexError:
            frame = self._frame(stream)
        try:
            if watch is None:
                frame(addresses)
            else:
                frame.watched(addresses, watch)
        finally:
            frames.append(frame)

    def _frames(self, stream: int) -> _Frames:
        with self._lock:
            found = self._free.setdefault(stream, [])
            if len(self._free) > _KEPT_STREAMS:
                self._free.popitem(last=False)
        return found

    def _frame(self, stream: int) -> _Frame:
        base, kept = self._memory.block(self.program.memory) if self.program.memory else (0, None)
        known = {
            **{Place("weight", k): address for k, address in enumerate(self._weights)},
            **{Place("constant", k): pair[0] for k, pair in enumerate(self._constants)},
        }
        plans = self.plans
        if self._streams:
            plans = {name: plan.on_stream(stream) for name, plan in plans.items()}
        return _Frame(self.program, plans, known, base, self._memory, stream, kept)


class _Frame:
    """A program with one block of intermediate buffers, for one thread at a time."""

    def __init__(
        self,
        program: Program,
        plans: Mapping[str, Plan],
        known: Mapping[Place, int],
        base: int,
        memory: Memory,
        stream: int,
        kept: object,
    ) -> None:
        self._plans, self._known, self._base = plans, known, base
        self._memory, self._stream, self._kept = memory, stream, kept
        self._outputs = len(program.outputs)
        # What the caller passes misaligned is copied here, to where code is bound once: a tenth
        # of the time of binding it anew.
        self._staging: dict[int, tuple[int, object]] = {}
        self._sizes = program.sizes if isinstance(memory, HostMemory) else ()
        self._names = {
            k: step.graph for k, step in enumerate(program.steps) if isinstance(step, Execution)
        }
        # What touches nothing of the caller's is bound once.
        self._steps: list[Call | Execution | Copy] = [
            step if _is_open(step) else self._bound(step, ()) for step in program.steps
        ]
        self._calls: OrderedDict[tuple[int, ...], list[Call]] = OrderedDict()

    def __call__(self, addresses: tuple[int, ...]) -> None:
        calls = self._calls.get(addresses)
        if calls is None:
            calls = self._bind(addresses)
        for call in calls:
            call()

    def watched(self, addresses: tuple[int, ...], watch: Watch) -> None:
        """Run as a call does, with the time of each execution."""
        begin = time.perf_counter()
        calls = self._calls.get(addresses) or self._bind(addresses)
        _, before, _ = self._aligned(addresses)
        names = {len(before) + k: name for k, name in self._names.items()}
        watch("", time.perf_counter() - begin)
        for k, call in enumerate(calls):
            begin = time.perf_counter()
            call()
            if k in names:
                watch(names[k], time.perf_counter() - begin)

    def _bind(self, addresses: tuple[int, ...]) -> list[Call]:
        staged, before, after = self._aligned(addresses)
        calls = self._calls.get(staged) if staged != addresses else None
        if calls is None:
            calls = [
                self._bound(step, staged) if isinstance(step, Execution | Copy) else step
                for step in self._steps
            ]
        if staged != addresses:
            self._calls[staged] = calls
            calls = [*before, *calls, *after]
        self._calls[addresses] = calls
        if len(self._calls) > _REMEMBERED:
            self._calls.popitem(last=False)
        return calls

    def _aligned(
        self, addresses: tuple[int, ...]
    ) -> tuple[tuple[int, ...], list[Call], list[Call]]:
        """Return the addresses that code is bound to, and the copies before and after it."""
        before: list[Call] = []
        after: list[Call] = []
        staged = list(addresses)
        for k, size in enumerate(self._sizes):
            if addresses[k] % ALIGNMENT == 0 or not size:
                continue
            if k not in self._staging:
                self._staging[k] = self._memory.block(size)
            here = staged[k] = self._staging[k][0]
            if k < self._outputs:
                after.append(_move(addresses[k], here, size))
            else:
                before.append(_move(here, addresses[k], size))
        return tuple(staged), before, after

    def _bound(self, step: Execution | Copy, addresses: tuple[int, ...]) -> Call:
        if isinstance(step, Copy):
            source, target = (self._at(p, addresses) for p in (step.source, step.target))
            return partial(self._memory.copy, target, source, step.nbytes, self._stream)
        plan = self._plans[step.graph]
        executable: Any = getattr(plan, "executable", None)
        held = getattr(plan, "held", None) or ()
        buffers: dict[TensorKey, int] = {
            uid: self._at(place, addresses) for uid, place in step.buffers if uid not in held
        }
        found: Callable[[], None] | None = executable and executable.call_at(buffers)
        return found or plan.bind(buffers)

    def _at(self, place: Place, addresses: tuple[int, ...]) -> int:
        match place.kind:
            case "output":
                return addresses[place.number]
            case "input":
                return addresses[self._outputs + place.number]
            case "memory":
                return self._base + place.number
        return self._known[place]


def _with_constants(
    program: Program, plans: Mapping[str, Plan], weights: Sequence[int]
) -> dict[str, Plan]:
    """Return the plans with the weights that their graphs hold, at these addresses."""
    found = dict(plans)
    for step in program.steps:
        plan = found[step.graph] if isinstance(step, Execution) else None
        if isinstance(step, Execution) and isinstance(plan, IreePlan) and plan.graph.constants:
            places = dict(step.buffers)
            held = {uid: weights[places[uid].number] for uid in plan.graph.constants}
            found[step.graph] = plan.with_constants(held)
    return found


def _move(target: int, source: int, nbytes: int) -> Call:
    made: Call = partial(ctypes.memmove, target, source, nbytes)  # type: ignore[assignment]
    return made


def _is_open(step: Execution | Copy) -> bool:
    """Whether a step reads or writes what the caller passes."""
    places = (step.source, step.target) if isinstance(step, Copy) else [p for _, p in step.buffers]
    return any(place.kind in ("input", "output") for place in places)
