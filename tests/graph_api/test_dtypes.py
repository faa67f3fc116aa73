# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Element types against NumPy and ml_dtypes, value by value."""

from __future__ import annotations

import itertools
import math
import struct
from fractions import Fraction
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.values import from_byte, plain_number, stored
from hypothesis import example, given
from hypothesis import strategies as st

KNOWN = [t for t in DataType if t is not DataType.UNSET]
FLOATS = [t for t in DataType if t.is_float]
# Types with so few values that all of them can be looked at.
SMALL = [t for t in KNOWN if t.bits <= 16]
BYTE_FLOATS = [t for t in FLOATS if t.bits == 8]


def numpy_type(t: DataType) -> np.dtype:
    name = t.value.numpy
    return np.dtype(getattr(ml_dtypes, name, None) or name)


@cache
def all_values(t: DataType) -> np.ndarray:
    """Every value of a small type, as float64 (which holds all of them)."""
    if t.is_bool:
        return np.array([0.0, 1.0])
    raw = np.arange(2**t.bits, dtype=np.uint16 if t.bits == 16 else np.uint8)
    with np.errstate(invalid="ignore"):  # signalling NaN
        return raw.view(numpy_type(t)).astype(np.float64)


def fits(values: np.ndarray, t: DataType) -> bool:
    """Whether a conversion to the type and back gives every one of the values (as numbers)."""
    if t.is_integer or t.is_bool:
        if not np.isfinite(values).all() or (values != np.floor(values)).any():
            return False
        info = (
            (0, 1)
            if t.is_bool
            else (ml_dtypes.iinfo(numpy_type(t)).min, ml_dtypes.iinfo(numpy_type(t)).max)
        )
        return bool(((values >= info[0]) & (values <= info[1])).all())
    with np.errstate(all="ignore"):
        back = values.astype(numpy_type(t)).astype(np.float64)
    return bool(np.array_equal(back, values, equal_nan=True))


@pytest.mark.parametrize("held", SMALL, ids=repr)
@pytest.mark.parametrize("holder", KNOWN, ids=repr)
def test_holds(holder: DataType, held: DataType) -> None:
    values = all_values(held)
    # NaN of a type without NaN is not a matter of precision; -0.0 equals 0.0.
    values = values[~np.isnan(values)] if holder.bits < 8 else values
    expected = fits(values, holder) if not (holder.is_integer and np.isnan(values).any()) else False
    assert holder.holds(held) == expected


@pytest.mark.parametrize(
    ("holder", "held", "expected"),
    [
        ("float", "float", True),
        ("double", "float", True),
        ("float", "double", False),
        ("double", "int32", True),
        ("double", "int64", False),
        ("float", "int32", False),
        ("int64", "int32", True),
        ("int32", "int64", False),
        ("int64", "float", False),
        ("half", "float", False),
        ("bfloat16", "float", False),
        ("boolean", "int32", False),
    ],
)
def test_holds_of_wide_types(holder: str, held: str, expected: bool) -> None:
    assert DataType.parse(holder).holds(DataType.parse(held)) is expected


def test_holds_is_an_order() -> None:
    for t in DataType:
        assert t.holds(t)
    for a, b, c in itertools.product(KNOWN, repeat=3):
        if a.holds(b) and b.holds(c):
            assert a.holds(c), (a, b, c)
    for t in KNOWN:
        assert not t.holds(DataType.UNSET)
        assert not DataType.UNSET.holds(t)


@pytest.mark.parametrize("t", FLOATS, ids=repr)
def test_limits_of_float_types(t: DataType) -> None:
    info = ml_dtypes.finfo(numpy_type(t))
    assert t.largest == float(info.max)
    tiny = float(info.smallest_subnormal) if t is not DataType.FP8_E8M0 else 2.0**-127
    assert 2.0**t.tiny_exponent == tiny
    assert t.value.mantissa == info.nmant
    if t.bits <= 16:
        assert t.has_infinity == bool(np.isinf(all_values(t)).any())
    assert t.bits == info.bits


def test_kinds() -> None:
    for t in KNOWN:
        assert [t.is_float, t.is_integer, t.is_bool].count(True) == 1
    assert not any([DataType.UNSET.is_float, DataType.UNSET.is_integer, DataType.UNSET.is_bool])
    assert {t.json for t in KNOWN if t.is_integer} == {"uint8", "int8", "int4", "int32", "int64"}
    assert DataType.INT32.largest == 0
    for t in KNOWN:
        assert t.bits == 8 * numpy_type(t).itemsize or t.bits < 8


