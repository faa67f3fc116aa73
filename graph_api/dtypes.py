# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The element types of hipDNN, one row each.

Sources: wire codes and JSON spellings from hipDNN's ``data_types.fbs`` and its JSON tables;
``torch_code`` is PyTorch's ``ScalarType`` number, which ``prims.convert_element_type`` takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["DataType", "DataTypeInfo"]


@dataclass(frozen=True, slots=True)
class DataTypeInfo:
    """Facts of one element type.

    Attributes
    ----------
    json : str
        hipDNN's JSON spelling.
    wire : int
        Code in hipDNN's FlatBuffers schema.
    bits : int
        Bits of one element in memory; 4- and 6-bit types are packed.
    kind : str
        ``"float"``, ``"int"``, ``"uint"``, ``"bool"`` or ``""`` for UNSET.
    mlir : str
        Spelling inside a Torch-dialect tensor type; empty when torch-mlir has none.
    numpy : str
        NumPy or ml_dtypes name; empty when there is none.
    torch_code : int
        PyTorch ScalarType code, or -1.
    mantissa : int
        Explicit mantissa bits of a float type (unit roundoff is ``2**-(mantissa + 1)``).
    aliases : tuple of str
        Further spellings that ``DataType.parse`` takes.
    """

    json: str
    wire: int
    bits: int
    kind: str
    mlir: str
    numpy: str
    torch_code: int
    mantissa: int = 0
    aliases: tuple[str, ...] = ()


_I = DataTypeInfo


class DataType(Enum):
    """Element type of a tensor, in hipDNN's names; ``DataType.parse`` takes common spellings."""

    UNSET = _I("unset", 0, 0, "", "", "", -1)
    FLOAT = _I("float", 1, 32, "float", "f32", "float32", 6, 23, ("f32", "fp32", "float32"))
    HALF = _I("half", 2, 16, "float", "f16", "float16", 5, 10, ("f16", "fp16", "float16"))
    BFLOAT16 = _I("bfloat16", 3, 16, "float", "bf16", "bfloat16", 15, 7, ("bf16",))
    DOUBLE = _I("double", 4, 64, "float", "f64", "float64", 7, 52, ("f64", "fp64", "float64"))
    UINT8 = _I("uint8", 5, 8, "uint", "ui8", "uint8", 0, aliases=("u8", "ui8"))
    INT32 = _I("int32", 6, 32, "int", "si32", "int32", 3, aliases=("i32", "si32"))
    INT8 = _I("int8", 7, 8, "int", "si8", "int8", 1, aliases=("i8", "si8"))
    FP8_E4M3 = _I("fp8_e4m3", 8, 8, "float", "f8E4M3FN", "float8_e4m3fn", 24, 3)
    FP8_E5M2 = _I("fp8_e5m2", 9, 8, "float", "f8E5M2", "float8_e5m2", 23, 2)
    FP8_E8M0 = _I("fp8_e8m0", 10, 8, "float", "f8E8M0FNU", "float8_e8m0fnu", 44, 0)
    FP4_E2M1 = _I("fp4_e2m1", 11, 4, "float", "", "float4_e2m1fn", -1, 1)
    FP6_E2M3 = _I("fp6_e2m3", 12, 6, "float", "", "float6_e2m3fn", -1, 3)
    FP6_E3M2 = _I("fp6_e3m2", 13, 6, "float", "", "float6_e3m2fn", -1, 2)
    INT4 = _I("int4", 14, 4, "int", "si4", "int4", -1, aliases=("i4", "si4"))
    INT64 = _I("int64", 15, 64, "int", "si64", "int64", 4, aliases=("i64", "si64"))
    BOOLEAN = _I("boolean", 16, 8, "bool", "i1", "bool", 11, aliases=("bool", "i1"))
    FP8_E4M3_FNUZ = _I("fp8_e4m3_fnuz", 17, 8, "float", "f8E4M3FNUZ", "float8_e4m3fnuz", 26, 3)
    FP8_E5M2_FNUZ = _I("fp8_e5m2_fnuz", 18, 8, "float", "f8E5M2FNUZ", "float8_e5m2fnuz", 25, 2)

    @property
    def json(self) -> str:
        """hipDNN's JSON spelling."""
        return self.value.json

    @property
    def wire(self) -> int:
        """Code in hipDNN's FlatBuffers schema."""
        return self.value.wire

    @property
    def bits(self) -> int:
        """Bits of one element."""
        return self.value.bits

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.value.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether it is a signed or unsigned integer (BOOLEAN is not)."""
        return self.value.kind in ("int", "uint")

    @property
    def is_bool(self) -> bool:
        """Whether it is BOOLEAN."""
        return self.value.kind == "bool"

    @property
    def largest(self) -> float:
        """Largest finite number of a floating-point type; 0 for the others."""
        return _RANGES.get(self, (0, 0.0))[1]

    @property
    def tiny_exponent(self) -> int:
        """Exponent of 2 that gives a floating-point type's smallest positive number."""
        return _RANGES.get(self, (0, 0.0))[0]

    @property
    def has_infinity(self) -> bool:
        """Whether it is a floating-point type with infinities."""
        return self in _WITH_INFINITY

    def nbytes(self, elements: int) -> int:
        """Return the bytes that hold ``elements`` packed elements."""
        return (elements * self.value.bits + 7) // 8

    def holds(self, other: DataType) -> bool:
        """Whether every value of ``other`` is exactly representable in this type."""
        a, b = self.value, other.value
        if self is other:
            return True
        if other.is_bool:
            # E8M0 is the one type without a zero.
            return a.kind != "" and self is not DataType.FP8_E8M0
        if self.is_float and other.is_float:
            return (
                a.mantissa >= b.mantissa
                and self.tiny_exponent <= other.tiny_exponent
                and self.largest >= other.largest
                and (self.has_infinity or not other.has_infinity)
            )
        if self.is_float and other.is_integer:
            magnitude_bits = b.bits - (b.kind == "int")
            largest = 2**magnitude_bits - (b.kind == "uint")
            return a.mantissa + 1 >= magnitude_bits and self.largest >= largest
        if self.is_integer and other.is_integer:
            if a.kind == b.kind:
                return a.bits >= b.bits
            return a.kind == "int" and a.bits > b.bits
        return False

    @classmethod
    def parse(cls, value: DataType | str) -> DataType:
        """Return the type for a member, a hipDNN name or a common short name.

        What NumPy, ml_dtypes and PyTorch call their types counts, and so do the types themselves
        (``np.float16``, ``np.dtype("int8")``, ``torch.bfloat16``).

        Raises
        ------
        ValueError
            If the name is unknown; the text lists those known.
        """
        if isinstance(value, cls):
            return value
        found = _BY_NAME.get(_spelling(value).lower())
        if found is None:
            known = ", ".join(t.json for t in cls)
            raise ValueError(f"unknown data type {value!r}; known: {known}")
        return found

    @classmethod
    def from_wire(cls, code: int) -> DataType | None:
        """Return the type with this wire code, or None."""
        return _BY_WIRE.get(code)

    def __repr__(self) -> str:
        return f"DataType.{self.name}"


