# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Waiting on the host for a caller's stream, through the vendor's own library.

IREE enqueues on a HIP stream of the caller.  It does not accept a CUDA stream, nor the default
stream of either vendor; for these the host waits for the stream before it enqueues work that
must come after it.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

from ...graph_api.errors import DeviceError, SettingError

__all__ = ["device_of", "handle", "synchronize"]

_LIBRARIES = {
    "hip": ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"),
    "cuda": ("libcuda.so.1", "libcuda.so"),
}
_FUNCTIONS = {"hip": "hipStreamSynchronize", "cuda": "cuStreamSynchronize"}
_NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT: the default stream of a thread without a context


def handle(stream: Any) -> int:
    """Return the handle of a stream.

    Parameters
    ----------
    stream : int or stream object
        One with ``__cuda_stream__`` (CUDA's Python protocol), ``cuda_stream`` (PyTorch, also for
        HIP), ``ptr`` (CuPy), or ``int()`` (hip-python).

    Raises
    ------
    SettingError
        If it is none of these.
    """
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    try:
        return int(stream)
    except (TypeError, ValueError):
        raise SettingError(
            f"a stream is a handle or a stream of PyTorch, CuPy or hip-python; got a "
            f"{type(stream).__name__}"
        ) from None


def device_of(driver: str, stream: int, default: int) -> int:
    """Return the number of the device that a stream belongs to.

    Parameters
    ----------
    driver : str
        Of others than ``"hip"`` the default is the answer.
    stream : int
        ``hipStream_t``; of 0, the default stream, the default is the answer.
    default : int
        Also the answer where there is no HIP, or one that cannot be asked: what comes next, to
        make a device, says what is missing.

    Raises
    ------
    DeviceError
        If it is no stream of this process.
    """
    if driver != "hip" or not stream:
        return default
    ask = getattr(_library(driver), "hipStreamGetDevice", None)
    if ask is None:
        return default
    number = ctypes.c_int()
    status = ask(ctypes.c_void_p(stream), ctypes.byref(number))
    if status:
        raise DeviceError(
            f"hipStreamGetDevice returned {status} for {stream:#x}; is it a live stream of this "
            "process?"
        )
    return number.value


def synchronize(driver: str, stream: int, device_id: int = 0) -> None:
    """Wait until all work that was enqueued on a stream is done.

    Parameters
    ----------
    driver : str
        ``"hip"`` or ``"cuda"``.
    stream : int
        ``hipStream_t`` or ``CUstream``; 0 is the default stream.
    device_id : int
        Device of the default stream.

    Raises
    ------
    DeviceError
        If there is no such library, or it reports an error.
    """
    library = _library(driver)
    if library is None:
        names = ", ".join(_LIBRARIES[driver])
        raise DeviceError(f"none of {names} can be loaded, so no stream can be waited for")
    wait = getattr(library, _FUNCTIONS[driver])
    status = wait(ctypes.c_void_p(stream))
    if status == _NO_CONTEXT and driver == "cuda":
        context = ctypes.c_void_p()
        # IREE uses the primary context, too.
        status = library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device_id)
        status = status or library.cuCtxSetCurrent(context) or wait(ctypes.c_void_p(stream))
    if status:
        raise DeviceError(
            f"waiting for {driver} stream {stream:#x} failed: {_FUNCTIONS[driver]} returned "
            f"{status}; is it a live stream of this process?"
        )


@lru_cache(maxsize=2)
def _library(driver: str) -> ctypes.CDLL | None:
    for name in _LIBRARIES[driver]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None
