"""A compiled function with its buffers: what runs at each call, and what is kept for it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ...graph_api.dtypes import DataType
from ...graph_api.errors import ArtifactError, BindError, DeviceError, HipdnnIreeError
from .device import Device, reason
from .device_memory import Step
from .loaded_module import LoadedModule
from .pending import Pending, Point, collect
from .scalars import ArgumentList, Reader, built
from .workspaces import External, Lease, Workspace

__all__ = ["BoundPlan", "Parts", "Values", "failure", "run_chain"]

Values = tuple[bytes, ...]
"""The scalars of one run, as they lie in memory."""

Call = Callable[..., None]
"""Runs the function; takes the scalars of this one run, when not those that were bound."""


class InFlight:
    """What of a plan is under way without anybody waiting for it.

    Attributes
    ----------
    lock : RLock
        Of the plan: one call at a time.  Reentrant, since the collector may end a `Pending` in
        the middle of a call.
    tail : Point or None
        When the last submitted run is done.
    space : Workspace or None
        The workspace of the submitted runs, which follow one another and so share it.
    users : int
        How many of them have not been seen to end.
    """

    __slots__ = ("lock", "space", "tail", "users")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.tail: Point | None = None
        self.space: Workspace | None = None
        self.users = 0

    def settle(self) -> None:
        """Wait for what is under way; its errors are those of its `Pending`."""
        tail, self.tail = self.tail, None
        if tail is not None:
            try:
                tail[0].wait(tail[1])
            except Exception:
                return

    def order(self) -> Point | None:
        """Return what the next run must wait for on the device."""
        tail = self.tail
        if tail is not None:
            try:
                going = tail[0].query() < tail[1]
            except Exception:  # it failed, which its own Pending tells
                going = False
            if going:
                return tail
            if self.tail is tail:
                self.tail = None
        return None


@dataclass(kw_only=True, slots=True)
class Parts:
    """What a bound plan is made of.

    Attributes
    ----------
    module : LoadedModule
    refs : tuple
        Buffer views in the order of the arguments, None where a scalar stands.
    kinds : tuple of DataType
        Types of the scalars.
    readers : sequence of Reader
        How to read the scalars.
    home : Lease or External
        Where the workspace comes from.
    held : list
        What must live as long as a call runs.
    before, after : list of Step
        Copies around each run.
    staged : tuple of str
        Tensors that are copied.
    flight : InFlight
        What is under way of the plan.
    """

    module: LoadedModule
    refs: tuple[Any, ...]
    kinds: tuple[DataType, ...] = ()
    readers: Sequence[Reader] = ()
    home: Lease | External
    held: list[object]
    before: list[Step] = field(default_factory=list)
    after: list[Step] = field(default_factory=list)
    staged: tuple[str, ...] = ()
    flight: InFlight = field(default_factory=InFlight)

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self.module.device

    def lists(self, space: Workspace) -> ArgumentList:
        """Return the argument list with a workspace, which keeps it."""
        found = space.lists.get(self.home.serial)
        if found is None:
            found = space.lists[self.home.serial] = ArgumentList(
                (*self.refs, space.buffer, *self.fences()), self.kinds
            )
        return found

    @property
    def function(self) -> Any:
        """What a call invokes."""
        return self.module.main_async if self.enqueues else self.module.main

    @property
    def enqueues(self) -> bool:
        """Whether a call returns when the work is on the caller's stream."""
        return self.device.asynchronous and not self.staged

    def fences(self) -> tuple[Any, ...]:
        """Return the arguments after the workspace."""
        if not self.enqueues:
            return ()
        from iree.runtime import HalFence

        # Stream order is all the order there is: nothing to wait for, nothing to signal.
        return HalFence(0), HalFence(0)

    def enqueue(
        self, space: Workspace, waits: Iterable[Point], done: Point, values: Values
    ) -> None:
        """Start a run on the device; the caller holds the lock and keeps the workspace."""
        fences, flight = _fences(), self.flight
        points = list(waits)
        if flight.tail is not None and (tail := flight.order()) is not None:
            points.append(tail)
        if len(points) == 1:
            fence = fences.create_at(*points[0])
        else:
            fence = fences(len(points))
            for semaphore, value in points:
                fence.insert(semaphore, value)
        refs = (*self.refs, space.buffer, fence, fences.create_at(*done))
        arguments = built(refs, self.kinds, values)
        try:
            self.module.context.invoke(self.module.main_async, arguments, _no_results())
        except Exception as error:
            raise failure(error, self.device) from error
        flight.tail = done


