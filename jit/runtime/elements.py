# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One row per data type: its names in IREE's HAL and in DLPack, and its NumPy dtype.

Types narrower than a byte are packed in memory, low bits first; to NumPy such memory is
``uint8``.  An array of values of such a type has one element per byte (``value_dtype``).
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from ...graph_api.dtypes import DataType
from .iree_native import iree

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "data_type",
    "element_type",
    "from_dlpack",
    "is_packed",
    "numpy_dtype",
    "value_dtype",
]

# HAL name; DLPack type code (dlpack.h 1.1; 7 and up are the narrow floats).  Compiled code takes
# narrow floats as bytes (jit/emit/narrow.py) or, in an imported function, in their own type.
_ROWS: dict[DataType, tuple[str, int]] = {
    DataType.FLOAT: ("FLOAT_32", 2),
    DataType.HALF: ("FLOAT_16", 2),
    DataType.BFLOAT16: ("BFLOAT_16", 4),
    DataType.DOUBLE: ("FLOAT_64", 2),
    DataType.UINT8: ("UINT_8", 1),
    DataType.INT32: ("SINT_32", 0),
    DataType.INT8: ("SINT_8", 0),
    DataType.FP8_E4M3: ("OPAQUE_8", 10),
    DataType.FP8_E5M2: ("OPAQUE_8", 12),
    DataType.FP8_E8M0: ("OPAQUE_8", 14),
    DataType.INT64: ("SINT_64", 0),
    DataType.BOOLEAN: ("BOOL_8", 6),
    DataType.FP8_E4M3_FNUZ: ("OPAQUE_8", 11),
    DataType.FP8_E5M2_FNUZ: ("OPAQUE_8", 13),
}

_BY_DLPACK = {(code, t.bits): t for t, (_, code) in _ROWS.items()}
_BY_NUMPY = {t.value.numpy: t for t in DataType if t.value.numpy}
_NATIVE = {"float16", "float32", "float64", "uint8", "int8", "int32", "int64", "bool"}


def is_packed(data_type: DataType) -> bool:
    """Whether several elements share a byte, so that NumPy sees ``uint8``."""
    return data_type.bits < 8


def element_type(data_type: DataType) -> Any:
    """Return IREE's ``HalElementType``, or None if IREE has none (memory is raw bytes)."""
    row = _ROWS.get(data_type)
    return None if row is None else getattr(iree().HalElementType, row[0])


@cache
def numpy_dtype(data_type: DataType) -> np.dtype[Any]:
    """Return the NumPy dtype of the memory; ``uint8`` for packed types.

    Raises
    ------
    ValueError
        For ``DataType.UNSET``.
    """
    if data_type is DataType.UNSET:
        raise ValueError("a tensor without a data type has no NumPy dtype")
    import numpy as np

    return np.dtype(np.uint8) if is_packed(data_type) else value_dtype(data_type)


@cache
def value_dtype(data_type: DataType) -> np.dtype[Any]:
    """Return the dtype of an array of values; packed types have one element per byte."""
    import numpy as np

    name = data_type.value.numpy
    if name in _NATIVE:
        return np.dtype(name)
    import ml_dtypes

    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


@lru_cache(maxsize=256)
def data_type(dtype: np.dtype[Any]) -> DataType | None:
    """Return the data type of a NumPy dtype in native byte order, or None.

    For packed types that is the dtype of an array of values.
    """
    return _BY_NUMPY.get(dtype.name) if dtype.isnative else None


def from_dlpack(code: int, bits: int, lanes: int) -> DataType | None:
    """Return the data type of a DLPack type triple, or None."""
    return _BY_DLPACK.get((code, bits)) if lanes == 1 else None
