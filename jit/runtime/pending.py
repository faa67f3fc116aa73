"""A run that was started and may still be going on."""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from ...graph_api.errors import DeviceError
from .device import Device, reason

__all__ = ["Pending", "Point", "collect"]

Point = tuple[Any, int]
"""A HAL semaphore and the value that it reaches when the work is done."""


class Pending:
    """What `BoundPlan.submit` and ``execute_async`` return; it can be waited for and awaited.

    It keeps all memory of the run alive.  A run whose object is dropped goes on, and its memory is
    kept until the first run that is started after its end, or the end of the process.

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
        """Return one that is done."""
        return cls(None)

    @property
    def done(self) -> bool:
        """Whether the results are there, or never will be (`wait` says why).

        On a device with an external stream: whether all that was enqueued on it when this was
        first asked is done.
        """
        return self.wait(0.0, quiet=True)

    def wait(self, timeout_s: float | None = None, *, quiet: bool = False) -> bool:
        """Wait until the results are there.

        Parameters
        ----------
        timeout_s : float, optional
            Seconds to wait at most; None is as long as it takes.
        quiet : bool
            Return True rather than raise when the run has failed.

        Returns
        -------
        bool
            False if the time was over first.

        Raises
        ------
        DeviceError
            If the run failed, or the process was forked since it was started.
        """
        point = self._where()
        if point is not None:
            semaphore, value = point
            try:
                if timeout_s is None:
                    semaphore.wait(value)
                elif not semaphore.wait(value, timeout=max(int(timeout_s * 1e9), 0)):
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
        """Return what other work of a device can wait for, if that can be; None when done.

        The host waits here for work of another device.
        """
        if self._device is not device or device.asynchronous:
            # On a stream the order is given; the host need not wait for its own stream's work.
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

    def __del__(self) -> None:
        if self._point is not None:
            again = Pending(self._device, self._point, held=self._held, finish=self._finish)
            _dropped.append(again)

    def __repr__(self) -> str:
        if self._error is not None:
            return "Pending(failed)"
        return "Pending(done)" if self._point is None and self._mark is None else "Pending()"


_dropped: deque[Pending] = deque()
"""Runs that nobody holds, and that may go on; what the process must keep until their end."""


def collect() -> None:
    """Let go of the runs that were dropped and are over."""
    for _ in range(len(_dropped)):
        try:
            pending = _dropped.popleft()
        except IndexError:  # another thread was faster
            return
        if pending._device is None or pending._device.pid != os.getpid() or not pending.done:
            _dropped.append(pending)  # a forked child keeps what is its parent's


def _drain() -> None:
    """At the end of the process: no memory may go before the run that uses it."""
    for _ in range(len(_dropped)):
        pending = _dropped.popleft()
        if pending._device is not None and pending._device.pid == os.getpid():
            pending.wait(quiet=True)
        else:
            _dropped.append(pending)


atexit.register(_drain)
