# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Host arrays in the layout of a tensor: aligned allocation, packing, views of raw memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ...graph_api.layout import byte_runs, layout_of
from ..signature import ArgSpec
from .elements import is_packed, numpy_dtype, value_dtype

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "ALIGNMENT",
    "aligned_bytes",
    "empty",
    "gapped",
    "memory_of",
    "occupied",
    "pack",
    "result",
    "span",
    "stored",
    "unpack",
    "view",
]

ALIGNMENT = 64
"""Bytes; IREE's CPU kernels fault on memory with a smaller alignment."""


def span(dims: Sequence[int], strides: Sequence[int]) -> int:
    """Return the number of elements from the first to the last, both included."""
    return 1 + sum((d - 1) * s for d, s in zip(dims, strides, strict=True))


def aligned_bytes(nbytes: int) -> npt.NDArray[np.uint8]:
    """Return uninitialised bytes whose address is a multiple of `ALIGNMENT`."""
    import numpy as np

    raw = np.empty(nbytes + ALIGNMENT - 1, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]


def view(memory: Any, spec: ArgSpec) -> npt.NDArray[Any]:
    """Return the logical view (dims and strides of ``spec``) of ``spec.nbytes`` bytes.

    Parameters
    ----------
    memory : buffer
        Anything with the buffer protocol.  Packed types stay flat ``uint8``.
    """
    import numpy as np

    if is_packed(spec.data_type):
        return np.ndarray((spec.nbytes,), np.uint8, memory)
    dtype = numpy_dtype(spec.data_type)
    strides = tuple(s * dtype.itemsize for s in spec.strides)
    return np.ndarray(spec.dims, dtype, memory, strides=strides)


def gapped(spec: ArgSpec) -> bool:
    """Whether there is memory between the elements that does not belong to the tensor."""
    return prod(spec.shape) != prod(d for d, s in zip(spec.dims, spec.strides, strict=True) if s)


def occupied(memory: Any, spec: ArgSpec) -> npt.NDArray[Any]:
    """Return an array of what belongs to an output in its ``spec.nbytes`` bytes, without the gaps.

    Its elements are the tensor's, or bytes of them for packed types; none comes twice.
    """
    if not (is_packed(spec.data_type) and gapped(spec)):
        return view(memory, spec)
    import numpy as np

    runs = byte_runs(layout_of(spec.dims, spec.strides), spec.data_type.bits)
    assert runs is not None  # no engine serves it
    extents, strides = zip(*runs, strict=True)
    return np.ndarray(extents, np.uint8, memory, strides=strides)


def empty(spec: ArgSpec) -> npt.NDArray[Any]:
    """Return an uninitialised, aligned array with the dims and strides of ``spec``.

    Packed types (4 and 6 bits) give a flat ``uint8`` array of ``spec.nbytes`` bytes.
    """
    return view(aligned_bytes(spec.nbytes), spec)


def result(spec: ArgSpec) -> npt.NDArray[Any]:
    """Return an uninitialised array for the values of an output.

    As `empty`, but packed types have one element per byte, in ml_dtypes' type.
    """
    import numpy as np

    if not is_packed(spec.data_type):
        return empty(spec)
    memory = aligned_bytes(prod(spec.shape))
    return np.ndarray(spec.dims, value_dtype(spec.data_type), memory.data, strides=spec.strides)


