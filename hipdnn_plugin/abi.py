# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plugin's side of hipDNN's C interface: the shim's table, and statuses for errors.

`ShimTable` and the `ENTRY_POINTS` repeat what ``native/plugin.c`` declares; a test compares them.
"""

from __future__ import annotations

import ctypes
from ctypes import c_void_p
from enum import IntEnum

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
from ..provider.native.table import HOST_FIELDS
from ..provider.plugin_abi import ENTRY_POINTS, ConstData, Status

__all__ = [
    "MOST_ITEMS",
    "TABLE_VERSION",
    "BehaviorNote",
    "PluginError",
    "ShimTable",
    "read_bytes",
    "status_of",
]


class BehaviorNote(IntEnum):
    """What a user may want to know of an engine before choosing it."""

    RUNTIME_COMPILATION = 0
    REQUIRES_LAYOUT_TRANSFORM = 1
    SUPPORTS_GRAPH_CAPTURE = 2
    EXTERNAL_LIBRARY_DEPENDENCY = 3
    SUPPORTS_EXECUTION_PLAN_SERIALIZATION = 4


TABLE_VERSION = 4


class ShimTable(ctypes.Structure):
    """``struct table`` of ``native/plugin.c``: what the library offers, and what it calls."""

    _fields_ = (*HOST_FIELDS, *((name, c_void_p) for name in ENTRY_POINTS))


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
