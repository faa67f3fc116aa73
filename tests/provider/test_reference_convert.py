# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The numeric meaning of loads and stores, against exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.provider.reference.convert import (
    numpy_dtype,
    scalar,
    smallest,
    to_dtype,
    unit_roundoff,
    widen,
    wrap,
)
from hypothesis import given
from hypothesis import strategies as st

D = DataType
INF, NAN = math.inf, math.nan
INT64_MAX = 2**63 - 1


def converted(value: float, data_type: DataType) -> float | int | bool:
    return widen(to_dtype(np.array([value]), data_type), data_type)[0].item()


@pytest.mark.parametrize(
    ("value", "data_type", "wanted"),
    [
        # Float to integer: towards zero, saturating, NaN is 0.
        (2.9, D.INT8, 2),
        (-2.9, D.INT8, -2),
        (127.9, D.INT8, 127),
        (128.0, D.INT8, 127),
        (-1e9, D.INT8, -128),
        (-0.9, D.UINT8, 0),
        (-5.0, D.UINT8, 0),
        (255.99, D.UINT8, 255),
        (300.0, D.UINT8, 255),
        (INF, D.INT32, 2**31 - 1),
        (-INF, D.INT32, -(2**31)),
        (NAN, D.INT32, 0),
        (2.0**31, D.INT32, 2**31 - 1),
        (-(2.0**31), D.INT32, -(2**31)),
        (2.0**31 - 0.5, D.INT32, 2**31 - 1),
        (2.0**63, D.INT64, INT64_MAX),
        (-(2.0**63), D.INT64, -(2**63)),
        (1e300, D.INT64, INT64_MAX),
        (2.0**53 + 2, D.INT64, 2**53 + 2),
        (7.0, D.INT4, 7),
        (9.0, D.INT4, 7),
        # Integer to narrower integer: saturating.
        (200, D.INT8, 127),
        (-200, D.INT8, -128),
        (-1, D.UINT8, 0),
        (256, D.UINT8, 255),
        (INT64_MAX, D.INT32, 2**31 - 1),
        (INT64_MAX, D.INT64, INT64_MAX),
        # Anything to BOOLEAN: not equal to 0.
        (0.0, D.BOOLEAN, 0),
        (-0.0, D.BOOLEAN, 0),
        (1e-300, D.BOOLEAN, 1),
        (-3, D.BOOLEAN, 1),
        (NAN, D.BOOLEAN, 1),
        # To float: nearest, ties to even, once.
        (0.1, D.HALF, 0.0999755859375),
        (0.1, D.BFLOAT16, 0.10009765625),
        (2049.0, D.HALF, 2048.0),
        (2051.0, D.HALF, 2052.0),
        (65519.9, D.HALF, 65504.0),
        (65520.0, D.HALF, INF),
        (2.0**-25, D.HALF, 0.0),
        (2.0**-25 * 1.01, D.HALF, 2.0**-24),
        (1 + 2.0**-8, D.BFLOAT16, 1.0),
        (1 + 2.0**-8 + 2.0**-40, D.BFLOAT16, 1 + 2.0**-7),  # by way of float32 it would be 1
        (3.3895313892515355e38, D.BFLOAT16, 3.3895313892515355e38),
        (1e39, D.BFLOAT16, INF),
        (16777217, D.FLOAT, 16777216.0),
        (-INF, D.HALF, -INF),
        (17.0, D.FP8_E4M3, 16.0),
        (19.0, D.FP8_E4M3, 20.0),
        # What is too large: infinity, else NaN (below), else the largest number.
        (464.0, D.FP8_E4M3, 448.0),
        (61439.0, D.FP8_E5M2, 57344.0),
        (61440.0, D.FP8_E5M2, INF),
        (247.9, D.FP8_E4M3_FNUZ, 240.0),
        (100.0, D.FP4_E2M1, 6.0),
        (-INF, D.FP6_E2M3, -7.5),
        (NAN, D.FP6_E3M2, 0.0),
        # Powers of two: ties go up.
        (1.5, D.FP8_E8M0, 2.0),
        (3.0, D.FP8_E8M0, 4.0),
        (2.99, D.FP8_E8M0, 2.0),
        (1e-40, D.FP8_E8M0, 2.0**-127),
        (3.4e38, D.FP8_E8M0, 2.0**127),
    ],
)
def test_conversion(value: float, data_type: DataType, wanted: float) -> None:
    assert converted(value, data_type) == wanted


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        (465.0, D.FP8_E4M3),
        (INF, D.FP8_E4M3),
        (-248.0, D.FP8_E4M3_FNUZ),
        (1e9, D.FP8_E5M2_FNUZ),
        (NAN, D.FP8_E5M2),
        (0.0, D.FP8_E8M0),
        (-1.0, D.FP8_E8M0),
        (INF, D.FP8_E8M0),
    ],
)
def test_what_a_narrow_type_cannot_say_is_nan(value: float, data_type: D) -> None:
    assert math.isnan(converted(value, data_type))


