# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls that are made from addresses within microseconds.

Most buffers have the type and the layout of their argument, and two calls differ only in
addresses.  `AddressCalls` recognises buffers of a kind that the rules have accepted before, checks
the addresses, and makes the argument list.  On the host it copies what is misaligned.  It declines
all others (another layout, an overlap): those are described, checked by rule, and bound
(`BoundPlan`).
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

from ..exit_guard import Sections, at_end
from .arrays import ALIGNMENT, gapped
from .binder import Binder, padded
from .bound_plan import failure
from .buffer_set import Argument, BufferSet
from .caller_memory import BufferLike, CallerMemory, Pointer, same_layout
from .device import Device
from .device_memory import importer, putter
from .interleaved import apart, places
from .iree_native import iree
from .moved_buffers import MovedBuffers, can_move, moved_buffers
from .scalars import Reader, built
from .workspaces import Lease, Workspace, staging_of

__all__ = ["AddressCalls", "Call"]

# Not those of `native`, for which a fork waits: calls may follow one another without a pause.
_inside = Sections()
at_end(_inside.close)

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

    __slots__ = ("array", "facts", "last", "nbytes", "output", "put", "spec", "uid", "view")

    def __init__(self, argument: Argument, view: Callable[[int], Any]) -> None:
        self.uid, _, self.spec = argument
        self.nbytes, self.output = self.spec.nbytes, self.spec.output
        self.view = view
        self.put = putter(self.spec)
        self.facts: Facts = CallerMemory(0)[1:]
        self.array: _Kind | None = None
        self.last: tuple[int, Any] = (0, None)  # the address used last, and the view of it

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


class _Code:
    """What the calls of an executable have in common."""

    __slots__ = (
        *("before", "device", "fences", "function", "invoke", "kinds", "list_type", "pool"),
        *("results", "workspace_bytes"),
    )

    def __init__(self, binder: Binder) -> None:
        module, device = binder.module, binder.device
        self.device = device
        self.kinds = tuple(spec.data_type for _, _, spec in binder.arguments if spec.scalar)
        self.pool, self.workspace_bytes = binder.pool, binder.workspace_bytes
        self.invoke, self.results = module.invoke, iree().VmVariantList(0)
        self.list_type = iree().VmVariantList
        # With a stream of the caller's that alone orders the work: nothing to wait for or signal.
        self.function = module.main_async if device.asynchronous else module.main
        self.fences = (iree().HalFence(0), iree().HalFence(0)) if device.asynchronous else ()
        self.before = device.catch_up if device.follows else None

    def direct(self, refs: list[Any]) -> Call:
        """Return the call with a fixed argument list."""
        invoke, function, results = self.invoke, self.function, self.results
        device, getpid, pid = self.device, os.getpid, self.device.pid
        arguments = self.list_type(len(refs) + len(self.fences))
        for ref in (*refs, *self.fences):
            arguments.push_ref(ref)
        lock, before = threading.RLock(), self.before

        def call() -> None:
            if getpid() != pid:
                device.check()
            with _inside, lock:
                if before is not None:
                    before()
                try:
                    invoke(function, arguments, results)
                except Exception as error:
                    raise failure(error, device) from error

        return call

    def general(self, refs: list[Any], readers: list[Reader], leased: bool) -> Call:
        """Return the call that acquires a workspace, or reads scalars, each time."""
        return partial(self._alone, threading.RLock(), refs, readers, leased)

    def _alone(
        self, lock: threading.RLock, refs: list[Any], readers: list[Reader], leased: bool
    ) -> None:
        self.device.check()
        with _inside, lock:
            self.run(refs, readers, leased)

    def run(self, refs: list[Any], readers: list[Reader], leased: bool) -> None:
        """Execute once; the caller holds the lock of the call."""
        if self.before is not None:
            self.before()
        pool = self.pool if leased else None
        workspace = None if pool is None else pool.acquire(self.workspace_bytes)
        try:
            own = () if workspace is None else (workspace.buffer,)
            values = tuple([read() for read in readers]) if readers else ()
            arguments = built((*refs, *own, *self.fences), self.kinds, values)
            self.invoke(self.function, arguments, self.results)
        except Exception as error:
            raise failure(error, self.device) from error
        finally:
            if pool is not None and workspace is not None:
                pool.release(workspace)

    def copying(
        self,
        refs: list[Any],
        readers: list[Reader],
        leased: bool,
        lease: Lease,
        copied: list[tuple[int, int, _Slot]],
    ) -> Call:
        """Return the call that copies some arguments: (position, the caller's address, slot)."""
        lock = threading.RLock()

        def call() -> None:
            self.device.check()
            with _inside, lock:
                staging = lease.acquire()
                try:
                    mine = staging.lists.get(lease.serial)
                    if mine is None:
                        mine = _copies(self.device, staging, lease, copied)
                    own = refs.copy()
                    for (position, theirs, slot), (here, view) in zip(copied, mine, strict=True):
                        own[position] = view
                        if not slot.output:
                            ctypes.memmove(here, theirs, slot.nbytes)
                    self.run(own, readers, leased)
                    for (_, theirs, slot), (here, _) in zip(copied, mine, strict=True):
                        if slot.output:
                            slot.put(theirs, here)
                finally:
                    lease.release(staging)

        return call