@cache
def _fences() -> Any:
    """Return IREE's type of fences; importing it anew costs more than using it."""
    from iree.runtime import HalFence

    return HalFence


@cache
def _no_results() -> Any:
    """Return a list for the results of functions that have none, which nobody writes."""
    from iree.runtime import VmVariantList

    return VmVariantList(0)


class BoundPlan:
    """A compiled function with its buffers; calling it runs it.

    The plan keeps alive every Python object whose memory it uses; memory behind a `Pointer` or
    an int address is the caller's to keep.  A call reads the inputs anew, overwrites the outputs
    in place and allocates nothing.  Scalars that were given as memory are read anew, too.  It
    returns when the results are there; on a device with an external stream it returns when the
    work is enqueued, and all memory must live until the stream has run it.

    Threads: calls of one plan wait for one another, as they share outputs; different plans run
    at the same time (the caller must not give them one workspace).

    Attributes
    ----------
    staged : tuple of str
        Tensors that are copied at each call: misaligned, or in need of ``copy=True``.
    """

    __slots__ = ("__weakref__", "_call", "_parts", "staged")

    def __init__(self, parts: Parts) -> None:
        home = parts.home
        if isinstance(home, External) and not parts.readers:
            call = _direct(parts, home.space)
        else:
            call = _general(parts)
        before = list(parts.before)
        if parts.device.follows:
            before.insert(0, parts.device.catch_up)
        self._call: Call = _around(call, before, parts) if before or parts.after else call
        self._parts: Parts | None = parts
        self.staged = parts.staged

    def __call__(self) -> None:
        """Run.

        Raises
        ------
        DeviceError
            If the device fails, or the process was forked since the device was opened.
        ArtifactError
            If the code takes other arguments than its signature says.
        """
        self._call()

    def submit(self, after: Iterable[Pending] = ()) -> Pending:
        """Start a run and return at once; the results are there when what is returned is done.

        Runs of one plan follow one another in the order in which they were started; all other
        order is the caller's to give, by ``after`` or by waiting.  Scalars are read now, inputs
        while the run goes on.

        Parameters
        ----------
        after : iterable of Pending
            Runs that must be done first.  The device waits for runs of the same device, the
            host for others.

        Notes
        -----
        ``local-sync`` has no thread of its own, and a plan with `staged` tensors copies on the
        host: there the run is over when this returns.  On an external stream the order is the
        stream's, and ``done`` and ``wait`` look at the stream.

        Raises
        ------
        DeviceError, ArtifactError
            As a call, for what shows at once.
        BindError
            If the plan was closed.
        """
        return self._submit(None, after)

    @property
    def busy(self) -> bool:
        """Whether a submitted run goes on."""
        return self._parts is not None and self._parts.flight.order() is not None

    def close(self) -> None:
        """Let go of the buffers; later calls raise `BindError`.

        What a call in another thread uses is let go when that call ends.
        """
        self._call, self._parts = _closed, None

    def _submit(
        self, values: Values | None, after: Iterable[Pending], keep: object = None
    ) -> Pending:
        """Start a run on scalars that were read, or read them; ``keep`` lives until it ends."""
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
            return Pending(device, held=(parts, keep), mark=device.mark)
        if device.follows:
            device.catch_up()
        if values is None:
            values = tuple([read() for read in parts.readers])
        flight, done = parts.flight, (device.hal.create_semaphore(0), 1)
        with flight.lock:
            space = flight.space
            if space is None:
                space = flight.space = parts.home.take()
            flight.users += 1
            try:
                parts.enqueue(space, [p for p in points if p is not None], done, values)
            except BaseException:
                _release(parts)
                raise
        return Pending(device, done, held=(parts, keep), finish=lambda: _release(parts))


