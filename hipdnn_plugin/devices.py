# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The device of a handle's graphs: a GPU and a stream of it, or the CPU with host pointers.

HIP is asked for GPUs only on a machine that has AMD's kernel driver; nothing of ROCm is loaded
elsewhere.  If there is a GPU that cannot be used, the CPU never takes its place silently: the
host's pointers may be device memory.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..graph_api.errors import DeviceError
from ..jit.runtime.hip import KERNEL_DRIVER, call, emulated, target_of
from ..jit.target import Target
from ..provider.native.deployment import told

__all__ = ["CPU", "Place", "place_of"]

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


def place_of(stream: int, chosen: str) -> Place:
    """Return the device that work for a stream runs on; ``chosen`` is ``plugin.device``.

    Raises
    ------
    DeviceError
        If there is a GPU that cannot be used, or one was asked for and there is none.
    """
    archs = emulated()
    if chosen == "cpu" or (chosen == "auto" and not _gpus(chosen, archs)):
        return CPU
    if not _gpus(chosen, archs):
        raise DeviceError(told("NO_DEVICE", "hipGetDeviceCount gives 0"))
    number = _hip("hipStreamGetDevice", stream) if stream else _hip("hipGetDevice")
    return Place(_target(int(number), archs), int(number), stream)


@lru_cache(maxsize=2)
def _gpus(chosen: str, archs: tuple[str, ...]) -> int:
    """Return the number of HIP devices; 0 without asking HIP where no AMD GPU can be.

    ``archs`` are the emulated ones, which take the place of all others.
    """
    if chosen == "auto" and not archs and not os.path.exists(KERNEL_DRIVER):
        return 0
    count = int(_hip("hipGetDeviceCount"))
    log.info("HIP has %d devices", count)
    return count


@lru_cache(maxsize=64)
def _target(device_id: int, archs: tuple[str, ...]) -> Target:
    properties = _hip("hipGetDeviceProperties", device_id)
    try:
        target = target_of(device_id, properties)
    except DeviceError as error:
        raise DeviceError(told("OTHER_DEVICE", error)) from error
    log.info("graphs are compiled for %s", target)
    return target


def _hip(function: str, *arguments: int) -> Any:
    try:
        return call(function, *arguments, instead="")
    except DeviceError as error:
        raise DeviceError(told("NO_HIP", str(error).rstrip("; "))) from error
