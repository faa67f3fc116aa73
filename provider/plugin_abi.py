# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""hipDNN's engine plugin interface in ctypes: structures, statuses, entry points.

Sources: hipDNN's ``PluginApiDataTypes.h``, ``PluginApi.h`` and ``EnginePluginApi.h`` (API 1.0.0
to 1.4.x).  Plugins of others are called through it; ``hipdnn_plugin`` implements it.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_int64, c_size_t, c_uint32, c_void_p
from enum import IntEnum
from typing import Any

__all__ = [
    "ENGINE_FUNCTIONS",
    "ENTRY_POINTS",
    "PLUGIN_FUNCTIONS",
    "ConstData",
    "DeviceBuffer",
    "Severity",
    "Status",
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
"""Entry points with a handle, without ``hipdnnEnginePlugin``, and their parameters."""

PLUGIN_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "hipdnnPluginGetName": (_P,),
    "hipdnnPluginGetVersion": (_P,),
    "hipdnnPluginGetType": (_P,),
    "hipdnnPluginGetLastErrorString": (_P,),
    "hipdnnPluginGetApiVersion": (_P,),
    "hipdnnPluginSetLoggingCallback": (_P,),
    "hipdnnPluginSetLogLevel": (c_int,),
}
"""Functions of every plugin, and their parameters; hipDNN requires the first four."""

ENGINE_FUNCTIONS = {
    f"hipdnnEnginePlugin{name}": kinds
    for name, kinds in {
        "GetAllEngineIds": (_P, _N, _P),
        "GetEngineName": (_ID, _P),
        **ENTRY_POINTS,
    }.items()
}
"""Functions of an engine plugin, and their parameters."""
