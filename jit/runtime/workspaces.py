"""Scratch memory that the plans of a device share.

A plan wants a workspace only while it runs, so a device needs as many as run at once, whatever the
number of plans, each as large as the largest plan that ran in it.  An argument list names its
workspace; lists are therefore kept with the workspace, by the serial number of the plan.
"""

from __future__ import annotations

import itertools
import weakref
from collections import deque
from typing import Any

from .device import Device
from .device_memory import allocate

__all__ = ["External", "Lease", "Workspace", "WorkspacePool", "pool_of"]

_PAGE = 4096
_serials = itertools.count(1)


class Workspace:
    """One workspace.

    Attributes
    ----------
    buffer : object
        HAL buffer.
    nbytes : int
        Its size.
    lists : dict
        Argument lists that name it, by the serial number of their plan.
    """

    __slots__ = ("buffer", "lists", "nbytes")

    def __init__(self, buffer: Any, nbytes: int) -> None:
        self.buffer = buffer
        self.nbytes = nbytes
        self.lists: dict[int, Any] = {}


class WorkspacePool:
    """The workspaces of one device, without a lock: deques and lists change atomically.

    The last one given back is the first one taken, so calls one after another meet the same one.
    At most ``keep`` idle ones stay.  All go with the last `Lease`.

    On a device with an external stream a workspace is given back when its work is enqueued; the
    next to take it enqueues behind that, on the same stream.
    """

    __slots__ = ("__weakref__", "_all", "_device", "_idle", "_keep")

    def __init__(self, device: Device, keep: int = 8) -> None:
        self._device = device
        self._keep = keep
        self._idle: deque[Workspace] = deque()
        self._all: list[Workspace] = []

    def take(self, nbytes: int) -> Workspace:
        """Return a workspace of at least ``nbytes`` that nobody else uses.

        Raises
        ------
        DeviceError
            If there is no memory.
        """
        try:
            space = self._idle.pop()
        except IndexError:
            return self._new(nbytes)
        return space if space.nbytes >= nbytes else self._other(space, nbytes)

    def give(self, space: Workspace) -> None:
        """Take back what is no longer used."""
        self._idle.append(space)
        if len(self._idle) > self._keep:
            self.trim(self._keep)

    def trim(self, keep: int = 0) -> None:
        """Free idle workspaces, the one that rested longest first, until ``keep`` are left."""
        while len(self._idle) > keep:
            try:
                self._drop(self._idle.popleft())
            except IndexError:  # others took them
                return

    def forget(self, serial: int) -> None:
        """Drop the argument lists of a plan that is no more."""
        for space in tuple(self._all):
            space.lists.pop(serial, None)

    @property
    def count(self) -> int:
        """How many workspaces there are, used and idle."""
        return len(self._all)

    @property
    def nbytes(self) -> int:
        """Bytes of all of them."""
        return sum(space.nbytes for space in tuple(self._all))

    def _other(self, small: Workspace, nbytes: int) -> Workspace:
        """Return an idle one that is large enough, else a new one in place of a small one."""
        for space in tuple(self._idle):
            if space.nbytes >= nbytes:
                try:
                    self._idle.remove(space)
                except ValueError:  # another thread was faster
                    continue
                self._idle.append(small)
                return space
        self._drop(small)
        return self._new(nbytes)

    def _new(self, nbytes: int) -> Workspace:
        size = -(-nbytes // _PAGE) * _PAGE
        try:
            buffer = allocate(self._device, size)
        except Exception:
            if not self._idle:
                raise
            self.trim()
            buffer = allocate(self._device, size)
        space = Workspace(buffer, size)
        self._all.append(space)
        return space

    def _drop(self, space: Workspace) -> None:
        self._all.remove(space)
        space.lists.clear()


class Lease:
    """A plan's part in a pool: the bytes that it takes, and the number of its lists."""

    __slots__ = ("nbytes", "pool", "serial")

    def __init__(self, pool: WorkspacePool, nbytes: int) -> None:
        self.pool = pool
        self.nbytes = nbytes
        self.serial = next(_serials)

    def take(self) -> Workspace:
        """Return a workspace that nobody else uses."""
        return self.pool.take(self.nbytes)

    def give(self, space: Workspace) -> None:
        """Take back what is no longer used."""
        self.pool.give(space)

    def __del__(self) -> None:
        self.pool.forget(self.serial)


class External:
    """A workspace that is one plan's alone: the caller's memory, or none."""

    __slots__ = ("serial", "space")

    def __init__(self, buffer: Any) -> None:
        self.space = Workspace(buffer, 0)
        self.serial = 0

    def take(self) -> Workspace:
        """Return it; the plan sees to it that its calls follow one another."""
        return self.space

    def give(self, space: Workspace) -> None:
        """Nothing: it stays with the plan."""


def pool_of(device: Device) -> WorkspacePool:
    """Return the pool of a device; it lives as long as somebody holds it."""
    pool = device.pool() if device.pool is not None else None
    if pool is None:
        # Two threads may both make one; each then has its own, and both are right.
        pool = WorkspacePool(device)
        device.pool = weakref.ref(pool)
    return pool
