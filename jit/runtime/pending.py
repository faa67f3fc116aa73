"""A run that was started and may still be going on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from typing import Any

from ...graph_api.errors import DeviceError
from .device import Device, reason

__all__ = ["Pending", "Point"]

Point = tuple[Any, int]
"""A HAL semaphore and the value that it reaches when the work is done."""


class Pending:
    """What `BoundPlan.submit` and ``execute_async`` return; it can be waited for and awaited.

    It keeps all memory of the run alive until the run is over.  The last reference to a run that
    still goes on waits for it, so keep the object as long as there is other work to do.

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
        if self._point is None or self._device is None or self._device.pid != os.getpid():
            return
        self.wait(quiet=True)

    def __repr__(self) -> str:
        if self._error is not None:
            return "Pending(failed)"
        return "Pending(done)" if self._point is None and self._mark is None else "Pending()"
