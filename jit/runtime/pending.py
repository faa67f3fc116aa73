# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Asynchronous execution: a run that was started and may not have ended."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from ...graph_api.errors import DeviceError
from ..exit_guard import Sections, at_end
from .device import Device, reason
from .waiting import patient

__all__ = ["Pending", "Point", "collect", "reached", "waits"]

Point = tuple[Any, int]
"""A HAL semaphore and the value that it reaches when the work is done."""


_dropped: deque[Pending] = deque()
"""Dropped executions that may not have ended; the process keeps their memory until they do."""


class Pending:
    """An asynchronous execution, which can be waited for or awaited.

    `BoundPlan.submit` and ``execute_async`` return it.  It keeps all memory of the execution
    alive.  If the object is dropped, the execution continues; its memory is kept until the first
    execution that starts after its end, or until the process ends.

    Examples
    --------
    >>> pending = Pending.finished()
    >>> pending.done, pending.wait()
    (True, True)
    """

    __slots__ = ("_device", "_error", "_finish", "_held", "_lock", "_mark", "_point")

    def __init__(
        self,
        device: Device | None,
        point: Point | None = None,
        *,
        held: object = None,
        finish: Callable[[], None] | None = None,
        mark: Callable[[], Point] | None = None,
    ) -> None:
        self._error: DeviceError | None = None
        self._lock = threading.Lock()
        self._device = device
        self._point = point
        self._mark = mark
        self._held = held
        self._finish = finish

    @classmethod
    def finished(cls) -> Pending:
        """Return a `Pending` that is done."""
        return cls(None)

    @property
    def done(self) -> bool:
        """Whether the execution has ended; after a failure `wait` raises the error.

        On a device with an external stream: whether all work is done that was enqueued when this
        was first asked.
        """
        return self.wait(0.0, quiet=True)

    def wait(self, timeout_s: float | None = None, *, quiet: bool = False) -> bool:
        """Wait until the results are complete.

        Parameters
        ----------
        timeout_s : float, optional
            Maximum time to wait, in seconds; None waits without limit.
        quiet : bool
            Return True, rather than raise, if the execution has failed.

        Returns
        -------
        bool
            False if the time ran out first.

        Raises
        ------
        DeviceError
            If the execution failed, or the process was forked since it started.
        """
        point = self._where()
        if point is not None:
            try:
                with waits:
                    if not reached(point, timeout_s):
                        return False
            except Exception as error:
                self._end(DeviceError(f"{self._device!r} failed: {reason(error)}"))
            else:
                self._end(None)
        if self._error is not None and not quiet:
            raise self._error
        return True

    def __await__(self) -> Generator[Any, None, None]:
        """Wait in a thread of the event loop's executor."""
        return self._awaited().__await__()

    async def _awaited(self) -> None:
        import asyncio

        if not self.done:
            await asyncio.get_running_loop().run_in_executor(None, self.wait)
        self.wait()

    def point_on(self, device: Device) -> Point | None:
        """Return the point that other work of the device can wait for; None if there is none.

        Work of another device is waited for here, on the host.
        """
        if self._device is not device or device.asynchronous:
            # A stream orders its own work, so the host need not wait for it.
            if self._device is not device:
                self.wait()
            return None
        return self._where()

    def _where(self) -> Point | None:
        if self._point is None and self._mark is None:
            return None
        if self._device is not None:
            self._device.check()
        with self._lock:
            if self._mark is not None:
                self._point, self._mark = self._mark(), None
            return self._point

    def _end(self, error: DeviceError | None) -> None:
        with self._lock:
            finish, self._finish = self._finish, None
            self._point = self._held = None
            if error is not None:
                self._error = error
        if finish is not None:
            finish()

    # The default is there even when Python has taken this module down.
    def __del__(self, dropped: deque[Pending] = _dropped) -> None:
        if self._point is not None:
            dropped.append(self)

    def __repr__(self) -> str:
        if self._error is not None:
            return "Pending(failed)"
        return "Pending(done)" if self._point is None and self._mark is None else "Pending()"


waits = Sections()
"""Where threads wait for executions, without Python's lock."""


def reached(point: Point, timeout_s: float | None = None) -> bool:
    """Wait for a point, and return whether it was reached in time."""
    semaphore, value = point
    if timeout_s is None:
        _wait(semaphore, value)
        return True
    if timeout_s <= 0:
        return bool(semaphore.wait(value, timeout=0))
    return bool(_wait(semaphore, value, timeout=int(timeout_s * 1e9)))


@patient
def _wait(semaphore: Any, value: int, **timeout: int) -> object:
    return semaphore.wait(value, **timeout)


def collect() -> None:
    """Free the memory of dropped executions that have ended."""
    for _ in range(len(_dropped)):
        try:
            pending = _dropped.popleft()
        except IndexError:  # another thread was faster
            return
        if pending._device is None or pending._device.pid != os.getpid() or not pending.done:
            _dropped.append(pending)  # a forked child must not free what its parent uses


@at_end
def _drain(deadline: float) -> bool:
    """Wait for dropped executions: their memory must outlive them."""
    mine = [p for p in _dropped if p._device is not None and p._device.pid == os.getpid()]
    done = [p.wait(max(deadline - time.monotonic(), 0.0), quiet=True) for p in mine]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_dropped))  # threads may add some: never freed
    return all(done) and waits.empty(deadline)