class _Moving:
    """Calls that are made once, on the host: buffers are moved, which costs less than new ones."""

    __slots__ = ("_code", "_free", "_nothing", "_specs")

    def __init__(self, code: _Code, binder: Binder) -> None:
        self._code, self._nothing = code, binder.nothing
        self._specs = [spec for _, _, spec in binder.arguments]
        # By the number of addresses: with a workspace of the caller's, or without.
        self._free: dict[int, deque[tuple[MovedBuffers, Any]]] = {
            len(self._specs) + more: deque() for more in (0, 1)
        }

    def __call__(self, addresses: tuple[int, ...]) -> None:
        """Execute on addresses of the arguments, and of the caller's workspace where it has one."""
        code, free = self._code, self._free[len(addresses)]
        if os.getpid() != code.device.pid:
            code.device.check()
        with _inside:
            try:
                made, arguments = free.pop()  # one operation, so that no two threads get the same
            except IndexError:
                made, arguments = self._new(addresses)
            try:
                made.move(addresses)
                if arguments is None:
                    code.run(made.refs, [], leased=True)
                else:
                    code.invoke(code.function, arguments, code.results)
            except Exception as error:
                raise failure(error, code.device) from error
            finally:
                free.append((made, arguments))

    def _new(self, addresses: tuple[int, ...]) -> tuple[MovedBuffers, Any]:
        """Return buffers, and the argument list where that is not made at each call."""
        code = self._code
        made = moved_buffers(code.device, self._specs, code.workspace_bytes, addresses)
        if len(addresses) == len(self._specs):
            if code.pool is not None:
                return made, None
            made.refs.append(self._nothing)
        arguments = code.list_type(len(made.refs))
        for ref in made.refs:
            arguments.push_ref(ref)
        return made, arguments

    def forget(self) -> None:
        """Drop all buffers."""
        for free in self._free.values():
            free.clear()


def _copies(
    device: Device, staging: Workspace, lease: Lease, copied: list[tuple[int, int, _Slot]]
) -> list[tuple[int, Any]]:
    """Return address and view of each copy in some memory, which keeps them."""
    made = []
    address = staging.buffer.ctypes.data
    try:
        for _, _, slot in copied:
            made.append((address, slot.view(address)))
            address += padded(slot.nbytes)
    except Exception as error:
        raise failure(error, device) from error
    staging.lists[lease.serial] = made
    return made


