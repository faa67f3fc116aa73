"""Calls on memory that the code uses in place, made from addresses within microseconds.

Most buffers have the type and the layout of their argument, and two calls differ only in
addresses.  `InPlace` recognises buffers of a kind that the rules have accepted before, checks the
addresses, and makes the argument list.  It declines all others (a misaligned address, another
layout, an overlap): those are described, checked by rule, and bound (`BoundPlan`).
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from ...graph_api.errors import DeviceError
from .arrays import ALIGNMENT
from .binder import Binder
from .bound_plan import failure
from .buffer_set import Argument, BufferSet
from .caller_memory import BufferLike, CallerMemory, Pointer, same_layout
from .device_memory import importer
from .scalars import Reader, built

__all__ = ["Call", "InPlace"]

Call = Callable[[], None]
Facts = tuple[object, ...]
"""A `CallerMemory` without its address."""


class _Kind(NamedTuple):
    """An array's class, dtype, shape and strides."""

    cls: Any
    dtype: object
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Slot:
    """An argument, and the kinds of memory that were accepted for it last."""

    __slots__ = ("array", "facts", "nbytes", "output", "spec", "take", "uid", "view")

    def __init__(
        self, argument: Argument, take: Callable[[int], Any], view: Callable[[Any], Any]
    ) -> None:
        self.uid, _, self.spec = argument
        self.nbytes, self.output = self.spec.nbytes, self.spec.output
        self.take, self.view = take, view
        self.facts: Facts = CallerMemory(0)[1:]
        self.array: _Kind | None = None

    def address(self, buffer: Any) -> int | None:
        """Return the address of a buffer of the kind that was accepted, else None."""
        if type(buffer) is int:
            return buffer
        known = self.array
        if (
            known is None
            or type(buffer) is not known.cls
            or buffer.dtype != known.dtype
            or buffer.shape != known.shape
            or buffer.strides != known.strides
            or (self.output and not buffer.flags.writeable)
        ):
            return None
        try:  # a third of the time, for contiguous arrays that can be written
            return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
        except (TypeError, ValueError):
            return int(buffer.__array_interface__["data"][0])


