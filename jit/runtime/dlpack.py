# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""DLPack capsules: reading those of other libraries, making those that IREE imports.

The structs are those of ``dlpack.h`` 1.1.  A capsule that is read is kept, not consumed: its
memory may be used for as long as the capsule object lives, and its own destructor frees it.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any, NamedTuple

__all__ = ["Tensor", "read", "row_major", "wrap"]


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", _Tensor),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY
_UINT = 1  # kDLUInt


def _capsule_function(name: str, result: Any, *arguments: Any) -> Any:
    # Separate prototypes, as the functions of ctypes.pythonapi are shared by the whole process.
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new = _capsule_function(
    "PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)
_is_valid = _capsule_function("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_pointer = _capsule_function(
    "PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p
)


class Tensor(NamedTuple):
    """The content of a capsule: address of the first element, layout in elements, type triple."""

    address: int
    device: tuple[int, int]
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    code: int
    bits: int
    lanes: int
    read_only: bool


def read(exporter: Any) -> tuple[Tensor, object]:
    """Return the content of the capsule that an object exports, and the capsule.

    Raises
    ------
    Exception
        The exporter's own error if it does not export (torch: a tensor that requires grad);
        ValueError if the result is not a capsule.
    """
    try:
        capsule = exporter.__dlpack__(max_version=(1, 0))
    except TypeError:  # an exporter older than DLPack 1.0
        capsule = exporter.__dlpack__()
    read_only = False
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        if versioned.major != 1:
            raise ValueError(f"DLPack version {versioned.major}.{versioned.minor} is not known")
        tensor, read_only = versioned.tensor, bool(versioned.flags & _READ_ONLY)
    elif _is_valid(capsule, b"dltensor"):
        tensor = _Managed.from_address(_pointer(capsule, b"dltensor")).tensor
    else:
        raise ValueError("__dlpack__ returned something else than an unused DLPack capsule")
    rank = int(tensor.ndim)
    dims = tuple(tensor.shape[:rank]) if rank else ()
    dense = not (rank and tensor.strides)
    strides = row_major(dims) if dense else tuple(tensor.strides[:rank])
    about = Tensor(
        address=(tensor.data or 0) + int(tensor.byte_offset),
        device=(int(tensor.device.type), int(tensor.device.id)),
        dims=dims,
        strides=strides,
        code=int(tensor.dtype.code),
        bits=int(tensor.dtype.bits),
        lanes=int(tensor.dtype.lanes),
        read_only=read_only,
    )
    return about, capsule


def row_major(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a dense row-major tensor, in elements."""
    strides: list[int] = []
    stride = 1
    for extent in reversed(dims):
        strides.append(stride)
        stride *= extent
    return tuple(reversed(strides))


# IREE reads the struct during the import, and its deleter (null: nothing to free) again when the
# buffer is freed.  One struct for the whole process outlives every buffer; the lock covers filling
# and importing.
_lock = threading.Lock()
_shape = (ctypes.c_int64 * 1)()
_managed = _Managed()


def wrap(hal: Any, address: int, nbytes: int, device: tuple[int, int]) -> Any:
    """Return a HAL buffer over ``nbytes`` bytes at ``address``, without a copy.

    Parameters
    ----------
    hal : iree.runtime.HalDevice
        Device that will use the memory.
    device : tuple of int
        DLPack device type and id of the memory.

    Raises
    ------
    Exception
        IREE's own error if it does not accept the memory (CPU: not 64-byte aligned).

    Notes
    -----
    Nothing keeps the memory alive; the caller must do that.
    """
    with _lock:
        _shape[0] = nbytes
        tensor = _managed.tensor
        tensor.data = address
        tensor.device = _Device(*device)
        tensor.ndim = 1
        tensor.dtype = _DataType(_UINT, 8, 1)
        tensor.shape = ctypes.cast(_shape, ctypes.POINTER(ctypes.c_int64))
        capsule = _new(ctypes.addressof(_managed), b"dltensor", None)
        return hal.from_dlpack_capsule(capsule).get_buffer()
