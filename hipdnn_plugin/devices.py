"""Where a handle's graphs run: a GPU's stream, or the CPU with host pointers.

A GPU is looked for only on a machine that has AMD's kernel driver; nothing of ROCm is loaded
elsewhere.  A GPU that is there but cannot be used never turns into the CPU silently, as the
pointers of the host are then no host pointers.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import lru_cache, partial

from ..graph_api.errors import DeviceError
from ..jit.runtime.hip import KERNEL_DRIVER, call, target_of
from ..jit.settings import settings
from ..jit.target import Target

__all__ = ["CPU", "Place", "place_of", "synchronize"]

log = logging.getLogger("hipdnn_iree.plugin")


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
    return target_of(device_id, _hip("hipGetDeviceProperties", device_id))


# What every call names that fails for want of HIP.
_hip = partial(call, instead="HIPDNN_IREE_PLUGIN_DEVICE=cpu takes host pointers instead")