class InPlace:
    """The calls of an executable on memory that is used in place.

    Parameters
    ----------
    binder : Binder
    remember : int
        Number of calls that are kept, by their addresses.
    """

    def __init__(self, binder: Binder, remember: int) -> None:
        from iree.runtime import HalFence, VmVariantList

        module, device = binder.module, binder.device
        self._device = device
        self._slots = [
            _Slot(*one)
            for one in zip(binder.arguments, binder.importers, binder.viewers, strict=True)
        ]
        self._kinds = tuple(slot.spec.data_type for slot in self._slots if slot.spec.scalar)
        self._pool, self._nothing = binder.pool, binder.nothing
        self._workspace_bytes = binder.workspace_bytes
        self._import_workspace = importer(device, binder.workspace_bytes)
        self._invoke, self._results = module.context.invoke, VmVariantList(0)
        # With a stream of the caller's that alone orders the work: nothing to wait for or signal.
        self._function = module.main_async if device.asynchronous else module.main
        self._fences = (HalFence(0), HalFence(0)) if device.asynchronous else ()
        self._before = device.catch_up if device.follows else None
        self._calls: dict[tuple[object, ...], Call] = {}
        self._remember = remember
        self._lock = threading.Lock()

    def addresses(self, buffers: Mapping[int, BufferLike]) -> tuple[int, ...] | None:
        """Return the addresses of buffers if every one is of a kind that was accepted."""
        # Of another mapping the buffers might not live as long as the call.
        if type(buffers) is not dict or self._kinds or len(buffers) != len(self._slots):
            return None
        found = []
        for slot in self._slots:
            buffer = buffers.get(slot.uid)
            address = buffer if type(buffer) is int else slot.address(buffer)
            if address is None:
                return None
            found.append(address)
        return tuple(found)

    def recognised(self, found: BufferSet) -> tuple[int, ...] | None:
        """Return the addresses of described buffers if all are of kinds that were accepted."""
        if found.problems:
            return None
        addresses = []
        for slot in self._slots:
            given = found.memory.get(slot.uid)
            if given is None or given[1:] != slot.facts:
                return None
            addresses.append(given.address)
        return tuple(addresses)

    def fits(self, found: BufferSet) -> bool:
        """Whether described buffers can be used in place, by what is known of their kinds."""
        addresses, workspace = self.recognised(found), found.memory.get("workspace")
        if addresses is None or (workspace is not None and workspace.dims is not None):
            return False
        return self._usable(addresses, workspace and Pointer(*workspace[:2]))

    def learn(self, found: BufferSet) -> None:
        """Remember the kinds of buffers that the rules have accepted, where they fit."""
        device = self._device
        for slot in self._slots:
            given = found.memory.get(slot.uid)
            if given is None or not same_layout(slot.spec, given):
                continue
            if given.device is not None and given.device[0] not in device.memory:
                continue
            slot.facts = given[1:]
            buffer: Any = found.buffers[slot.uid]
            if hasattr(buffer, "__array_interface__"):
                slot.array = _Kind(type(buffer), buffer.dtype, buffer.shape, buffer.strides)

    def call(
        self,
        addresses: tuple[int, ...],
        workspace: BufferLike | None = None,
        *,
        remember: bool = True,
    ) -> Call | None:
        """Return the call for an address of each argument, in order; None if it is declined.

        Parameters
        ----------
        addresses : tuple of int
            Of a scalar: host memory that is read at each call.
        workspace : BufferLike, optional
        remember : bool
            Whether to keep the call for the next time.
        """
        if workspace is None or not self._workspace_bytes:
            workspace = None
        elif type(workspace) is int:
            workspace = Pointer(workspace)
        elif type(workspace) is not Pointer:
            return None
        key = addresses if workspace is None else (*addresses, workspace)
        found = self._calls.get(key)
        if found is not None or not self._usable(addresses, workspace):
            return found
        try:
            made = self._make(addresses, workspace)
        except DeviceError:  # its text is that of the general way
            return None
        if remember:
            with self._lock:
                made = self._calls.setdefault(key, made)
                if len(self._calls) > self._remember:
                    del self._calls[next(iter(self._calls))]
        return made

    def forget(self) -> None:
        """Drop all calls that are kept."""
        with self._lock:
            self._calls.clear()

    def _usable(self, addresses: tuple[int, ...], workspace: Pointer | None) -> bool:
        """Whether the memory can be used as it is: aligned, and no output overlaps another."""
        ranges = []
        for address, slot in zip(addresses, self._slots, strict=True):
            if address <= 0:
                return False
            if not slot.spec.scalar:
                if address % ALIGNMENT:
                    return False
                ranges.append((address, slot.nbytes, slot.output))
        if workspace is not None:
            begin, size = workspace
            room = self._workspace_bytes if size is None else size - -begin % ALIGNMENT
            if begin <= 0 or room < self._workspace_bytes or (size is None and begin % ALIGNMENT):
                return False
            ranges.append((begin, self._workspace_bytes if size is None else size, True))
        ranges.sort()
        end = written = 0  # of all ranges so far, and of those that are written
        for begin, size, output in ranges:
            if begin < (end if output else written):
                return False
            end = max(end, begin + size)
            if output:
                written = max(written, begin + size)
        return True

    def _make(self, addresses: tuple[int, ...], workspace: Pointer | None) -> Call:
        refs: list[Any] = []
        readers: list[Reader] = []
        for address, slot in zip(addresses, self._slots, strict=True):
            if slot.spec.scalar:
                refs.append(None)
                readers.append(partial(ctypes.string_at, address, slot.nbytes))
            else:
                refs.append(slot.view(slot.take(address)))
        if workspace is not None:
            begin = workspace.address
            refs.append(self._import_workspace(begin + -begin % ALIGNMENT))
        elif self._pool is None:
            refs.append(self._nothing)
        if readers or (self._pool is not None and workspace is None):
            return self._general(refs, readers, workspace is None)
        return self._direct(refs)

    def _direct(self, refs: list[Any]) -> Call:
        """Return the call with a fixed argument list."""
        invoke, function, results = self._invoke, self._function, self._results
        device, getpid, pid = self._device, os.getpid, self._device.pid
        arguments = built((*refs, *self._fences), (), ())
        lock, before = threading.RLock(), self._before

        def call() -> None:
            if getpid() != pid:
                device.check()
            with lock:
                if before is not None:
                    before()
                try:
                    invoke(function, arguments, results)
                except Exception as error:
                    raise failure(error, device) from error

        return call

    def _general(self, refs: list[Any], readers: list[Reader], leased: bool) -> Call:
        """Return the call that acquires a workspace, or reads scalars, each time."""
        invoke, function, results = self._invoke, self._function, self._results
        device, kinds, fences = self._device, self._kinds, self._fences
        pool = self._pool if leased else None
        nbytes, lock, before = self._workspace_bytes, threading.RLock(), self._before

        def call() -> None:
            device.check()
            with lock:
                if before is not None:
                    before()
                workspace = None if pool is None else pool.acquire(nbytes)
                try:
                    own = () if workspace is None else (workspace.buffer,)
                    values = tuple([read() for read in readers])
                    arguments = built((*refs, *own, *fences), kinds, values)
                    invoke(function, arguments, results)
                except Exception as error:
                    raise failure(error, device) from error
                finally:
                    if pool is not None and workspace is not None:
                        pool.release(workspace)

        return call