def test_nan_stays_nan_and_zero_keeps_its_sign() -> None:
    for data_type in (D.FLOAT, D.HALF, D.BFLOAT16, D.DOUBLE):
        assert math.isnan(converted(NAN, data_type))
        assert math.copysign(1, converted(-0.0, data_type)) == -1


@pytest.mark.parametrize("data_type", [D.HALF, D.BFLOAT16, D.FLOAT, D.FP8_E5M2])
@given(value=st.floats(-1e4, 1e4))
def test_rounding_is_to_nearest_even(data_type: DataType, value: float) -> None:
    got = converted(value, data_type)
    # Neighbours in exact arithmetic: the step of the result's binade, subnormals included.
    least = {D.HALF: -24, D.BFLOAT16: -133, D.FLOAT: -149, D.FP8_E5M2: -16}[data_type]
    _, exponent = math.frexp(value)
    step = Fraction(2) ** max(exponent - 1 - data_type.value.mantissa, least)
    quotient = Fraction(value) / step
    assert Fraction(got) == round(quotient) * step  # round() is to even as well


@pytest.mark.parametrize(
    ("value", "data_type", "wanted"),
    [
        (2**31, D.INT32, -(2**31)),
        (-(2**31) - 1, D.INT32, 2**31 - 1),
        (2**32 + 5, D.INT32, 5),
        (300, D.INT8, 44),
        (-1, D.UINT8, 255),
        (8, D.INT4, -8),
        (INT64_MAX, D.INT64, INT64_MAX),
        (2, D.BOOLEAN, 1),
        (0, D.BOOLEAN, 0),
    ],
)
def test_integer_arithmetic_wraps(value: int, data_type: DataType, wanted: int) -> None:
    assert wrap(np.array([value], dtype=np.int64), data_type).tolist() == [wanted]


def test_scalars_are_rounded_to_their_type() -> None:
    assert scalar(0.1, D.HALF).tolist() == [0.0999755859375]
    assert scalar(0.1, D.DOUBLE).tolist() == [0.1]
    assert scalar(2**62 + 1, D.INT64).tolist() == [2**62 + 1]
    assert scalar(True, D.BOOLEAN).tolist() == [1]
    assert scalar(3, D.FLOAT).dtype == np.float64


@pytest.mark.parametrize("data_type", [t for t in D if t.value.numpy])
def test_every_type_has_numbers_of_its_own(data_type: DataType) -> None:
    dtype = numpy_dtype(data_type)
    assert to_dtype(np.array([1.0]), data_type).dtype == dtype
    assert converted(1.0, data_type) == 1
    if data_type.is_float:
        assert unit_roundoff(data_type) > 0
        assert smallest(data_type) > 0


def test_unset_has_no_numpy_type() -> None:
    with pytest.raises(ValueError, match="UNSET"):
        numpy_dtype(D.UNSET)


def test_facts_of_the_float_types() -> None:
    assert unit_roundoff(D.FLOAT) == 2.0**-24
    assert unit_roundoff(D.HALF) == 2.0**-11
    assert unit_roundoff(D.BFLOAT16) == 2.0**-8
    assert unit_roundoff(D.INT32) == 0
    assert smallest(D.HALF) == 2.0**-25
    assert smallest(D.FLOAT) == 2.0**-126
