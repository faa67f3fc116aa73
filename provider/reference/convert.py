# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conversions between element types: the numeric meaning of a load and of a store.

These rules are the project's semantics; the lowering has to match them:

- Float to float rounds to nearest, ties to even, once (never by way of a third type).
- What is too large for a float type becomes infinity, where the type has it, else NaN; in the
  types without NaN (FP4, FP6) and in E8M0 it becomes the largest number.  NaN has no code in FP4
  and FP6 and becomes 0.  E8M0 has powers of two only: ties go up, what is too small becomes the
  smallest number, and 0 and negative numbers become NaN.
- Float to integer drops the fraction and saturates; NaN becomes 0.
- Integer to a narrower integer saturates.
- Anything to BOOLEAN is "not equal to 0" (so NaN is true).
- Arithmetic in an integer compute type wraps around (two's complement); arithmetic in BOOLEAN
  is integer arithmetic whose result is compared with 0.

Inside the reference, values of float types are float64 and those of all other types int64.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ...graph_api.dtypes import DataType
from ...graph_api.tensor import Scalar

__all__ = [
    "Array",
    "int_range",
    "numpy_dtype",
    "scalar",
    "smallest",
    "to_dtype",
    "unit_roundoff",
    "widen",
    "wrap",
]

Array = NDArray[Any]
_NUMPY_FLOATS = (DataType.FLOAT, DataType.HALF, DataType.DOUBLE)


@cache
def numpy_dtype(data_type: DataType) -> np.dtype[Any]:
    """Return the NumPy (or ml_dtypes) type; one byte an element for types below 8 bits.

    Raises
    ------
    ValueError
        For UNSET.
    """
    name = data_type.value.numpy
    if not name:
        raise ValueError(f"{data_type!r} has no NumPy type")
    return np.dtype(getattr(ml_dtypes, name, name))


def int_range(data_type: DataType) -> tuple[int, int]:
    """Return the smallest and largest value of an integer type or BOOLEAN."""
    bits, kind = data_type.value.bits, data_type.value.kind
    if kind == "bool":
        return 0, 1
    return (0, 2**bits - 1) if kind == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def unit_roundoff(data_type: DataType) -> float:
    """Return the largest relative error of one rounding to a float type; 0 for other types."""
    return 2.0 ** -(data_type.value.mantissa + 1) if data_type.is_float else 0.0


def smallest(data_type: DataType) -> float:
    """Return the largest absolute error of one rounding near zero; 0 for types without floats.

    With 8 exponent bits or more it is the smallest normal number, because GPUs, and bfloat16
    instructions of CPUs, flush subnormals to zero; below, half of the smallest subnormal.
    """
    if not data_type.is_float:
        return 0.0
    info = ml_dtypes.finfo(numpy_dtype(data_type))
    flushes = data_type in (DataType.FLOAT, DataType.BFLOAT16, DataType.DOUBLE)
    return float(info.smallest_normal) if flushes else float(info.smallest_subnormal) / 2


def widen(array: Array, data_type: DataType) -> Array:
    """Return the same values in float64 (float types) or int64 (all others)."""
    return np.asarray(array).astype(np.float64 if data_type.is_float else np.int64)


def wrap(array: Array, data_type: DataType) -> Array:
    """Return int64 results as an integer compute type (or BOOLEAN) would hold them."""
    if data_type.is_bool:
        return (array != 0).astype(np.int64)
    bits = data_type.bits
    if bits == 64:
        return array
    low, _ = int_range(data_type)
    return ((array - low) & (2**bits - 1)) + low


def to_dtype(array: Array, data_type: DataType) -> Array:
    """Convert float64, int64 or bool values to a type, by the rules of this module.

    Returns
    -------
    ndarray
        Of ``numpy_dtype(data_type)``, same shape.
    """
    array = np.asarray(array)
    target = numpy_dtype(data_type)
    if data_type.is_bool:
        return array != 0
    with np.errstate(all="ignore"):
        if not data_type.is_float:
            return _to_integer(array, data_type).astype(target)
        if data_type not in _NUMPY_FLOATS:
            wide = array.astype(np.float64)
            array = _rounded(wide, target)
            if data_type is DataType.FP8_E8M0:
                positive = np.isfinite(wide) & (wide > 0)
                array = np.where(positive, np.clip(array, 2.0**-127, 2.0**127), array)
        return array.astype(target)


def scalar(value: Scalar, data_type: DataType) -> Array:
    """Return a compile-time scalar as its type holds it, widened, with dims (1,)."""
    if not data_type.is_float:
        return np.array([int(value)], dtype=np.int64)
    return widen(to_dtype(np.array([value], dtype=np.float64), data_type), data_type)


def _to_integer(array: Array, data_type: DataType) -> Array:
    low, high = int_range(data_type)
    if array.dtype.kind != "f":
        return np.clip(array.astype(np.int64), low, high)
    # 2^63 - 1 is no float64, so the ends are set apart from the cast.
    whole = np.trunc(np.where(np.isnan(array), 0.0, array))
    inside = np.where((whole > low) & (whole < high), whole, 0.0).astype(np.int64)
    return np.where(whole <= low, low, np.where(whole >= high, high, inside))


def _rounded(array: Array, target: np.dtype[Any]) -> Array:
    """Round float64 to the grid of a small float type, so that the cast after it is exact.

    ml_dtypes casts float64 by way of float32, which rounds twice.
    """
    info = ml_dtypes.finfo(target)
    _, exponent = np.frexp(array)
    step = np.maximum(exponent - 1, info.minexp) - info.nmant
    return np.ldexp(np.rint(np.ldexp(array, -step)), step)
