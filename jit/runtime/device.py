# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The process's IREE devices: one VM instance, and one HAL device per driver, id and stream.

IREE imposes two constraints on a process:

- The number of worker threads of ``local-task`` is a process-wide flag, read when the driver is
  created.  The first opening decides; a different number later is refused.
- Every device owns a thread (``local-sync`` too), so a forked child cannot use it and would hang
  when it frees it.  Do not fork once a device is open (``subprocess`` and multiprocessing's
  "spawn" are fine).  In a forked child every use raises `DeviceError`; the parent's devices are
  never freed there, so that the child can exit.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Any

from ...graph_api.errors import DeviceError, SettingError
from ..exit_guard import at_end, native
from .iree_native import iree
from .streams import synchronize

__all__ = ["DRIVERS", "Device", "Driver", "forget", "reason"]

_PARTING_S = 1.0  # after the last user; what it held is freed within the same instant

# DLPack's device types.
_CPU, _CUDA, _CUDA_HOST, _ROCM, _ROCM_HOST, _CUDA_MANAGED = 1, 2, 3, 10, 11, 13


@dataclass(frozen=True, kw_only=True, slots=True)
class Driver:
    """The properties of one of IREE's drivers.

    Attributes
    ----------
    on_host : bool
        Whether it uses host memory; otherwise it accepts device memory only.
    memory : tuple of int
        DLPack device types whose memory it accepts; raw pointers are of the first one.
    flags : tuple of str
        Process-wide flags to set before the driver is created.
    streams : bool
        Whether work can be ordered after the work on a caller's stream.
    stream_parameter : str
        Device parameter for an external stream; empty if there is none, and the host waits for
        the stream instead.
    needs : str
        Requirements on the machine, for the error text.
    """

    on_host: bool
    memory: tuple[int, ...]
    needs: str
    flags: tuple[str, ...] = ()
    streams: bool = False
    stream_parameter: str = ""


DRIVERS = {
    "local-sync": Driver(
        on_host=True, memory=(_CPU, _CUDA_HOST, _ROCM_HOST, _CUDA_MANAGED), needs="a CPU"
    ),
    "local-task": Driver(
        on_host=True, memory=(_CPU, _CUDA_HOST, _ROCM_HOST, _CUDA_MANAGED), needs="a CPU"
    ),
    "hip": Driver(
        on_host=False,
        memory=(_ROCM, _ROCM_HOST),
        # The caller's stream orders the work, which IREE's caching allocator would not follow.
        flags=("--hip_async_caching=false",),
        streams=True,
        stream_parameter="hip_external_stream",
        needs="an AMD GPU and libamdhip64.so (on the search path, or IREE_HIP_DYLIB_PATH)",
    ),
    "cuda": Driver(
        on_host=False,
        memory=(_CUDA, _CUDA_HOST, _CUDA_MANAGED),
        needs="an NVIDIA GPU and its driver's libcuda.so",
        streams=True,
    ),
}
"""The supported drivers, by IREE's names."""


