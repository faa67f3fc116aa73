# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types of operands: their NumPy types, their constants, denormals."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .errors import UnsupportedError
from .instruction import Operand

__all__ = [
    "DTYPES",
    "Array",
    "Bools",
    "bf16_bits",
    "canonical",
    "constant",
    "flush",
    "from_bf16",
    "from_f16",
    "size_of",
]

# NumPy's stubs know nothing of arithmetic on arrays of unknown type.
Array: TypeAlias = Any
Bools: TypeAlias = NDArray[np.bool_]

# bf16 values are held as their 16 bits.
DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "bf16": np.uint16,
    "u8": np.uint8,
    "i8": np.int8,
    "u16": np.uint16,
    "i16": np.int16,
    "u32": np.uint32,
    "i32": np.int32,
    "u64": np.uint64,
    "i64": np.int64,
}
_FLOATS: dict[str, tuple[Any, int, int]] = {
    "f16": (np.uint16, 10, 5),
    "f32": (np.uint32, 23, 8),
    "f64": (np.uint64, 52, 11),
}
ONE_BY_2PI = (
    0x3FC45F306DC9C882  # in double precision; its single-precision pattern widens to another
)


def canonical(kind: str) -> str:
    """Return the type of a suffix of a mnemonic: ``b32`` and the like are unsigned."""
    return "u" + kind[1:] if kind[0] == "b" and kind != "bf16" else kind


def size_of(kind: str) -> int:
    """Return the bytes of a value of that type."""
    return int(np.dtype(DTYPES[kind]).itemsize)


def constant(operand: Operand, kind: str) -> Array:
    """Return a constant as an operation of that type sees it.

    Returns
    -------
    numpy.ndarray, shape (1,)
    """
    dtype, size = DTYPES[kind], size_of(kind)
    bits = operand.bits & 0xFFFFFFFF
    if operand.kind == "float":
        single = np.array([bits], np.uint32)
        if size == 8:
            wide = (
                np.array([ONE_BY_2PI], np.uint64)
                if bits == 0x3E22F983
                else single.view(np.float32).astype(np.float64)
            )
            return wide.view(dtype)
        if kind == "bf16":
            return bf16_bits(single.view(np.float32))
        if size == 2:
            return single.view(np.float32).astype(np.float16).view(dtype)
        return single.view(dtype)
    if size == 8:
        signed = bits - ((bits & 0x80000000) << 1)
        if operand.kind == "integer" or kind == "i64":
            return np.array([signed & 0xFFFFFFFFFFFFFFFF], np.uint64).view(dtype)
        if operand.kind != "literal":
            raise UnsupportedError(f"constant {operand.name} of kind {operand.kind!r}")
        return np.array([bits << 32 if kind == "f64" else bits], np.uint64).view(dtype)
    unsigned = {1: np.uint8, 2: np.uint16, 4: np.uint32}[size]
    return np.array([bits & ((1 << 8 * size) - 1)], unsigned).view(dtype)


def flush(x: Array) -> Array:
    """Return `x` (a float type) with denormals replaced by zeros of their sign."""
    unsigned, fraction, exponent = _FLOATS[f"f{8 * x.dtype.itemsize}"]
    bits = x.view(unsigned)
    field = unsigned(((1 << exponent) - 1) << fraction)
    small = (bits & field) == 0
    if not small.any():
        return x
    sign = unsigned(1 << (8 * x.dtype.itemsize - 1))
    return np.where(small, bits & sign, bits).view(x.dtype)


def from_f16(x: Array) -> Array:
    """Return halves (contiguous) as float32, faster than NumPy's own conversion."""
    bits = x.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= ~0x70000000
    out: Array = bits.view(np.float32)
    out *= np.float32(2.0**112)  # from the one exponent's bias to the other's
    if out.size and not (out.max() < 65536.0 and out.min() > -65536.0):  # NaN or infinity
        return x.astype(np.float32)
    return out


def from_bf16(bits: Array) -> Array:
    """Return bfloat16 patterns (uint16) as float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def bf16_bits(x: Array) -> Array:
    """Return float32 values as bfloat16 patterns (uint16), rounded to nearest even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(
        16
    )
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(nan, (bits >> np.uint32(16)) | np.uint32(0x40), rounded).astype(np.uint16)
