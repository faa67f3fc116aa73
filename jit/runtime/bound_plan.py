# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compiled function with its buffers: what each call does, and what is kept for it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any
from weakref import WeakSet

from ...graph_api.dtypes import DataType
from ...graph_api.errors import ArtifactError, BindError, DeviceError, HipdnnIreeError
from ..exit_guard import at_end, ended, refuse
from .device import Device, reason
from .device_memory import Step, end_of_queue
from .iree_native import iree
from .loaded_module import LoadedModule
from .pending import Pending, Point, collect, reached, waits
from .repeated import Repeated, flush_of
from .scalars import ArgumentList, Reader, built
from .workspaces import External, Lease, Workspace

__all__ = ["BoundPlan", "Parts", "Values", "failure", "run_chain"]

Values = tuple[bytes, ...]
"""The scalars of one execution, as bytes in memory."""

Call = Callable[..., None]
"""Executes the function; takes the scalars of this execution, else it reads them."""


class InFlight:
    """The asynchronous executions of one plan that may not have ended yet.

    Attributes
    ----------
    lock : RLock
        The lock of the plan: one call at a time.  It is reentrant because the garbage collector
        may end a `Pending` in the middle of a call.
    tail : Point or None
        When the last submitted run is done.
    workspace : Workspace or None
        The workspace that the submitted runs share; they execute one after another.
    runs : int
        Number of submitted runs whose end has not been observed.
    """

    __slots__ = ("__weakref__", "lock", "runs", "tail", "workspace")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.tail: Point | None = None
        self.workspace: Workspace | None = None
        self.runs = 0
        _alive.add(self)
        if ended():  # the end may not have seen it
            self.tail = _NO_MORE

    def wait(self) -> None:
        """Wait for the last submitted run; its `Pending` reports its error."""
        tail, self.tail = self.tail, None
        if tail is not None:
            if tail is _NO_MORE:
                self.tail = tail
                refuse()
            with suppress(Exception):
                reached(tail)

    def end(self, deadline: float) -> bool:
        """Wait for all runs, and refuse those that come; return whether all have ended in time."""
        left = max(deadline - time.monotonic(), 0.0)
        held = self.lock.acquire(timeout=left)  # no call is in IREE then
        ended = held
        try:
            if self.tail is not None:
                ended = reached(self.tail, max(deadline - time.monotonic(), 0.0)) and held
        except Exception:
            ended = held  # it failed, which its own Pending reports
        finally:
            self.tail = _NO_MORE
            if held:
                self.lock.release()
        return ended

    def last(self) -> Point | None:
        """Return when the last submitted run is done, or None if it is done already."""
        tail = self.tail
        if tail is _NO_MORE:
            refuse()
        if tail is not None:
            try:
                running = tail[0].query() < tail[1]
            except Exception:  # it failed, which its own Pending reports
                running = False
            if running:
                return tail
            if self.tail is tail:
                self.tail = None
        return None


# Takes the place of the last run when Python ends, so that asking for it costs a call nothing.
_NO_MORE: Point = (None, 0)
_alive: WeakSet[InFlight] = WeakSet()


@at_end
def _end(deadline: float) -> bool:
    alive: tuple[InFlight, ...] = ()
    for _ in range(1000):
        with suppress(RuntimeError):  # a thread has just added one
            alive = tuple(_alive)
            break
    done = [in_flight.end(deadline) for in_flight in alive]  # of each, whatever the others say
    return all(done)


os.register_at_fork(after_in_child=_alive.clear)  # of threads and a device that it has not got