class Device:
    """One HAL device; made by `open`, shared by the whole process (or only `described`).

    Attributes
    ----------
    driver : str
        IREE's driver name.
    device_id : int
        Position in the driver's list of devices.
    stream : int or None
        Caller's stream whose work comes first; see `asynchronous` and `follows`.
    workers : int or None
        Worker threads asked for (``local-task``); None is one per core.
    hal, instance : object
        IREE's ``HalDevice``, and the process's ``VmInstance``.
    pool, staging : weakref or None
        The pools of workspaces and of staging memory (``workspaces.pool_of``, ``staging_of``).
    """

    __slots__ = (
        *("__weakref__", "_traits", "pool", "device_id", "driver", "hal"),
        *("instance", "pid", "staging", "stream", "workers"),
    )

    def __init__(
        self, driver: str, device_id: int, stream: int | None, workers: int | None, hal: Any
    ) -> None:
        self.driver = driver
        self.device_id = device_id
        self.stream = stream
        self.workers = workers
        self.hal = hal
        self.instance = _process.instance
        self.pid = _process.pid
        self.pool: weakref.ref[Any] | None = None
        self.staging: weakref.ref[Any] | None = None
        self._traits = DRIVERS[driver]

    @classmethod
    def open(
        cls,
        driver: str = "local-sync",
        *,
        device_id: int = 0,
        stream: int | None = None,
        workers: int | None = None,
    ) -> Device:
        """Return the device of the process, which the first call opens.

        Parameters
        ----------
        driver : str
            ``"local-sync"`` (runs in the calling thread; best for small work),
            ``"local-task"`` (worker threads; best for large work), ``"hip"`` or ``"cuda"``
            (without ``stream`` on a stream of its own: other work on the same memory must have
            ended).
        device_id : int
            Position in the driver's list of devices.
        stream : int, optional
            Stream whose work must precede this device's work.  On a ``hipStream_t`` the work is
            enqueued (`asynchronous`).  For a ``CUstream``, and for 0, the default stream of
            either, the device has a stream of its own and waits for that one (`follows`).  It
            must outlive the device; call `close` before it is destroyed.
        workers : int, optional
            Number of worker threads of ``local-task``, at most one per core.  Process-wide and
            decided by the first opening.  Other drivers ignore it.

        Raises
        ------
        DeviceError
            If the driver or device does not exist, the stream cannot be used, the number of
            workers is another one already, or the process was forked after a device was opened.
        SettingError
            If ``driver`` is unknown or ``workers`` is not a positive number.

        Examples
        --------
        >>> Device.open("local-sync") is Device.open("local-sync")
        True
        """
        if driver not in DRIVERS:
            raise SettingError(f"unknown driver {driver!r}; known: {', '.join(DRIVERS)}")
        if workers is not None and workers < 1:
            raise SettingError(f"workers: got {workers}; wanted a positive number or None")
        if stream is not None and not DRIVERS[driver].streams:
            raise DeviceError(f"IREE's driver {driver} takes no external stream, got {stream:#x}")
        key = (driver, device_id, stream)
        with _process.lock:
            _process.check()
            _process.part()
            if driver == "local-task":
                _decide_workers(workers)
            device = _process.devices.get(key)
            if device is None:
                hal = _create(driver, device_id, stream)
                threads = _process.workers if driver == "local-task" else None
                device = cls(driver, device_id, stream, threads, hal)
                _process.devices[key] = device
                _process.opened.add(device)
            return device

    @classmethod
    def described(cls, driver: str, device_id: int = 0) -> Device:
        """Return a device that is not open, which suffices to check buffers by its rules."""
        return cls(driver, device_id, None, None, None)

    @property
    def name(self) -> str:
        """What the driver calls the device, such as ``"NVIDIA H200"``."""
        return str(self._told()["name"])

    @property
    def identity(self) -> str:
        """What tells the device from all others of the machine, whoever numbers them."""
        return str(self._told().get("path") or f"{self.driver}:{self.device_id}")

    def _told(self) -> dict[str, Any]:
        found = iree().get_cached_hal_driver(self.driver).query_available_devices()
        return dict(found[self.device_id])

    @property
    def on_host(self) -> bool:
        """Whether the device uses host memory."""
        return self._traits.on_host

    @property
    def memory(self) -> tuple[int, ...]:
        """DLPack device types whose memory the device accepts, its own first."""
        return self._traits.memory

    @classmethod
    def on_stream(cls, driver: str, stream: int, *, device_id: int = 0) -> Device:
        """Return the device of a caller's stream; it is freed with its last user.

        Hosts create and destroy streams at any time, so these devices are not kept for the life of
        the process as those of `open` are.  Errors are those of `open`.
        """
        key = (driver, device_id, stream)
        with _process.opening:
            device = _process.on_streams.get(key)
            if device is None:
                device = cls.open(driver, device_id=device_id, stream=stream)
                device.close()  # its users keep it alive
                _process.on_streams[key] = device
            return device

    @property
    def asynchronous(self) -> bool:
        """Whether calls only enqueue on the caller's stream and do not wait for results."""
        return bool(self.stream) and not self.follows

    @property
    def follows(self) -> bool:
        """Whether the host waits for the caller's stream before each call (`catch_up`)."""
        traits = self._traits
        if self.stream is None or not traits.streams:
            return False
        return not (self.stream and traits.stream_parameter)

    def catch_up(self) -> None:
        """Wait for the work on the caller's stream.

        Raises
        ------
        DeviceError
            If the stream cannot be waited for.
        """
        assert self.stream is not None
        synchronize(self.driver, self.stream, self.device_id)

    def check(self) -> None:
        """Raise `DeviceError` if another process opened the device (this one was forked)."""
        if self.pid != os.getpid():
            raise DeviceError(_FORKED)

    def close(self) -> None:
        """Forget the device; it is freed once no plan uses it.  `open` opens a new one."""
        with _process.lock:
            key = (self.driver, self.device_id, self.stream)
            if _process.devices.get(key) is self:
                del _process.devices[key]
            if self.stream is not None:
                number = (self.driver, self.device_id, self.stream)
                if _process.on_streams.get(number) is self:
                    del _process.on_streams[number]

    def __del__(self) -> None:
        # W-114: Python frees what used a device in any order, and an imported buffer that is freed
        # after its GPU ends the process: the GPU is freed later, when another device is opened.
        hal = getattr(self, "hal", None)
        if hal is not None and not self.on_host and self.pid == os.getpid():
            _process.parting.append((time.monotonic(), hal))

    def __repr__(self) -> str:
        stream = "" if self.stream is None else f", stream={self.stream:#x}"
        return f"Device({self.driver!r}, device_id={self.device_id}{stream})"


