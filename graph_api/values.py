# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers as the element types hold them, in plain Python."""

from __future__ import annotations

import math

from .dtypes import DataType

__all__ = ["Scalar", "from_byte", "plain_number", "stored"]

Scalar = bool | int | float
_PLAIN = (bool, int, float)


def plain_number(value: object) -> Scalar | None:
    """Return a bool, int, float or NumPy-like scalar as a plain Python number, else None."""
    if type(value) in _PLAIN:
        return value  # type: ignore[return-value]
    if not isinstance(value, bool | int | float) and getattr(value, "shape", None) == ():
        item = getattr(value, "item", None)
        value = item() if callable(item) else value
    for kind in _PLAIN:  # a subclass (an IntEnum, NumPy's float64) loses its class
        if isinstance(value, kind):
            return kind(value)
    return None


def stored(value: Scalar, data_type: DataType) -> Scalar | None:
    """Return the number that an element of the type holds, or None for one out of range.

    Floats are rounded to the nearest, ties to even; a float that is no integer is out of
    the range of an integer type.
    """
    if data_type.is_bool:
        return bool(value) if value in (0, 1) else None
    if data_type.is_integer:
        signed = data_type.value.kind == "int"
        low = -(2 ** (data_type.bits - 1)) if signed else 0
        if isinstance(value, float) and not value.is_integer():  # so are inf and nan
            return None
        return int(value) if low <= value < low + 2**data_type.bits else None
    return _rounded(value, data_type) if data_type.is_float else None


def _rounded(value: Scalar, data_type: DataType) -> float | None:
    try:
        x = float(value)
    except OverflowError:
        return None
    if math.isnan(x):
        return x if data_type.bits >= 8 else None  # the 4- and 6-bit types have numbers only
    if math.isinf(x):
        return x if data_type.has_infinity else None
    if x != 0 and data_type is not DataType.DOUBLE:
        exponent = math.frexp(x)[1] - 1
        least = max(exponent - data_type.value.mantissa, data_type.tiny_exponent)
        quantum = math.ldexp(1.0, least)
        # `round` is exact here (the quotient has few bits) and rounds ties to even.
        x = math.copysign(round(abs(x) / quantum) * quantum, x)
    if data_type is DataType.FP8_E8M0 and x <= 0:
        return None
    if data_type.name.endswith("FNUZ"):
        x += 0.0  # no negative zero
    return x if abs(x) <= data_type.largest else None


def from_byte(byte: int, kind: DataType) -> float:
    """Return the number that the bits of an 8-bit float mean (OCP, FNUZ or E8M0)."""
    if kind is DataType.FP8_E8M0:
        return math.nan if byte == 255 else 2.0 ** (byte - 127)
    mantissa_bits = kind.value.mantissa
    exponent_bits = 7 - mantissa_bits
    fnuz = kind.name.endswith("FNUZ")
    bias = 2 ** (exponent_bits - 1) - (0 if fnuz else 1)
    sign = -1.0 if byte & 0x80 else 1.0
    exponent = (byte & 0x7F) >> mantissa_bits
    mantissa = byte & (2**mantissa_bits - 1)
    if fnuz and byte == 0x80:
        return math.nan
    if not fnuz and exponent == 2**exponent_bits - 1:
        if kind is DataType.FP8_E5M2:
            return math.nan if mantissa else sign * math.inf
        if mantissa == 2**mantissa_bits - 1:
            return math.nan
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - mantissa_bits)
    return sign * math.ldexp(1 + mantissa / 2**mantissa_bits, exponent - bias)
