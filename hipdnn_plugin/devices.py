"""Where a handle's graphs run: a GPU's stream, or the CPU with host pointers.

A GPU is looked for only on a machine that has AMD's kernel driver; nothing of ROCm is loaded
elsewhere.  A GPU that is there but cannot be used never turns into the CPU silently, as the
pointers of the host are then no host pointers.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..graph_api.errors import DeviceError, SettingError
from ..jit.knobs import settings
from ..jit.target import Target

__all__ = ["CPU", "Place", "place_of", "synchronize"]

log = logging.getLogger("hipdnn_iree.plugin")

KERNEL_DRIVER = "/dev/kfd"
_NO_DEVICE = 100  # hipErrorNoDevice


@dataclass(frozen=True, slots=True)
class Place:
    """A device and a stream of it.

    Attributes
    ----------
    target : Target
        What graphs are compiled for.
    device_id : int
        HIP's number of the device.
    stream : int
        ``hipStream_t``; 0 is the default stream, and what the CPU has.
    """

    target: Target
    device_id: int = 0
    stream: int = 0


CPU = Place(Target.parse("cpu"))


def place_of(stream: int) -> Place:
    """Return where work for a stream runs.

    Raises
    ------
    DeviceError
        If there is a GPU that cannot be used, or one was asked for and there is none.
    """
    chosen = settings().plugin_device
    if chosen == "cpu" or (chosen == "auto" and not _gpus()):
        return CPU
    if not _gpus():
        raise DeviceError("HIPDNN_IREE_PLUGIN_DEVICE is hip, and HIP finds no device here")
    number = _hip("hipStreamGetDevice", stream) if stream else _hip("hipGetDevice")
    return Place(_target(int(number)), int(number), stream)


def synchronize(stream: int) -> None:
    """Wait until a stream is done; see `Place.stream`."""
    _hip("hipStreamSynchronize", stream or None)


@lru_cache(maxsize=1)
def _gpus() -> int:
    """Return the number of HIP devices; 0 without asking HIP where no AMD GPU can be."""
    if settings().plugin_device == "auto" and not os.path.exists(KERNEL_DRIVER):
        return 0
    count = int(_hip("hipGetDeviceCount"))
    log.info("HIP has %d devices", count)
    return count


@lru_cache(maxsize=64)
def _target(device_id: int) -> Target:
    properties = _hip("hipGetDeviceProperties", device_id)
    name = properties.gcnArchName
    text = name.decode() if isinstance(name, bytes) else str(name)
    try:
        return Target.parse(text)
    except SettingError:
        raise DeviceError(
            f"HIP device {device_id} is {text}; code is made for gfx908, gfx90a, gfx942, gfx950"
        ) from None


def _hip(function: str, *arguments: Any) -> Any:
    """Call HIP and return its result.

    Raises
    ------
    DeviceError
        If there is no HIP, or it answers an error.
    """
    try:
        from hip import hip

        status, *values = getattr(hip, function)(*arguments)
    except (ImportError, AttributeError, RuntimeError, OSError, TypeError) as error:
        raise DeviceError(
            f"HIP cannot be used ({function}): {error}; ROCm's libamdhip64.so must be on the "
            "library path; HIPDNN_IREE_PLUGIN_DEVICE=cpu takes host pointers instead"
        ) from error
    if int(status) == _NO_DEVICE and function == "hipGetDeviceCount":
        return 0
    if int(status):
        raise DeviceError(f"{function} failed: {getattr(status, 'name', status)}")
    return values[0] if values else None