def forget(driver: str) -> None:
    """Close all devices of a driver (`Device.close`): other ones are to take their numbers."""
    for device in tuple(_process.opened):
        if device.driver == driver:
            device.close()


class _Process:
    """What exists once per process: the VM instance, the devices, the number of workers."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pid = os.getpid()
        self.instance: Any = None
        self.devices: dict[tuple[str, int, int | None], Device] = {}
        self.opening = threading.Lock()  # of devices on streams
        self.on_streams: weakref.WeakValueDictionary[tuple[str, int, int], Device]
        self.on_streams = weakref.WeakValueDictionary()
        self.started: set[str] = set()  # drivers that exist, whose flags cannot change any more
        self.workers: int | None = None
        self.opened: weakref.WeakSet[Device] = weakref.WeakSet()  # all that are still alive
        self.parting: list[tuple[float, Any]] = []  # when their last user went, and IREE's devices

    def part(self) -> None:
        """Free the devices whose last user went a while ago."""
        latest = time.monotonic() - _PARTING_S
        while self.parting and self.parting[0][0] < latest:
            self.parting.pop(0)

    def check(self) -> None:
        if self.pid != os.getpid():
            if self.started:
                raise DeviceError(_FORKED)
            self.pid = os.getpid()


_FORKED = (
    "this process was forked after a device had been opened, and IREE's threads did not come "
    "along; start the child with subprocess or multiprocessing's 'spawn', or fork before the "
    "first device is opened"
)
_process = _Process()


def _after_fork() -> None:
    """In a forked child, never free the parent's devices: that would wait for their threads."""
    _process.lock, _process.opening = threading.Lock(), threading.Lock()
    _keep()


def _keep() -> None:
    """Never free the devices that are open."""
    if not _process.started:
        return
    iree().disable_leak_checker()  # else it reports at exit what is leaked on purpose
    parting = (hal for _, hal in _process.parting)
    for thing in [_process.instance, *(device.hal for device in _process.opened), *parting]:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


os.register_at_fork(after_in_child=_after_fork)


@at_end
def _end(deadline: float) -> bool:
    # What uses a device is freed in any order, and some of it by threads that go on.
    _keep()
    return True


def _decide_workers(workers: int | None) -> None:
    """Accept the first number of workers, refuse a different one later."""
    if "local-task" not in _process.started:
        _process.workers = workers
    elif workers not in (None, _process.workers):
        have = "one per core" if _process.workers is None else str(_process.workers)
        raise DeviceError(
            f"local-task already runs with {have} worker threads in this process; wanted "
            f"{workers} (the first opening of the driver decides the number)"
        )


@native
def _create(driver: str, device_id: int, stream: int | None) -> Any:
    """Create the HAL device; the caller holds the lock."""
    rt = iree()  # an installation without IREE is another error
    traits = DRIVERS[driver]
    flags = list(traits.flags)
    if driver == "local-task" and _process.workers is not None:
        flags.append(f"--task_topology_max_group_count={_process.workers}")
    try:
        if driver not in _process.started and flags:
            rt.parse_flags(*flags)
        hal_driver = rt.get_cached_hal_driver(driver)
        found = hal_driver.query_available_devices()
    except Exception as error:
        text = f"no {driver} device here; it needs {traits.needs}{_INSTEAD}: {reason(error)}"
        raise DeviceError(text) from error
    if not 0 <= device_id < len(found):
        names = ", ".join(f"{i}: {d['name']}" for i, d in enumerate(found)) or "none"
        raise DeviceError(
            f"no {driver} device {device_id}; devices here: {names}; it needs {traits.needs}"
        )
    parameters = {traits.stream_parameter: str(stream)} if stream and traits.streams else {}
    parameters.pop("", None)
    try:
        if _process.instance is None:
            _process.instance = rt.VmInstance()
        _process.started.add(driver)
        return hal_driver.create_device(found[device_id], parameters)
    except Exception as error:
        raise DeviceError(f"{driver} device {device_id} did not open: {reason(error)}") from error


_INSTEAD = "; without one, build for the target cpu, or emulate a GPU (docs/emulation.md)"
_LOCATION = re.compile(r"\S+\.(?:c|cc|h|inl):\d+: ")


def reason(error: BaseException) -> str:
    """Return IREE's error text on one line, without source locations, at most 300 long.

    Of libraries that were not found IREE lists each file that was tried; the list is left out.
    """
    text = " ".join(_LOCATION.sub("", str(error)).split()).partition(": Tried: ")[0]
    return text if len(text) <= 300 else text[:297] + "..."
