# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The memory that plugins use: host memory, or that of this machine's GPU.

The C interface does not define it, and a plugin for GPUs crashes on host pointers.  So one rule
holds for all plugins of a process: with AMD's kernel driver and a HIP device they use the GPU,
otherwise host memory; the setting ``foreign.device`` overrides this.
"""

from __future__ import annotations

import ctypes
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from ....graph_api.errors import DeviceError
from ....jit.runtime.hip import KERNEL_DRIVER, call, emulated, target_of
from ....jit.target import Target

__all__ = ["Gpu", "Host", "Place", "here"]

_TO_DEVICE, _TO_HOST = "hipMemcpyHostToDevice", "hipMemcpyDeviceToHost"


class Place(ABC):
    """The memory and the stream that plugins are given.

    Attributes
    ----------
    target : Target
        The target that graphs must be built for.
    driver : str
        IREE's name of such a device; its rules apply to buffers.
    device_id : int
    """

    target: Target
    driver: str
    device_id: int = 0

    @property
    def on_host(self) -> bool:
        """Whether plugins are given host pointers."""
        return self.driver == "local-sync"

    @abstractmethod
    def allocate(self, nbytes: int) -> tuple[int, object]:
        """Return the address of new memory, 64-byte aligned, and the object that keeps it alive."""

    @abstractmethod
    def write(self, address: int, source: int, nbytes: int) -> None:
        """Copy from host memory, and wait."""

    @abstractmethod
    def read(self, target: int, address: int, nbytes: int) -> None:
        """Copy to host memory, and wait."""

    @abstractmethod
    def stream(self) -> tuple[int | None, Callable[[], None]]:
        """Return a new stream, or None, and the function that destroys it."""

    @abstractmethod
    def wait(self, stream: int | None) -> None:
        """Wait until a stream is done."""


class Host(Place):
    """Host memory; executions return when their results are complete."""

    target = Target.parse("cpu")
    driver = "local-sync"

    def allocate(self, nbytes: int) -> tuple[int, object]:
        memory = ctypes.create_string_buffer(nbytes + 64)
        start = ctypes.addressof(memory)
        return start + -start % 64, memory

    def write(self, address: int, source: int, nbytes: int) -> None:
        ctypes.memmove(address, source, nbytes)

    def read(self, target: int, address: int, nbytes: int) -> None:
        ctypes.memmove(target, address, nbytes)

    def stream(self) -> tuple[int | None, Callable[[], None]]:
        return None, lambda: None

    def wait(self, stream: int | None) -> None:
        return None


class Gpu(Place):
    """The current HIP device, through hip-python.

    Raises
    ------
    DeviceError
        If it cannot be used.
    """

    driver = "hip"

    def __init__(self) -> None:
        self.device_id = int(_hip("hipGetDevice"))
        self.target = target_of(self.device_id, _hip("hipGetDeviceProperties", self.device_id))

    def allocate(self, nbytes: int) -> tuple[int, object]:
        found = _hip("hipMalloc", max(nbytes, 1))
        return _address(found), _Freed(found)

    def write(self, address: int, source: int, nbytes: int) -> None:
        _copy(address, source, nbytes, _TO_DEVICE)

    def read(self, target: int, address: int, nbytes: int) -> None:
        _copy(target, address, nbytes, _TO_HOST)

    def stream(self) -> tuple[int | None, Callable[[], None]]:
        found = _hip("hipStreamCreate")
        return _address(found), lambda: _hip("hipStreamDestroy", found)

    def wait(self, stream: int | None) -> None:
        _hip("hipStreamSynchronize", stream)


class _Freed:
    """Device memory that is freed with this object; `hipFree` waits for the device."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory
        self._pid = os.getpid()

    def __del__(self) -> None:
        if os.getpid() == self._pid:
            try:
                _hip("hipFree", self._memory)
            except Exception:  # the process ends, or the device is lost
                return


def here(device: str) -> Place:
    """Return where plugins work in this process.

    Parameters
    ----------
    device : str
        The setting ``foreign.device``: ``"auto"``, ``"cpu"`` or ``"hip"``.

    Raises
    ------
    DeviceError
        If there is a GPU that cannot be used, or one was asked for and there is none: never host
        memory by mistake.
    """
    archs = emulated()
    if device == "cpu" or not (device == "hip" or archs or os.path.exists(KERNEL_DRIVER)):
        return _HOST
    count = int(_hip("hipGetDeviceCount"))
    if not count:
        if device == "auto":
            return _HOST
        raise DeviceError("HIPDNN_IREE_FOREIGN_DEVICE is hip, and HIP finds no device here")
    return _gpu(int(_hip("hipGetDevice")), archs)


_HOST = Host()


@lru_cache(maxsize=16)
def _gpu(device_id: int, archs: tuple[str, ...]) -> Gpu:
    return Gpu()


def _address(found: Any) -> int:
    """Return the address inside an object of hip-python."""
    return int(found)


def _copy(target: int, source: int, nbytes: int, kind: str) -> None:
    from hip import hip

    _hip("hipMemcpy", target, source, nbytes, getattr(hip.hipMemcpyKind, kind))


# What every call names that fails for want of HIP.
_hip = partial(call, instead="HIPDNN_IREE_FOREIGN_DEVICE=cpu gives plugins host pointers")