def _spelling(value: object) -> str:
    """Return the name of a data type; those of NumPy and PyTorch are known without importing."""
    if isinstance(value, str):
        return value
    if type(value).__module__ == "torch":
        return str(value).removeprefix("torch.")
    name = getattr(value, "__name__" if isinstance(value, type) else "name", "")
    return name if isinstance(name, str) else ""


# Exponent of the smallest positive number (a subnormal one where the type has them), and the
# largest finite number.  The FNUZ types have one more binade than IEEE's scheme at the bottom.
_RANGES: dict[DataType, tuple[int, float]] = {
    DataType.FLOAT: (-149, (2 - 2.0**-23) * 2.0**127),
    DataType.HALF: (-24, 65504.0),
    DataType.BFLOAT16: (-133, (2 - 2.0**-7) * 2.0**127),
    DataType.DOUBLE: (-1074, (2 - 2.0**-52) * 2.0**1023),
    DataType.FP8_E4M3: (-9, 448.0),
    DataType.FP8_E5M2: (-16, 57344.0),
    DataType.FP8_E8M0: (-127, 2.0**127),
    DataType.FP4_E2M1: (-1, 6.0),
    DataType.FP6_E2M3: (-3, 7.5),
    DataType.FP6_E3M2: (-4, 28.0),
    DataType.FP8_E4M3_FNUZ: (-10, 240.0),
    DataType.FP8_E5M2_FNUZ: (-17, 57344.0),
}
_WITH_INFINITY = (
    DataType.FLOAT,
    DataType.HALF,
    DataType.BFLOAT16,
    DataType.DOUBLE,
    DataType.FP8_E5M2,
)
_BY_WIRE = {t.wire: t for t in DataType}
_BY_NAME = {
    name: t
    for t in DataType
    for name in (t.name.lower(), t.value.json, t.value.numpy or t.value.json, *t.value.aliases)
}
