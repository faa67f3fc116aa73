"""hipDNN's plugin interface in ctypes: structures, statuses, entry points, and the shim's table.

Sources: hipDNN's ``PluginApiDataTypes.h``, ``PluginApi.h`` and ``EnginePluginApi.h`` (API 1.0.0
to 1.4.x).  `ENTRY_POINTS` and `ShimTable` repeat what ``native/plugin.c`` declares; a test
compares the two.
"""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from enum import IntEnum
from typing import Any

from ..graph_api.errors import (
    ArtifactError,
    BindError,
    CompileError,
    DeviceError,
    FormatError,
    GraphError,
    NotPrecompiledError,
    NotSupportedError,
    SettingError,
)

__all__ = [
    "ENTRY_POINTS",
    "MOST_ITEMS",
    "TABLE_VERSION",
    "BehaviorNote",
    "ConstData",
    "DeviceBuffer",
    "PluginError",
    "Severity",
    "ShimTable",
    "Status",
    "read_bytes",
    "status_of",
]


class Status(IntEnum):
    """``hipdnnPluginStatus_t``; the last two came after November 2025."""

    SUCCESS = 0
    BAD_PARAM = 1
    INVALID_VALUE = 2
    INTERNAL_ERROR = 3
    ALLOC_FAILED = 4
    NOT_APPLICABLE = 5
    NOT_INITIALIZED = 6


class Severity(IntEnum):
    """``hipdnnSeverity_t``."""

    INFO = 0
    WARN = 1
    ERROR = 2
    FATAL = 3
    OFF = 4


class BehaviorNote(IntEnum):
    """What a user may want to know of an engine before choosing it."""

    RUNTIME_COMPILATION = 0
    REQUIRES_LAYOUT_TRANSFORM = 1
    SUPPORTS_GRAPH_CAPTURE = 2
    EXTERNAL_LIBRARY_DEPENDENCY = 3
    SUPPORTS_EXECUTION_PLAN_SERIALIZATION = 4


class ConstData(ctypes.Structure):
    """``hipdnnPluginConstData_t``: bytes and their number."""

    _fields_ = (("ptr", c_void_p), ("size", c_size_t))


class DeviceBuffer(ctypes.Structure):
    """``hipdnnPluginDeviceBuffer_t``: a tensor's uid and its memory."""

    _fields_ = (("uid", c_int64), ("ptr", c_void_p))


# Pointers are taken as addresses (an int, or None for null), which costs a third of a POINTER.
_P, _N, _ID = c_void_p, c_uint32, c_int64

ENTRY_POINTS: dict[str, tuple[Any, ...]] = {
    "Create": (_P,),
    "Destroy": (_P,),
    "SetStream": (_P, _P),
    "GetApplicableEngineIds": (_P, _P, _P, _N, _P),
    "GetEngineDetails": (_P, _ID, _P, _P),
    "DestroyEngineDetails": (_P, _P),
    "GetWorkspaceSize": (_P, _P, _P, _P),
    "CreateExecutionContext": (_P, _P, _P, _P),
    "DestroyExecutionContext": (_P, _P),
    "GetWorkspaceSizeFromExecutionContext": (_P, _P, _P),
    "ExecuteOpGraph": (_P, _P, _P, _P, _N),
    "ExecuteOpGraphWithOverrides": (_P, _P, _P, _P, _N, _N, _P, _P, _P, _P),
    "SerializeExecutionContextWithEngineId": (_P, _ID, _P, _P),
    "SerializeExecutionContext": (_P, _P, _P),
    "DestroySerializedExecutionContext": (_P, _P),
    "CreateExecutionContextFromSerialized": (_P, _P, _P),
}
"""Entry points that run in Python, without ``hipdnnEnginePlugin``, and their parameters."""

TABLE_VERSION = 2


class ShimTable(ctypes.Structure):
    """``struct table`` of ``native/plugin.c``: what the library offers, and what it calls."""

    _fields_ = (
        ("version", c_uint32),
        ("size", c_uint32),
        ("owner", c_int32),
        ("started", c_int32),
        ("package", c_char_p),
        ("set_error", ctypes.PYFUNCTYPE(None, c_char_p)),  # holds the GIL: it only copies text
        ("emit", CFUNCTYPE(None, c_int, c_char_p)),
        ("log_level", CFUNCTYPE(c_int)),
        ("exit_early", CFUNCTYPE(None)),
        ("shutdown", CFUNCTYPE(None)),
        ("set_level", CFUNCTYPE(None, c_int)),
        *((name, CFUNCTYPE(c_int, *kinds)) for name, kinds in ENTRY_POINTS.items()),
    )


class PluginError(Exception):
    """A call that is refused, with the status that the host gets."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(text)
        self.status = status


_STATUSES: tuple[tuple[type[BaseException], Status], ...] = (
    (GraphError, Status.INVALID_VALUE),
    (FormatError, Status.INVALID_VALUE),
    (SettingError, Status.INVALID_VALUE),
    (ArtifactError, Status.INVALID_VALUE),
    (NotSupportedError, Status.NOT_APPLICABLE),
    (NotPrecompiledError, Status.NOT_APPLICABLE),
    (BindError, Status.BAD_PARAM),
    (CompileError, Status.INTERNAL_ERROR),
    (DeviceError, Status.INTERNAL_ERROR),
    (MemoryError, Status.ALLOC_FAILED),
)


def status_of(error: BaseException) -> Status:
    """Return the status for an error; one that nobody foresaw is INTERNAL_ERROR."""
    if isinstance(error, PluginError):
        return error.status
    return next((s for kind, s in _STATUSES if isinstance(error, kind)), Status.INTERNAL_ERROR)


MOST_ITEMS = 1 << 20
"""Of an array of buffers or overrides; a count above it is no count, and is not followed."""

_MOST_BYTES = (1 << 31) - 1  # of a FlatBuffer, and of what `ctypes.string_at` takes


def read_bytes(address: int | None) -> bytes:
    """Return a copy of the bytes behind a ``const ConstData*``.

    Raises
    ------
    PluginError
        If the pointer, or the one in it, is null, or the size is 0 or that of no message.
    """
    if not address:
        raise PluginError(Status.BAD_PARAM, "null pointer for data")
    data = ConstData.from_address(address)
    if not data.ptr or not 0 < data.size <= _MOST_BYTES:
        raise PluginError(
            Status.BAD_PARAM,
            f"data of {data.size} bytes at {data.ptr or 0:#x}; wanted 1 to {_MOST_BYTES}",
        )
    return ctypes.string_at(data.ptr, data.size)
