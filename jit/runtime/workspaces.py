# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Workspaces and staging memory: scratch memory that the plans of a device share.

A plan needs a workspace only while it runs.  A device therefore needs as many workspaces as plans
run at the same time, each as large as the largest plan that has used it.  An argument list
contains its workspace, so the lists are kept with the workspace, by the serial number of the plan.

Copies of buffers that IREE cannot use in place are shared in the same way: a call acquires memory
for the copies of all its tensors, and the call that uses it is kept with it.
"""

from __future__ import annotations

import itertools
import weakref
from collections import deque
from typing import Any

from ...graph_api.errors import DeviceError
from .arrays import aligned_bytes
from .device import Device
from .device_memory import allocate

__all__ = [
    "External",
    "Lease",
    "StagingPool",
    "Workspace",
    "WorkspacePool",
    "pool_of",
    "staging_of",
]

_PAGE = 4096
_IDLE_STAGING = 256 << 20  # bytes of idle staging memory that are kept beside the one used last
_serials = itertools.count(1)


class Workspace:
    """One workspace.

    Attributes
    ----------
    buffer : object
        HAL buffer; an array of bytes for staging.
    nbytes : int
        Its size.
    lists : dict
        Argument lists that contain it (for staging: calls), by the serial number of their plan.
    """

    __slots__ = ("buffer", "lists", "nbytes")

    def __init__(self, buffer: Any, nbytes: int) -> None:
        self.buffer = buffer
        self.nbytes = nbytes
        self.lists: dict[int, Any] = {}


class WorkspacePool:
    """The workspaces of one device, without a lock: deques and lists change atomically.

    The workspace released last is acquired first, so successive calls use the same one.  At most
    ``keep`` idle workspaces stay.  All of them are freed with the last `Lease`.

    On a device with an external stream a workspace is released when its work is enqueued; the
    next plan that acquires it enqueues its own work after that, on the same stream.
    """

    __slots__ = ("__weakref__", "_all", "_device", "_idle", "_keep")

    def __init__(self, device: Device, keep: int = 8) -> None:
        self._device = device
        self._keep = keep
        self._idle: deque[Workspace] = deque()
        self._all: list[Workspace] = []

    def acquire(self, nbytes: int) -> Workspace:
        """Return a workspace of at least ``nbytes`` that nobody else uses.

        Raises
        ------
        DeviceError
            If there is no memory.
        """
        try:
            found = self._idle.pop()
        except IndexError:
            return self._new(nbytes)
        return found if found.nbytes >= nbytes else self._larger(found, nbytes)

    def release(self, workspace: Workspace) -> None:
        """Return a workspace to the pool."""
        self._idle.append(workspace)
        if len(self._idle) > self._keep:
            self.trim(self._keep)

    def trim(self, keep: int = 0) -> None:
        """Free idle workspaces, the least recently used one first, until ``keep`` are left."""
        while len(self._idle) > keep:
            try:
                self._drop(self._idle.popleft())
            except IndexError:  # other threads acquired them
                return

    def forget(self, serial: int) -> None:
        """Drop the argument lists of a plan that no longer exists."""
        for workspace in tuple(self._all):
            workspace.lists.pop(serial, None)

    @property
    def count(self) -> int:
        """Number of workspaces, used and idle."""
        return len(self._all)

    @property
    def nbytes(self) -> int:
        """Total size of all workspaces in bytes."""
        return sum(workspace.nbytes for workspace in tuple(self._all))

    def _larger(self, small: Workspace, nbytes: int) -> Workspace:
        """Return an idle workspace that is large enough, else a new one in place of ``small``."""
        for found in tuple(self._idle):
            if found.nbytes >= nbytes:
                try:
                    self._idle.remove(found)
                except ValueError:  # another thread was faster
                    continue
                self._idle.append(small)
                return found
        self._drop(small)
        return self._new(nbytes)

    def _new(self, nbytes: int) -> Workspace:
        size = -(-nbytes // _PAGE) * _PAGE
        try:
            buffer = self._allocate(size)
        except Exception:
            if not self._idle:
                raise
            self.trim()
            buffer = self._allocate(size)
        made = Workspace(buffer, size)
        self._all.append(made)
        return made

    def _allocate(self, nbytes: int) -> Any:
        return allocate(self._device, nbytes)

    def _drop(self, workspace: Workspace) -> None:
        self._all.remove(workspace)
        workspace.lists.clear()


class StagingPool(WorkspacePool):
    """Host memory for staging copies, which are as large as the tensors: bounded by bytes, too."""

    __slots__ = ()

    def release(self, workspace: Workspace) -> None:
        super().release(workspace)
        while sum(idle.nbytes for idle in tuple(self._idle)[:-1]) > _IDLE_STAGING:
            self.trim(len(self._idle) - 1)

    def _allocate(self, nbytes: int) -> Any:
        try:
            return aligned_bytes(nbytes)
        except MemoryError as error:
            raise DeviceError(f"no {nbytes} bytes of memory for staging copies") from error


class Lease:
    """What a plan needs from a pool: the size of its workspace, and its serial number."""

    __slots__ = ("nbytes", "pool", "serial")

    def __init__(self, pool: WorkspacePool, nbytes: int) -> None:
        self.pool = pool
        self.nbytes = nbytes
        self.serial = next(_serials)

    def acquire(self) -> Workspace:
        """Return a workspace that nobody else uses."""
        return self.pool.acquire(self.nbytes)

    def release(self, workspace: Workspace) -> None:
        """Return it to the pool."""
        self.pool.release(workspace)

    def __del__(self) -> None:
        self.pool.forget(self.serial)


class External:
    """A workspace that only one plan uses: the caller's memory, or an empty buffer."""

    __slots__ = ("serial", "workspace")

    def __init__(self, buffer: Any) -> None:
        self.workspace = Workspace(buffer, 0)
        self.serial = 0

    def acquire(self) -> Workspace:
        """Return it; the lock of the plan keeps its calls apart."""
        return self.workspace

    def release(self, workspace: Workspace) -> None:
        """Do nothing: the workspace stays with the plan."""


def pool_of(device: Device) -> WorkspacePool:
    """Return the workspaces of a device; the pool lives for as long as somebody refers to it."""
    pool = device.pool() if device.pool is not None else None
    if pool is None:
        # Two threads may both make one; each then has its own, which is correct too.
        pool = WorkspacePool(device)
        device.pool = weakref.ref(pool)
    return pool


def staging_of(device: Device) -> WorkspacePool:
    """Return the staging memory of a device; only plans that have copies refer to it."""
    pool = device.staging() if device.staging is not None else None
    if pool is None:
        pool = StagingPool(device)
        device.staging = weakref.ref(pool)
    return pool