class AddressCalls:
    """The calls of an executable on memory in the layout of its arguments.

    Parameters
    ----------
    binder : Binder
    remember : int
        Number of calls that are kept, by their addresses.
    in_place : iterable of (int, int)
        Outputs and inputs that may be one buffer, by uid.
    """

    def __init__(
        self, binder: Binder, remember: int, in_place: Iterable[tuple[int, int]] = ()
    ) -> None:
        self._code, self._device = _Code(binder), binder.device
        self._slots = list(map(_Slot, binder.arguments, binder.viewers))
        # A scalar that lies in an output is declined like an overlap; `Binder` takes it.
        self._positions = [k for k, slot in enumerate(self._slots) if not slot.spec.scalar]
        position = {argument.uid: k for k, argument in enumerate(binder.arguments)}
        self._in_place = [(position[out], position[into]) for out, into in in_place]
        self._sizes = [0 if slot.spec.scalar else slot.nbytes for slot in self._slots]
        self._written = [slot.output for slot in self._slots]
        specs = [slot.spec for slot in self._slots]
        self._places = [(k, (s.nbytes, places(s))) for k, s in enumerate(specs) if not s.scalar]
        if not any(gapped(spec) for spec in specs):
            self._places = []
        self._nothing, self._workspace_bytes = binder.nothing, binder.workspace_bytes
        self._import_workspace = importer(binder.device, binder.workspace_bytes)
        self._leases: dict[tuple[int, ...], Lease] = {}  # by the arguments that are copied
        # None: it was made once, with buffers that have been moved on.
        self._calls: OrderedDict[tuple[object, ...], Call | None] = OrderedDict()
        self._moving = None if self._code.kinds else _Moving(self._code, binder)
        self._remember = remember
        self._lock = threading.Lock()

    def addresses(self, buffers: Mapping[int, BufferLike]) -> tuple[int, ...] | None:
        """Return the addresses of buffers if every one is of a kind that was accepted."""
        # Of another mapping the buffers might not live as long as the call.
        if type(buffers) is not dict or self._code.kinds or len(buffers) != len(self._slots):
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
        """Whether described buffers break no rule, by what is known of their kinds."""
        addresses, workspace = self.recognised(found), found.memory.get("workspace")
        if addresses is None or (workspace is not None and workspace.dims is not None):
            return False
        space = workspace and Pointer(*workspace[:2])
        return self._misaligned(addresses, space) is not None

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
        once: bool = False,
        remember: bool = True,
        copies: bool = True,
    ) -> Call | None:
        """Return the call for an address of each argument, in order; None if it is declined.

        Parameters
        ----------
        addresses : tuple of int
            Of a scalar: host memory that is read at each call.
        workspace : BufferLike, optional
        once : bool
            Whether the addresses may well be others the next time.
        remember : bool
            Whether to keep the call for the next time.
        copies : bool
            Whether misaligned memory may be copied.
        """
        if workspace is None or not self._workspace_bytes:
            workspace = None
        elif type(workspace) is int:
            workspace = Pointer(workspace) if workspace else None
        elif type(workspace) is not Pointer:
            return None
        elif not workspace.address:
            workspace = None
        key = addresses if workspace is None else (*addresses, workspace)
        found = self._calls.get(key)
        if found is not None:
            return found
        copied = self._misaligned(addresses, workspace)
        if copied is None or (copied and not copies):
            return None
        moving = self._moving
        # The first call of all is made as ever: most plans have the same buffers for long.
        fresh = key not in self._calls and self._calls if remember else True
        if fresh and once and not copied and moving is not None and can_move(self._device):
            if workspace is not None:
                begin = workspace.address
                addresses = (*addresses, begin + -begin % ALIGNMENT)
            if remember:
                self._keep(key, None)
            return partial(moving, addresses)
        try:
            made = self._make(addresses, workspace, copied)
        except Exception:  # IREE does not take the memory; `Binder` tells why
            return None
        return self._keep(key, made) if remember else made

    def _keep(self, key: tuple[object, ...], made: Call | None) -> Call | None:
        """Remember a call, or that one was made; return the one of a thread that was faster."""
        calls = self._calls
        with self._lock:
            made = calls[key] = calls.get(key) or made
            if len(calls) > self._remember:
                calls.popitem(last=False)
        return made

    def forget(self) -> None:
        """Drop all calls that are kept."""
        with self._lock:
            self._calls.clear()
            self._leases.clear()
            if self._moving is not None:
                self._moving.forget()

    def _misaligned(
        self, addresses: tuple[int, ...], workspace: Pointer | None
    ) -> tuple[int, ...] | None:
        """Return the positions of what has to be copied, or None if addresses break a rule."""
        if min(addresses) <= 0:
            return None
        bits = 0
        for address in addresses:
            bits |= address
        copied: tuple[int, ...] = ()
        if bits % ALIGNMENT:
            copied = tuple([k for k in self._positions if addresses[k] % ALIGNMENT])
            if copied and not self._device.on_host:
                return None
        ranges = list(zip(addresses, self._sizes, self._written, strict=True))
        for out, into in self._in_place:
            if addresses[out] == addresses[into]:
                ranges[into] = (addresses[into], 0, False)  # the output stands for both
        if workspace is not None:
            begin, size = workspace
            room = self._workspace_bytes if size is None else size - -begin % ALIGNMENT
            if begin <= 0 or room < self._workspace_bytes or (size is None and begin % ALIGNMENT):
                return None
            ranges.append((begin, self._workspace_bytes if size is None else size, True))
        ranges.sort()
        end = written = 0  # of all ranges so far, and of those that are written
        for begin, size, output in ranges:
            if begin < (end if output else written):
                return copied if self._interleaved(addresses, workspace) else None
            if begin + size > end:
                end = begin + size
                if output:
                    written = end
        return copied

    def _interleaved(self, addresses: tuple[int, ...], workspace: Pointer | None) -> bool:
        """Whether arguments share a range, but no byte that one writes."""
        if workspace is not None or not self._places:
            return False
        found = [(addresses[k], self._written[k], *lie) for k, lie in self._places]
        return all(
            not (a[1] or b[1])
            or a[0] + a[2] <= b[0]
            or b[0] + b[2] <= a[0]
            or apart(a[0], a[3], b[0], b[3])
            for a, b in combinations(found, 2)
        )

    def _make(
        self, addresses: tuple[int, ...], workspace: Pointer | None, copied: tuple[int, ...]
    ) -> Call:
        refs: list[Any] = []
        readers: list[Reader] = []
        for position, (address, slot) in enumerate(zip(addresses, self._slots, strict=True)):
            last = slot.last  # once: other threads replace it
            if address == last[0]:  # weights, say
                refs.append(last[1])
            elif slot.spec.scalar:
                refs.append(None)
                readers.append(partial(ctypes.string_at, address, slot.nbytes))
            elif position in copied:
                refs.append(None)
            else:
                view = slot.view(address)
                slot.last = address, view
                refs.append(view)
        if workspace is not None:
            begin = workspace.address
            refs.append(self._import_workspace(begin + -begin % ALIGNMENT))
        elif self._code.pool is None:
            refs.append(self._nothing)
        code = self._code
        leased = workspace is None and code.pool is not None
        if copied:
            about = [(position, addresses[position], self._slots[position]) for position in copied]
            return code.copying(refs, readers, leased, self._lease(copied), about)
        return code.general(refs, readers, leased) if readers or leased else code.direct(refs)

    def _lease(self, copied: tuple[int, ...]) -> Lease:
        """Return what acquires memory for copies of some arguments."""
        found = self._leases.get(copied)
        if found is None:
            nbytes = sum(padded(self._slots[position].nbytes) for position in copied)
            found = self._leases.setdefault(copied, Lease(staging_of(self._device), nbytes))
        return found