@dataclass(kw_only=True, slots=True)
class Parts:
    """What a bound plan is made of.

    Attributes
    ----------
    module : LoadedModule
    refs : tuple
        Buffer views in the order of the arguments; None in the place of a scalar.
    kinds : tuple of DataType
        Types of the scalars.
    readers : sequence of Reader
        How to read the scalars.
    source : Lease or External
        Where the workspace comes from; for a plan with shared staging memory, where that does.
    held : list
        Objects that must live as long as a call runs.
    before, after : list of Step
        Copies before and after each execution.
    staged : tuple of str
        Tensors that are copied.
    inner : callable or None
        For a plan with shared staging memory: makes the call that uses some of it.
    in_flight : InFlight
        The executions of the plan that have not ended.
    """

    module: LoadedModule
    refs: tuple[Any, ...]
    kinds: tuple[DataType, ...] = ()
    readers: Sequence[Reader] = ()
    source: Lease | External
    held: list[object]
    before: list[Step] = field(default_factory=list)
    after: list[Step] = field(default_factory=list)
    staged: tuple[str, ...] = ()
    inner: Callable[[Workspace], Call] | None = None
    in_flight: InFlight = field(default_factory=InFlight)

    @property
    def device(self) -> Device:
        """The device that executes it."""
        return self.module.device

    def lists(self, workspace: Workspace) -> ArgumentList:
        """Return the argument list that contains a workspace; the workspace keeps it."""
        found = workspace.lists.get(self.source.serial)
        if found is None:
            found = workspace.lists[self.source.serial] = ArgumentList(
                (*self.refs, workspace.buffer, *self.fences()), self.kinds
            )
        return found

    def call(self, staging: Workspace) -> Call:
        """Return the call that has its copies in some staging memory, which keeps the call."""
        found: Call | None = staging.lists.get(self.source.serial)
        if found is None:
            assert self.inner is not None
            found = staging.lists[self.source.serial] = self.inner(staging)
        return found

    @property
    def function(self) -> Any:
        """The function that a call invokes."""
        return self.module.main_async if self.enqueues else self.module.main

    @property
    def enqueues(self) -> bool:
        """Whether a call only enqueues its work on the caller's stream."""
        return self.device.asynchronous and not self.staged

    def fences(self) -> tuple[Any, ...]:
        """Return the arguments after the workspace."""
        if not self.enqueues:
            return ()
        # The stream alone orders the work: there is nothing to wait for and nothing to signal.
        return iree().HalFence(0), iree().HalFence(0)

    def enqueue(
        self, workspace: Workspace, waits: Iterable[Point], done: Point, values: Values
    ) -> None:
        """Start an execution; the caller holds the lock and keeps the workspace."""
        fences, in_flight = _fences(), self.in_flight
        points = list(waits)
        if in_flight.tail is not None and (tail := in_flight.last()) is not None:
            points.append(tail)
        if len(points) == 1:
            fence = fences.create_at(*points[0])
        else:
            fence = fences(len(points))
            for semaphore, value in points:
                fence.insert(semaphore, value)
        refs = (*self.refs, workspace.buffer, fence, fences.create_at(*done))
        arguments = built(refs, self.kinds, values)
        try:
            self.module.context.invoke(self.module.main_async, arguments, _no_results())
        except Exception as error:
            raise failure(error, self.device) from error
        in_flight.tail = done


@cache
def _fences() -> Any:
    """Return IREE's type of fences; importing it each time costs more than using it."""
    return iree().HalFence


@cache
def _no_results() -> Any:
    """Return the empty result list of functions without results; nobody writes to it."""
    return iree().VmVariantList(0)


