# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Integer arithmetic on arrays that scalar and vector instructions share."""

from __future__ import annotations

import numpy as np

from .formats import Array

__all__ = [
    "bit_field",
    "byte_permute",
    "count_ones",
    "first_one",
    "funnel",
    "leading_bits",
    "mul_high",
    "reverse_bits",
    "sext24",
    "zext24",
]

_WIDER = {"u4": np.uint64, "i4": np.int64, "u2": np.uint32, "i2": np.int32}
_NONE = np.uint32(0xFFFFFFFF)  # "no such bit"


def mul_high(a: Array, b: Array) -> Array:
    """Return the high half of the products of 32-bit integers."""
    wide = _WIDER[a.dtype.str[1:]]
    return ((a.astype(wide) * b.astype(wide)) >> wide(32)).astype(a.dtype)


def bit_field(x: Array, first: Array, width: Array) -> Array:
    """Return `width` bits of `x` from bit `first` on, extended with their sign for signed types."""
    bits = 8 * x.dtype.itemsize
    x, first, width = np.broadcast_arrays(x, first, width)
    kept = np.minimum(width.astype(np.int64), bits - first.astype(np.int64))
    up = np.clip(bits - kept - first.astype(np.int64), 0, bits - 1).astype(x.dtype)
    down = np.clip(bits - kept, 0, bits - 1).astype(x.dtype)
    return np.where(kept > 0, (x << up) >> down, x.dtype.type(0))


def reverse_bits(x: Array) -> Array:
    """Return the bits in reverse order."""
    octets = np.ascontiguousarray(x)[..., None].view(np.uint8)
    bits = np.unpackbits(octets, axis=-1, bitorder="little")
    return np.packbits(bits[..., ::-1], axis=-1, bitorder="little").view(x.dtype)[..., 0]


def count_ones(x: Array) -> Array:
    """Return how many bits are set, as uint32."""
    return np.bitwise_count(x).astype(np.uint32)


def first_one(x: Array) -> Array:
    """Return the number of the lowest set bit, all ones if there is none."""
    lowest = x & (~x + x.dtype.type(1))
    return np.where(x == 0, _NONE, np.bitwise_count(lowest - x.dtype.type(1)).astype(np.uint32))


def leading_bits(x: Array) -> Array:
    """Return how many bits stand above the highest set one; for signed types, above the first
    that differs from the sign.  All ones if there is none."""
    bits = 8 * x.dtype.itemsize
    unsigned = x.view(f"u{x.dtype.itemsize}")
    if x.dtype.kind == "i":
        unsigned = np.where(x < 0, ~unsigned, unsigned)
    filled = unsigned
    shift = 1
    while shift < bits:
        filled = filled | (filled >> filled.dtype.type(shift))
        shift *= 2
    return np.where(
        unsigned == 0, _NONE, np.uint32(bits) - np.bitwise_count(filled).astype(np.uint32)
    )


def funnel(high: Array, low: Array, shift: Array) -> Array:
    """Return 32 bits of the pair, from bit `shift` on."""
    pair = (high.astype(np.uint64) << np.uint64(32)) | low
    return (pair >> shift.astype(np.uint64)).astype(np.uint32)


def byte_permute(a: Array, b: Array, select: Array) -> Array:
    """Return v_perm_b32: each byte of `select` names a byte of (a, b), a sign, 0 or 0xff."""
    if select.size == 1 or (select.shape[-1] == 1 and (select == select.flat[0]).all()):
        return _permute_alike(a, b, int(select.flat[0]))
    pair = (a.astype(np.uint64) << np.uint64(32)) | b
    out: Array = np.zeros((), np.uint32)
    for k in range(4):
        code = (select >> np.uint32(8 * k)) & np.uint32(255)
        byte = (pair >> (np.minimum(code, 7) * np.uint32(8)).astype(np.uint64)) & np.uint64(255)
        if int(code.max()) > 7:
            sign_at = (code.astype(np.uint64) & np.uint64(3)) * np.uint64(16) + np.uint64(15)
            sign = ((pair >> sign_at) & np.uint64(1)) * np.uint64(255)
            beyond = np.where(code >= 13, np.uint64(255), np.where(code == 12, np.uint64(0), sign))
            byte = np.where(code < 8, byte, beyond)
        out = out | (byte.astype(np.uint32) << np.uint32(8 * k))
    return out


def _permute_alike(a: Array, b: Array, select: int) -> Array:
    """Return `byte_permute` for one `select`; two bytes that stay neighbours are moved together."""
    out: Array = np.zeros((1, 1), np.uint32)
    k = 0
    while k < 4:
        code, following = select >> 8 * k & 255, select >> 8 * (k + 1) & 255
        if code < 8:
            width = 2 if k < 3 and following == code + 1 and code != 3 else 1
            field = np.uint32((1 << 8 * width) - 1)
            part = ((a if code > 3 else b) >> np.uint32(8 * (code & 3))) & field
        elif code < 12:
            width = 1
            word = a if code > 9 else b
            part = ((word >> np.uint32(31 if code & 1 else 15)) & np.uint32(1)) * np.uint32(255)
        else:
            width, part = 1, np.full((1, 1), 255 if code > 12 else 0, np.uint32)
        out = out | (part << np.uint32(8 * k))
        k += width
    return out


def zext24(x: Array) -> Array:
    """Return the low 24 bits."""
    return x & np.uint32(0xFFFFFF)


def sext24(x: Array) -> Array:
    """Return the low 24 bits with their sign, as int32."""
    return (x << np.uint32(8)).view(np.int32) >> np.int32(8)