@pytest.mark.parametrize("t", DataType, ids=repr)
def test_every_spelling_is_parsed(t: DataType) -> None:
    for spelling in {t.json, t.name, *t.value.aliases}:
        assert DataType.parse(spelling) is t
        assert DataType.parse(spelling.upper()) is t
        assert DataType.parse(spelling.title()) is t
    assert DataType.parse(t) is t
    assert DataType.from_wire(t.wire) is t
    assert repr(t) == f"DataType.{t.name}"


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("float32", "FLOAT"), ("f32", "FLOAT"), ("fp16", "HALF"), ("float16", "HALF"),
        ("bf16", "BFLOAT16"), ("float64", "DOUBLE"), ("u8", "UINT8"), ("si32", "INT32"),
        ("bool", "BOOLEAN"), ("i64", "INT64"), ("FP8_E4M3", "FP8_E4M3"), ("UNSET", "UNSET"),
    ],
)  # fmt: skip
def test_common_spellings(spelling: str, name: str) -> None:
    assert DataType.parse(spelling).name == name


@pytest.mark.parametrize("value", ["", "flaot", "float 32", " float", 1, 1.0, None, [], b"float"])
def test_unknown_spellings_say_what_is_known(value: object) -> None:
    with pytest.raises(ValueError, match=r"unknown data type .*known: unset, float, half"):
        DataType.parse(value)  # type: ignore[arg-type]


def test_codes_and_spellings_are_unique() -> None:
    assert sorted(t.wire for t in DataType) == list(range(19))
    names = [n for t in DataType for n in {t.json, t.name.lower(), *t.value.aliases}]
    assert len(names) == len(set(names))
    assert len({t.json for t in DataType}) == len(DataType)
    assert DataType.from_wire(19) is None
    assert DataType.from_wire(-1) is None


@pytest.mark.parametrize(
    ("t", "elements", "expected"),
    [
        ("float", 3, 12), ("half", 3, 6), ("double", 0, 0), ("int4", 0, 0), ("int4", 1, 1),
        ("int4", 2, 1), ("int4", 3, 2), ("fp4_e2m1", 5, 3), ("fp6_e2m3", 1, 1),
        ("fp6_e2m3", 4, 3), ("fp6_e3m2", 5, 4), ("boolean", 7, 7), ("unset", 9, 0),
    ],
)  # fmt: skip
def test_bytes_of_packed_elements(t: str, elements: int, expected: int) -> None:
    assert DataType.parse(t).nbytes(elements) == expected


# ------------------------------------------------------------------ numbers in a type


@pytest.mark.parametrize("t", BYTE_FLOATS, ids=repr)
def test_the_number_of_every_byte(t: DataType) -> None:
    found = np.array([from_byte(b, t) for b in range(256)])
    assert np.array_equal(found, all_values(t), equal_nan=True)
    assert np.array_equal(np.signbit(found), np.signbit(all_values(t))) or np.isnan(found).any()


@pytest.mark.parametrize("t", [t for t in SMALL if t.is_float], ids=repr)
def test_every_value_of_a_type_is_stored_as_it_is(t: DataType) -> None:
    for value in all_values(t).tolist():
        kept = stored(value, t)
        assert kept == value or (math.isnan(value) and math.isnan(kept)), value
        if value == 0:
            assert math.copysign(1, kept) == math.copysign(1, value)


@pytest.mark.parametrize("t", [t for t in FLOATS if t is not DataType.FP8_E8M0], ids=repr)
@given(st.data())
def test_rounding_is_ml_dtypes(t: DataType, data: st.DataObject) -> None:
    largest = t.largest
    value = data.draw(
        st.floats(-largest, largest)
        | st.floats(-1, 1)
        | st.floats(-(2.0**t.tiny_exponent) * 9, 2.0**t.tiny_exponent * 9)
    )
    # ml_dtypes may round twice, by way of float32; fractions never round.
    kept = stored(value, t)
    candidates = neighbours(t, value)
    assert kept in candidates
    distance = abs(Fraction(kept) - Fraction(value))
    assert all(distance <= abs(Fraction(c) - Fraction(value)) for c in candidates)
    if t in (DataType.HALF, DataType.FLOAT, DataType.DOUBLE):
        assert kept == float(np.float64(value).astype(numpy_type(t)))


def neighbours(t: DataType, value: float) -> list[float]:
    """The numbers of the type beside a value."""
    if t.bits <= 8:
        return [v for v in all_values(t).tolist() if math.isfinite(v)]
    near = np.array(value).astype(numpy_type(t))
    around = [
        near,
        np.nextafter(near, numpy_type(t).type(-1e4)),
        np.nextafter(near, numpy_type(t).type(1e4)),
    ]
    return [float(v) for v in around if math.isfinite(float(v))]