class BoundPlan:
    """A compiled function with its buffers; calling it executes it.

    The plan keeps every Python object alive whose memory it uses.  The caller must keep memory
    behind a `Pointer` or an int address alive.  Each call reads the inputs and the scalars that
    were given as memory, overwrites the outputs in place, and allocates nothing.  It returns when
    the results are complete.  On a device with an external stream it returns when the work is
    enqueued, and all memory must stay alive until the stream has executed it.

    Calls of one plan from several threads run one after another, because they share outputs.
    Different plans run concurrently; the caller must not give them the same workspace.

    Attributes
    ----------
    staged : tuple of str
        Tensors that are copied at each call: misaligned ones, or those bound with ``copy=True``.
    resident : callable
        Executes on a GPU's copies as they are, without copying from or to the host: what is timed.
        Elsewhere it is the call itself.
    """

    __slots__ = ("__weakref__", "_call", "_parts", "resident", "staged")

    def __init__(self, parts: Parts) -> None:
        source = parts.source
        if parts.inner is not None:
            call = _with_copies(parts)
        elif isinstance(source, External) and not parts.readers:
            call = _direct(parts, source.workspace)
        else:
            call = _general(parts)
        before = list(parts.before)
        if parts.device.follows:
            before.insert(0, parts.device.catch_up)
        self._call: Call = _around(call, before, parts) if before or parts.after else call
        self.resident: Call = self._call if parts.device.on_host else call
        self._parts: Parts | None = parts
        self.staged = parts.staged

    def __call__(self) -> None:
        """Execute.

        Raises
        ------
        DeviceError
            If the device fails, or the process was forked since the device was opened.
        ArtifactError
            If the arguments of the code differ from its signature.
        """
        self._call()

    def submit(self, after: Iterable[Pending] = ()) -> Pending:
        """Start an asynchronous execution; the results are complete when the `Pending` is done.

        Executions of one plan run one after another, in the order of the calls.  The caller must
        order all others, with ``after`` or by waiting.  Scalars are read now, inputs during the
        execution.

        Parameters
        ----------
        after : iterable of Pending
            Executions that must be done first.  The device waits for those of the same device,
            the host for others.

        Notes
        -----
        ``local-sync`` has no thread of its own, and a plan with `staged` tensors copies on the
        host: in both cases the execution has ended when this returns.  On an external stream the
        stream orders the work, and ``done`` and ``wait`` ask the stream.

        Raises
        ------
        DeviceError, ArtifactError
            As for a call, where the error is known immediately.
        BindError
            If the plan was closed.
        """
        return self._submit(None, after)

    @property
    def call(self) -> Call:
        """What executes the plan; it keeps all that it uses."""
        return self._call

    @property
    def busy(self) -> bool:
        """Whether a submitted execution has not ended."""
        return self._parts is not None and self._parts.in_flight.last() is not None

    @property
    def repeated(self) -> Repeated | None:
        """Executions on a GPU's copies as they are, many between two waits; None on the host."""
        parts = self._parts
        if parts is None or parts.device.on_host or parts.device.asynchronous:
            return None
        return Repeated(
            run=lambda count: _repeat(parts, count),
            cold=lambda count: _repeat(parts, count, flush=True),
            flush=lambda count: _repeat(parts, count, flush=True, run=False),
        )

    def close(self) -> None:
        """Release the buffers; later calls raise `BindError`.

        What a call in another thread uses is released when that call ends.
        """
        self._call, self.resident, self._parts = _closed, _closed, None

    def _submit(
        self, values: Values | None, after: Iterable[Pending], keep: object = None
    ) -> Pending:
        """Start an execution; ``values`` None reads the scalars; ``keep`` lives until it ends."""
        parts = self._parts
        if parts is None:
            _closed()
            raise AssertionError
        device = parts.device
        device.check()
        collect()
        points = [p.point_on(device) for p in after]
        if parts.staged or device.asynchronous:
            self._call(values)
            if not parts.enqueues:
                return Pending.finished()
            return Pending(device, held=(parts, keep), mark=partial(end_of_queue, device))
        if device.follows:
            device.catch_up()
        if values is None:
            values = tuple([read() for read in parts.readers])
        in_flight, done = parts.in_flight, (device.hal.create_semaphore(0), 1)
        with in_flight.lock:
            workspace = in_flight.workspace
            if workspace is None:
                workspace = in_flight.workspace = parts.source.acquire()
            in_flight.runs += 1
            try:
                parts.enqueue(workspace, [p for p in points if p is not None], done, values)
            except BaseException:
                _ended(parts)
                raise
        return Pending(device, done, held=(parts, keep), finish=lambda: _ended(parts))


def run_chain(device: Device, runs: Iterable[tuple[BoundPlan, Values]]) -> None:
    """Execute plans of one device one after another and wait once, at the end.

    Executions that use the pool of the device share one workspace.
    """
    with waits:
        _run_chain(device, runs)


def _run_chain(device: Device, runs: Iterable[tuple[BoundPlan, Values]]) -> None:
    done, count = device.hal.create_semaphore(0), 0
    workspaces: dict[object, tuple[Lease | External, Workspace]] = {}
    try:
        if device.follows:
            device.catch_up()
        for plan, values in runs:
            parts = plan._parts
            if parts is None or parts.staged:
                reached((done, count))  # it may copy what earlier plans wrote
                plan._call(values)
                continue
            source = parts.source
            key = (source.pool, source.nbytes) if isinstance(source, Lease) else source
            if key not in workspaces:
                workspaces[key] = (source, source.acquire())
            before = [(done, count)] if count else []
            with parts.in_flight.lock:
                parts.enqueue(workspaces[key][1], before, (done, count + 1), values)
            count += 1
    finally:
        try:
            reached((done, count))  # even after an error: memory must outlive the execution
        except Exception as error:
            raise failure(error, device) from error
        finally:
            for source, workspace in workspaces.values():
                source.release(workspace)