def pack(spec: ArgSpec, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return ``values`` as ``spec`` stores them: in its strides, aligned, packed.

    Parameters
    ----------
    values : array_like
        Logical values of shape ``spec.dims``, or with extent 1 where the tensor is broadcast
        (stride 0).  For FP4 and FP6 an ml_dtypes array or the codes as ``uint8``.

    Raises
    ------
    ValueError
        If the shape does not fit or a packed integer is out of range.
    """
    import numpy as np

    array = np.asarray(values)
    kept = tuple(1 if s == 0 else d for d, s in zip(spec.dims, spec.strides, strict=True))
    if array.shape not in (spec.dims, kept):
        raise ValueError(f"got shape {array.shape}; wanted {spec.dims}")
    array = stored(array, spec)
    memory = aligned_bytes(spec.nbytes)
    if not is_packed(spec.data_type):
        if array.size != prod(spec.shape):
            memory[:] = 0  # the gaps of a padded tensor
        result = view(memory, spec)
        stored(result, spec)[...] = array.astype(result.dtype)
        return result
    codes = np.zeros(prod(spec.shape), np.uint8)
    codes[_offsets(kept, spec.strides)] = _codes(array, spec).reshape(-1)
    fields = np.unpackbits(codes[:, None], axis=1, bitorder="little")
    memory[:] = np.packbits(fields[:, : spec.data_type.bits].reshape(-1), bitorder="little")
    return memory


def memory_of(spec: ArgSpec, values: npt.ArrayLike) -> bytes:
    """Return the ``spec.nbytes`` bytes that `pack` makes of values; packed ones may be given."""
    import numpy as np

    array = np.asarray(values)
    if is_packed(spec.data_type) and array.shape == (spec.nbytes,) and array.dtype == np.uint8:
        return array.tobytes()
    packed = pack(spec, array)  # whose first element lies at the start of its memory
    return ctypes.string_at(packed.ctypes.data, spec.nbytes)


def stored(array: npt.NDArray[Any], spec: ArgSpec) -> npt.NDArray[Any]:
    """Return the part of a logical array that has memory: index 0 of each broadcast dim."""
    # With the ellipsis a tensor without dims stays an array.
    return array[(..., *(slice(0, 1) if s == 0 else slice(None) for s in spec.strides))]


def unpack(spec: ArgSpec, memory: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the logical array for memory that `pack` or a plan wrote.

    Packed types are returned in their ml_dtypes dtype, one element per byte.  Memory that already
    is a logical array, as for all other types, is returned unchanged.
    """
    import numpy as np

    if not is_packed(spec.data_type) or memory.dtype == value_dtype(spec.data_type):
        return memory
    bits, count = spec.data_type.bits, prod(spec.shape)
    fields = np.unpackbits(memory.reshape(-1), bitorder="little")[: count * bits]
    codes = np.packbits(fields.reshape(count, bits), axis=1, bitorder="little")[:, 0]
    kept = tuple(1 if s == 0 else d for d, s in zip(spec.dims, spec.strides, strict=True))
    codes = np.broadcast_to(codes[_offsets(kept, spec.strides)].reshape(kept), spec.dims)
    if spec.data_type.is_integer:
        sign = np.uint8(1 << (bits - 1))
        signed = (codes ^ sign).astype(np.int8) - np.int8(sign)
        return signed.astype(value_dtype(spec.data_type))
    values = np.ascontiguousarray(codes).view(value_dtype(spec.data_type))
    return values.reshape(spec.dims)


def _offsets(dims: tuple[int, ...], strides: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the element offset of each logical element, in row-major order of ``dims``."""
    import numpy as np

    offsets = np.zeros(dims, np.intp)
    for axis, (extent, stride) in enumerate(zip(dims, strides, strict=True)):
        along = np.arange(extent) * stride
        offsets += along.reshape([-1 if a == axis else 1 for a in range(len(dims))])
    return offsets.reshape(-1)


def _codes(array: npt.NDArray[Any], spec: ArgSpec) -> npt.NDArray[np.uint8]:
    """Return the bit patterns of packed values, one per byte."""
    import numpy as np

    bits = spec.data_type.bits
    if spec.data_type.is_integer:
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        wide = array.astype(np.int64)
        if wide.min() < low or wide.max() > high:
            raise ValueError(f"got {wide.min()}..{wide.max()}; wanted {low}..{high}")
        return (wide & ((1 << bits) - 1)).astype(np.uint8)
    if array.dtype == np.uint8:
        return array
    dtype = value_dtype(spec.data_type)
    return np.ascontiguousarray(array.astype(dtype)).view(np.uint8)
