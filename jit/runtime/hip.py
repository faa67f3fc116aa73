# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of HIP through hip-python; errors become `DeviceError`; nothing is loaded before a call."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from ...graph_api.errors import DeviceError, SettingError
from ..target import Target

__all__ = ["KERNEL_DRIVER", "call", "emulated", "target_of"]

KERNEL_DRIVER = "/dev/kfd"
"""A machine with an AMD GPU and its driver has this file."""

_LIBRARY = "libamdhip64.so"

_NO_DEVICE = 100  # hipErrorNoDevice
_FILLED = {"hipGetDeviceProperties": "hipDeviceProp_t"}
"""What fills a structure of its caller in hip-python 7, and returns one from 10 on."""


def call(function: str, *arguments: Any, instead: str) -> Any:
    """Call HIP and return its result; ``hipGetDeviceCount`` without a device is 0.

    Parameters
    ----------
    function : str
        Name in hip-python.
    *arguments
        As hip-python 10 takes them.
    instead : str
        What to set on a machine without HIP, for the text.

    Raises
    ------
    DeviceError
        If there is no HIP, or it returns an error.
    """
    try:
        from hip import hip

        status, *values = _answer(hip, function, arguments)
    except (ImportError, AttributeError, RuntimeError, OSError, TypeError) as error:
        raise DeviceError(
            f"HIP cannot be used ({function}): {error}; ROCm's libamdhip64.so must be on the "
            f"library path; {instead}"
        ) from error
    if int(status) == _NO_DEVICE and function == "hipGetDeviceCount":
        return 0
    if int(status):
        raise DeviceError(f"{function} failed: {getattr(status, 'name', status)}")
    return values[0] if values else None


def emulated() -> tuple[str, ...]:
    """Return the GPUs that are emulated in this process (``hipdnn_iree.emulation``), in order."""
    try:
        library = ctypes.CDLL(_LIBRARY, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        archs = library.emulated_archs
    except (OSError, AttributeError):  # none is loaded, or ROCm's
        return ()
    archs.restype = ctypes.c_char_p
    text = archs().decode()
    return tuple(text.split(",")) if text else ()


def _answer(hip: Any, function: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a status and results, as hip-python 10 does."""
    try:
        return tuple(getattr(hip, function)(*arguments))
    except TypeError:
        if function not in _FILLED:
            raise
        structure = getattr(hip, _FILLED[function])()
        return (*getattr(hip, function)(structure, *arguments), structure)


def target_of(device_id: int, properties: Any) -> Target:
    """Return the target of a device, from the result of ``hipGetDeviceProperties``.

    Raises
    ------
    DeviceError
        If no code can be compiled for it.
    """
    name = properties.gcnArchName
    text = name.decode() if isinstance(name, bytes) else str(name)
    try:
        return Target.parse(text)
    except SettingError:
        raise DeviceError(
            f"HIP device {device_id} is {text}; code is made for gfx908, gfx90a, gfx942, gfx950"
        ) from None