def _repeat(parts: Parts, count: int, *, flush: bool = False, run: bool = True) -> None:
    """Enqueue flushes of the caches, executions, or both in turns, and wait once."""
    device = parts.device
    device.check()
    values = tuple([read() for read in parts.readers])
    flushing = flush_of(device) if flush else None
    with waits, parts.in_flight.lock:
        done, at = device.hal.create_semaphore(0), 0
        workspace = parts.source.acquire()
        try:
            for _ in range(count):
                if flushing is not None:
                    flushing.enqueue([(done, at)] if at else [], (done, at + 1))
                    at += 1
                if run:
                    before = [(done, at)] if at else []
                    parts.enqueue(workspace, before, (done, at + 1), values)
                    at += 1
        finally:
            try:
                reached((done, at))  # even after an error: memory must outlive the execution
            except Exception as error:
                raise failure(error, device) from error
            finally:
                parts.source.release(workspace)


def _ended(parts: Parts) -> None:
    """Count the end of a submitted run; the last one releases their workspace."""
    in_flight = parts.in_flight
    with in_flight.lock:
        in_flight.runs -= 1
        if in_flight.runs == 0 and in_flight.workspace is not None:
            workspace, in_flight.workspace = in_flight.workspace, None
            parts.source.release(workspace)


def _closed(values: object = None) -> None:
    raise BindError("this plan was closed; bind the buffers again")


def _direct(parts: Parts, workspace: Workspace) -> Call:
    """Return the call for a fixed argument list: a lock, a check of the process id, and IREE."""
    invoke, results = parts.module.invoke, iree().VmVariantList(0)
    function, arguments = parts.function, parts.lists(workspace).at(())
    device, in_flight, getpid = parts.device, parts.in_flight, os.getpid
    lock, pid = in_flight.lock, device.pid

    # The default keeps `parts`, with all buffers, alive for as long as a call runs.
    def call(values: Values | None = None, parts: Parts = parts) -> None:
        if getpid() != pid:
            device.check()
        with lock:
            if in_flight.tail is not None:
                in_flight.wait()
            try:
                invoke(function, arguments, results)
            except Exception as error:
                raise failure(error, device) from error

    return call


def _general(parts: Parts) -> Call:
    """Return the call that acquires a workspace, and reads the scalars unless they are given."""
    invoke, results = parts.module.invoke, iree().VmVariantList(0)
    function, readers, source = parts.function, tuple(parts.readers), parts.source
    device, in_flight, getpid = parts.device, parts.in_flight, os.getpid
    lock, pid = in_flight.lock, device.pid
    acquire, release, serial = source.acquire, source.release, source.serial

    def call(values: Values | None = None, parts: Parts = parts) -> None:
        if getpid() != pid:
            device.check()
        with lock:
            if in_flight.tail is not None:
                in_flight.wait()
            if values is None:
                values = tuple([read() for read in readers]) if readers else ()
            workspace = acquire()
            try:
                lists = workspace.lists.get(serial) or parts.lists(workspace)
                invoke(function, lists.at(values), results)
            except Exception as error:
                raise failure(error, device) from error
            finally:
                release(workspace)

    return call


def _with_copies(parts: Parts) -> Call:
    """Return the call that acquires the memory for its copies."""
    lock, source = parts.in_flight.lock, parts.source
    acquire, release, serial = source.acquire, source.release, source.serial

    def call(values: Values | None = None, parts: Parts = parts) -> None:
        with lock:
            staging = acquire()
            try:
                (staging.lists.get(serial) or parts.call(staging))(values)
            finally:
                release(staging)

    return call


def _around(call: Call, before: Sequence[Step], parts: Parts) -> Call:
    """Return the call with its copies before and after it."""
    lock, after = parts.in_flight.lock, tuple(parts.after)

    def around(values: Values | None = None) -> None:
        with waits, lock:  # a copy may wait for a device
            for step in before:
                step()
            call(values)
            for step in after:
                step()

    return around


def failure(error: Exception, device: Device) -> HipdnnIreeError:
    """Return the error of this project for an error of IREE."""
    # IREE checks the number, shape, type and size of the arguments before any work.
    if isinstance(error, (ValueError, IndexError)):
        return ArtifactError(f"the code does not match its signature: {reason(error)}")
    if not device.on_host:
        device.close()  # IREE's repeats the error from now on; the next plan has a new one
    return DeviceError(f"{device!r} failed: {reason(error)}")