def test_ties_go_to_even() -> None:
    assert stored(1 + 2.0**-24, DataType.FLOAT) == 1
    assert stored(1 + 3 * 2.0**-24, DataType.FLOAT) == 1 + 2.0**-22
    assert stored(2.5, DataType.FP4_E2M1) == 2
    assert stored(3.5, DataType.FP4_E2M1) == 4
    assert stored(2.0**-150, DataType.FLOAT) == 0
    assert stored(3 * 2.0**-150, DataType.FLOAT) == 2 * 2.0**-149
    assert stored(65519.0, DataType.HALF) == 65504
    assert stored(2**53 + 1, DataType.DOUBLE) == 2**53


@pytest.mark.parametrize(
    ("value", "t", "expected"),
    [
        (True, "boolean", True), (0, "boolean", False), (1.0, "boolean", True),
        (2, "boolean", None), (0.5, "boolean", None), (math.nan, "boolean", None),
        (127, "int8", 127), (-128, "int8", -128), (128, "int8", None), (-129, "int8", None),
        (255, "uint8", 255), (-1, "uint8", None), (256, "uint8", None), (7, "int4", 7),
        (8, "int4", None), (-8, "int4", -8), (3.0, "int32", 3), (3.5, "int32", None),
        (True, "int32", 1), (math.inf, "int32", None), (math.nan, "int64", None),
        (2**63 - 1, "int64", 2**63 - 1), (2**63, "int64", None), (float(2**63), "int64", None),
        (-(2**63), "int64", -(2**63)), (10**400, "int64", None), (10**400, "double", None),
        (1e39, "float", None), (-1e39, "float", None), (65520.0, "half", None),
        (math.inf, "half", math.inf), (-math.inf, "bfloat16", -math.inf),
        (3.5e38, "bfloat16", None), (math.nan, "int8", None),
        (449.0, "fp8_e4m3", 448.0), (465.0, "fp8_e4m3", None), (math.inf, "fp8_e4m3", None),
        (math.inf, "fp8_e5m2", math.inf), (241.0, "fp8_e4m3_fnuz", 240.0), (6.9, "fp4_e2m1", 6.0),
        (7.5, "fp4_e2m1", None), (math.nan, "fp6_e2m3", None), (0.0, "fp8_e8m0", None),
        (-1.0, "fp8_e8m0", None), (3.0, "fp8_e8m0", 4.0), (2.0**-127, "fp8_e8m0", 2.0**-127),
        (2.0**-140, "fp8_e8m0", None), (1, "float", 1.0), (True, "half", 1.0), (1.0, "unset", None),
    ],
)  # fmt: skip
def test_what_a_type_can_hold(value: float, t: str, expected: object) -> None:
    kept = stored(value, DataType.parse(t))
    assert kept == expected
    assert type(kept) is type(expected)


def test_signs_of_zero_and_nan() -> None:
    assert math.copysign(1, stored(-0.0, DataType.FLOAT)) == -1
    assert math.copysign(1, stored(-1e-300, DataType.FLOAT)) == -1
    assert math.copysign(1, stored(-0.0, DataType.FP8_E4M3_FNUZ)) == 1
    assert math.copysign(1, stored(-1e-9, DataType.FP8_E5M2_FNUZ)) == 1
    for t in FLOATS:
        kept = stored(math.nan, t)
        assert (kept is None) == (t.bits < 8)


@given(st.floats(width=32))
@example(1e-5)
@example(0.1)
def test_float32_is_what_struct_makes_of_it(value: float) -> None:
    (expected,) = struct.unpack("f", struct.pack("f", value))
    kept = stored(value, DataType.FLOAT)
    assert kept == expected or math.isnan(expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, True), (3, 3), (0.5, 0.5), (np.bool_(True), True), (np.int8(-3), -3),
        (np.uint64(2**64 - 1), 2**64 - 1), (np.float16(0.5), 0.5), (np.float64(0.1), 0.1),
        (ml_dtypes.bfloat16(1.5), 1.5), (ml_dtypes.int4(-3), -3), (np.array(7), 7),
        (DataType.FLOAT, None), ("1", None), (None, None), (1j, None), (np.array([1]), None),
        ([1], None), (np.complex64(1), None), (np.str_("1"), None), (Fraction(1, 2), None),
    ],
)  # fmt: skip
def test_plain_numbers(value: object, expected: object) -> None:
    found = plain_number(value)
    assert found == expected
    assert type(found) is type(expected)