def run_chain(device: Device, runs: Iterable[tuple[BoundPlan, Values]]) -> None:
    """Run plans of one device one after another and wait once, at the end.

    Runs that take their workspace from the device's share one.
    """
    done, count = device.hal.create_semaphore(0), 0
    spaces: dict[object, tuple[Lease | External, Workspace]] = {}
    try:
        if device.follows:
            device.catch_up()
        for plan, values in runs:
            parts = plan._parts
            if parts is None or parts.staged:
                done.wait(count)  # what it copies may be what others wrote
                plan._call(values)
                continue
            home = parts.home
            key = (home.pool, home.nbytes) if isinstance(home, Lease) else home
            if key not in spaces:
                spaces[key] = (home, home.take())
            before = [(done, count)] if count else []
            with parts.flight.lock:
                parts.enqueue(spaces[key][1], before, (done, count + 1), values)
            count += 1
    finally:
        try:
            done.wait(count)  # also after an error: no memory may go before its run has ended
        except Exception as error:
            raise failure(error, device) from error
        finally:
            for home, space in spaces.values():
                home.give(space)


def _release(parts: Parts) -> None:
    """Give back the workspace of the submitted runs, when the last has ended."""
    flight = parts.flight
    with flight.lock:
        flight.users -= 1
        if flight.users == 0 and flight.space is not None:
            space, flight.space = flight.space, None
            parts.home.give(space)


def _closed(values: object = None) -> None:
    raise BindError("this plan was closed; bind the buffers again")


def _direct(parts: Parts, space: Workspace) -> Call:
    """Return the call for a fixed argument list: a lock, a look at the process id, and IREE."""
    from iree.runtime import VmVariantList

    invoke, results = parts.module.context.invoke, VmVariantList(0)
    function, arguments = parts.function, parts.lists(space).at(())
    device, flight, getpid = parts.device, parts.flight, os.getpid
    lock, pid = flight.lock, device.pid

    # `parts` rides along as a default: buffers and workspace live as long as a running call.
    def call(values: Values | None = None, parts: Parts = parts) -> None:
        if getpid() != pid:
            device.check()
        with lock:
            if flight.tail is not None:
                flight.settle()
            try:
                invoke(function, arguments, results)
            except Exception as error:
                raise failure(error, device) from error

    return call


def _general(parts: Parts) -> Call:
    """Return the call that takes a workspace, and reads its scalars unless it is given them."""
    from iree.runtime import VmVariantList

    invoke, results = parts.module.context.invoke, VmVariantList(0)
    function, readers, home = parts.function, tuple(parts.readers), parts.home
    device, flight, getpid = parts.device, parts.flight, os.getpid
    lock, pid, take, give, serial = flight.lock, device.pid, home.take, home.give, home.serial

    def call(values: Values | None = None, parts: Parts = parts) -> None:
        if getpid() != pid:
            device.check()
        with lock:
            if flight.tail is not None:
                flight.settle()
            if values is None:
                values = tuple([read() for read in readers]) if readers else ()
            space = take()
            try:
                lists = space.lists.get(serial) or parts.lists(space)
                invoke(function, lists.at(values), results)
            except Exception as error:
                raise failure(error, device) from error
            finally:
                give(space)

    return call


def _around(call: Call, before: Sequence[Step], parts: Parts) -> Call:
    """Return the call with its copies around it."""
    lock, after = parts.flight.lock, tuple(parts.after)

    def around(values: Values | None = None) -> None:
        with lock:
            for step in before:
                step()
            call(values)
            for step in after:
                step()

    return around


def failure(error: Exception, device: Device) -> HipdnnIreeError:
    """Return what an error of IREE is in our terms."""
    # IREE compares argument count, shape, type and size before any work.
    if isinstance(error, (ValueError, IndexError)):
        return ArtifactError(f"the code does not match its signature: {reason(error)}")
    return DeviceError(f"{device!r} failed: {reason(error)}")
