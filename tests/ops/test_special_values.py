# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every pointwise mode on special values, against NumPy in float64 and Python's integers.

The oracle is written here and shares nothing with ``provider/reference``.  NaN stands left and
right, beside infinities, zeros of both signs, subnormal numbers, the largest numbers, ties, large
angles and integers beyond 2^24.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hipdnn_iree import Graph, PointwiseMode
from hipdnn_iree.provider.reference import expect
from hipdnn_iree.provider.verify import compare

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]
P = PointwiseMode
FLOATS = {
    "float": np.dtype(np.float32),
    "half": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "double": np.dtype(np.float64),
}
INTEGERS = {name: np.dtype(name) for name in ("int8", "uint8", "int32", "int64")}
PAIRS = [
    ("float", "float"),
    ("half", "float"),
    ("half", "half"),
    ("bfloat16", "float"),
    ("bfloat16", "bfloat16"),
    ("double", "double"),
    ("float", "double"),
]
nan, inf = math.nan, math.inf


def _values(name: str) -> Array:
    """Return the special values of a floating-point type, of both signs."""
    info = ml_dtypes.finfo(FLOATS[name])
    tiny, least, most = (
        float(x) for x in (info.smallest_normal, info.smallest_subnormal, info.max)
    )
    step = float(info.eps)
    positive = (
        *(0.0, 1.0, 2.0, 3.0, 0.5, 1.5, 2.5, 0.1, 7.0, 10.0, 100.3, 1e4, 65504.0, 1e6, 2.0**24 + 1),
        *(1e20, 1 - step / 2, 1 + step, tiny, 1.5 * tiny, most, most / 2, inf),
        *(least, 3 * least, 0.75 * tiny),
    )
    signed = [v for x in positive for v in (x, -x)] + [nan]
    with np.errstate(over="ignore"):
        return np.array(signed, np.float64).astype(FLOATS[name])


_erf = np.vectorize(math.erf, otypes=[float])
_erfc = np.vectorize(math.erfc, otypes=[float])


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1.0) / (1 + small)


def _clipped(low: float = 0.0, high: float = inf, slope: float = 0.0) -> Function:
    def relu(x: Array) -> Array:
        below = low + slope * (x - low) if slope else low
        return np.where(x <= low, below, np.where(x >= high, high, x))

    return relu


# What is computed, and its error in units of roundoff: of the result, of 1, of the operand.
ONE: dict[str, tuple[Function, tuple[float, float, float]]] = {
    "ABS": (np.abs, (0, 0, 0)),
    "CEIL": (np.ceil, (0, 0, 0)),
    "COS": (np.cos, (4, 1, 0)),
    "ELU_FWD": (lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), (4, 2, 0)),
    "ERF": (_erf, (16, 0, 0)),
    "EXP": (np.exp, (4, 0, 0)),
    "FLOOR": (np.floor, (0, 0, 0)),
    "GELU_APPROX_TANH_FWD": (
        lambda x: x * _sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)),
        (8, 0, 4),
    ),
    "GELU_FWD": (lambda x: 0.5 * x * _erfc(-math.sqrt(0.5) * x), (8, 0, 4)),
    "IDENTITY": (lambda x: x, (0, 0, 0)),
    "LOG": (np.log, (4, 1, 0)),
    "NEG": (np.negative, (0, 0, 0)),
    "RECIPROCAL": (lambda x: 1 / x, (3, 0, 0)),
    "RELU_FWD": (lambda x: np.maximum(x, 0), (0, 0, 0)),
    "RSQRT": (lambda x: 1 / np.sqrt(x), (4, 0, 0)),
    "SIGMOID_FWD": (_sigmoid, (8, 0, 0)),
    "SIN": (np.sin, (4, 0, 0)),
    "SOFTPLUS_FWD": (lambda x: np.logaddexp(0, x), (8, 2, 0)),
    "SQRT": (np.sqrt, (3, 0, 0)),
    "SWISH_FWD": (lambda x: x * _sigmoid(x), (10, 0, 0)),
    "TAN": (np.tan, (8, 1, 0)),
    "TANH_FWD": (np.tanh, (16, 1, 0)),
}
CLIPS: list[tuple[dict[str, float], Function]] = [
    ({"lower_clip": -1.0}, _clipped(-1.0)),
    ({"upper_clip": 2.0}, _clipped(high=2.0)),
    ({"lower_clip_slope": 0.25}, _clipped(slope=0.25)),
    ({"lower_clip": -1.0, "upper_clip": 2.0, "lower_clip_slope": 0.5}, _clipped(-1.0, 2.0, 0.5)),
]
TWO: dict[str, tuple[Function, tuple[float, float, float]]] = {
    "ADD": (np.add, (1, 0, 0)),
    "CMP_EQ": (np.equal, (0, 0, 0)),
    "CMP_GE": (np.greater_equal, (0, 0, 0)),
    "CMP_GT": (np.greater, (0, 0, 0)),
    "CMP_LE": (np.less_equal, (0, 0, 0)),
    "CMP_LT": (np.less, (0, 0, 0)),
    "CMP_NEQ": (np.not_equal, (0, 0, 0)),
    "DIV": (np.divide, (3, 0, 0)),
    "LOGICAL_AND": (lambda a, b: (a != 0) & (b != 0), (0, 0, 0)),
    "LOGICAL_OR": (lambda a, b: (a != 0) | (b != 0), (0, 0, 0)),
    "MAX": (np.maximum, (0, 0, 0)),
    "MIN": (np.minimum, (0, 0, 0)),
    "MOD": (np.fmod, (0, 0, 0)),
    "MUL": (np.multiply, (1, 0, 0)),
    "POW": (np.power, (8, 0, 0)),
    "RELU_BWD": (lambda dy, x: np.where(x <= 0, 0, dy), (0, 0, 0)),
    "SUB": (np.subtract, (1, 0, 0)),
}


def _flush(x: Array, name: str) -> Array:
    """Return a type's values with 0 for subnormal ones, of types in which a CPU has none."""
    if name == "half":
        return x
    return np.where(
        np.abs(x) < float(ml_dtypes.finfo(FLOATS[name]).smallest_normal), np.copysign(0, x), x
    )


def _faults(
    got: Array,
    function: Function,
    units: tuple[float, ...],
    operands: list[Array],
    io: str,
    ct: str,
) -> list[str]:
    """Return what is wrong; subnormal operands and results count as themselves or as 0."""
    info, compute = ml_dtypes.finfo(FLOATS[io]), ml_dtypes.finfo(FLOATS[ct])
    found = got.astype(np.float64)
    right = np.zeros(found.shape, bool)
    wanted = None
    for flushed in product((False, True), repeat=len(operands)):
        given = [_flush(x, io) if f else x for x, f in zip(operands, flushed, strict=True)]
        exact = np.asarray(function(*given), np.float64)
        stored = exact.astype(FLOATS[io]).astype(np.float64)
        wanted = stored if wanted is None else wanted
        relative, absolute, operand = units
        if function is np.power and ct != "float":
            # An error of the exponent is one of the result.
            size = np.nan_to_num(given[1] * np.log(np.abs(given[0])), posinf=0, neginf=0)
            relative = relative + 4 * np.abs(size)
        error = float(compute.eps) * (relative * np.abs(exact) + absolute)
        error = error + float(compute.eps) * operand * np.abs(given[0])
        error = np.nan_to_num(error) + (0 if not any(units) else float(info.eps) * np.abs(stored))
        right |= (np.isnan(found) & np.isnan(stored)) | (found == stored)
        right |= np.isfinite(stored) & (np.abs(found - stored) <= error)
        # A function may end at 0 where its result is about the smallest number.
        least = float(info.smallest_normal) * (2 if any(units) else 1)
        right |= (np.abs(stored) < least) & (np.abs(found) <= least)
    assert wanted is not None
    wide = [np.broadcast_to(x, found.shape) for x in operands]
    places = [tuple(i) for i in np.argwhere(~right)]
    return [f"{[float(x[i]) for x in wide]}: {found[i]} for {wanted[i]}" for i in places]


# bfloat16 computed in float32 is the same path.
@pytest.mark.parametrize(
    ("io", "ct"),
    [pytest.param(*p, marks=[pytest.mark.full] if p == ("half", "float") else []) for p in PAIRS],
)
def test_every_mode_of_floats(io: str, ct: str) -> None:
    values = _values(io)
    exact = values.astype(np.float64)
    graph = Graph(io_data_type=io, compute_data_type=ct)
    x, row = graph.tensor(dims=(len(values),)), graph.tensor(dims=(1, len(values)))
    column = graph.tensor(dims=(len(values), 1))
    cases: list[tuple[str, Any, Function, tuple[float, float, float], list[Array]]] = []
    for mode, (function, units) in ONE.items():
        y = graph.pointwise(x, mode=P[mode]).set_output()
        cases.append((mode, y, function, units, [exact]))
    for options, function in CLIPS:
        y = graph.relu(x, **options).set_output()  # type: ignore[arg-type]
        cases.append((str(options), y, function, (3, 0, 0), [exact]))
    for mode, (function, units) in TWO.items():
        y = graph.pointwise(column, row, mode=P[mode]).set_output()
        cases.append((mode, y, function, units, [exact[:, None], exact[None]]))
    given = {x: values, column: values[:, None], row: values[None]}
    results = graph.build("cpu").run(given)
    wrong = {}
    with np.errstate(all="ignore"):
        for mode, y, function, units, operands in cases:
            faults = _faults(np.asarray(results[y.uid]), function, units, operands, io, ct)
            if faults:
                wrong[mode] = faults[:5]
    assert wrong == {}
    # The reference agrees; it leaves open what becomes of subnormal numbers.
    frozen, normal = graph.freeze(), values.copy()
    normal[_flush(exact, io) != exact] = 0.25
    line = {x: normal, column: normal[:, None], row: normal[None]}
    with np.errstate(all="ignore"):
        wanted = expect(frozen, {t.uid: a for t, a in line.items()})
        report = compare(frozen, graph.build("cpu").run(line), wanted)
    modes = {y.uid: mode for mode, y, *_ in cases}
    assert [(modes[o.uid], str(o)) for o in report.outputs if not o.ok and o.uid in modes] == []


# ------------------------------------------------------------------------ integers


def _wrapped(value: int, dtype: np.dtype[Any]) -> int:
    bits = 8 * dtype.itemsize
    value %= 2**bits
    return value - 2**bits if dtype.kind == "i" and value >= 2 ** (bits - 1) else value


def _quotient(a: int, b: int) -> int:
    return b and abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


WHOLE_ONE: dict[str, Function] = {
    "ABS": abs,
    "CEIL": lambda a: a,
    "FLOOR": lambda a: a,
    "IDENTITY": lambda a: a,
    "NEG": lambda a: -a,
    "RELU_FWD": lambda a: max(a, 0),
}
WHOLE_TWO: dict[str, Function] = {
    "ADD": lambda a, b: a + b,
    "ADD_SQUARE": lambda a, b: a + b * b,
    "CMP_EQ": lambda a, b: a == b,
    "CMP_GE": lambda a, b: a >= b,
    "CMP_GT": lambda a, b: a > b,
    "CMP_LE": lambda a, b: a <= b,
    "CMP_LT": lambda a, b: a < b,
    "CMP_NEQ": lambda a, b: a != b,
    "DIV": _quotient,
    "MAX": max,
    "MIN": min,
    "MOD": lambda a, b: b and a - b * _quotient(a, b),
    "MUL": lambda a, b: a * b,
    "SUB": lambda a, b: a - b,
}


def _whole_values(dtype: np.dtype[Any]) -> list[int]:
    info = np.iinfo(dtype)
    numbers = (
        *(0, 1, -1, 2, 3, 7, -7, 100, 127, 128, -128, 255, info.max, info.max - 1, info.min),
        *(info.min + 1, 2**24 + 1, -(2**24) - 1, 2**31 - 1, 2**31, 2**53 + 1, -(2**53) - 1),
        *(2**62 + 1, 123456789),
        # Just above the middle of two bfloat16 numbers: to float32, and then there, is too low.
        *(2**30 + 2**22 + 1, 2**61 + 2**53 + 1, -(2**61) - 2**53 - 1),
    )
    return sorted({n for n in numbers if info.min <= n <= info.max})


@pytest.mark.parametrize("io", INTEGERS)
def test_every_mode_of_integers(io: str) -> None:
    dtype, ct = INTEGERS[io], "int64" if io == "int64" else "int32"
    values = _whole_values(dtype)
    graph = Graph(io_data_type=io, compute_data_type=ct)
    x, column = graph.tensor(dims=(len(values),)), graph.tensor(dims=(len(values), 1))
    row = graph.tensor(dims=(1, len(values)))
    cases = []
    for mode, function in WHOLE_ONE.items():
        y = graph.pointwise(x, mode=P[mode]).set_output()
        cases.append((mode, y, [function(a) for a in values]))
    for mode, function in WHOLE_TWO.items():
        y = graph.pointwise(column, row, mode=P[mode]).set_output()
        cases.append((mode, y, [function(a, b) for a, b in product(values, values)]))
    line = np.array(values, dtype)
    results = graph.build("cpu").run({x: line, column: line[:, None], row: line[None]})
    info = np.iinfo(dtype)
    for mode, y, exact in cases:
        computed = [_wrapped(int(v), INTEGERS[ct]) for v in exact]
        stored = [min(max(v, info.min), info.max) for v in computed]
        assert results[y.uid].ravel().tolist() == stored, mode


# --------------------------------------------------------------------- conversions


def _rounded(value: float, name: str) -> float:
    """Return a number rounded once to a floating-point type, ties to even, exactly."""
    if not math.isfinite(value):
        return value
    info = ml_dtypes.finfo(FLOATS[name])
    number = Fraction(value)
    if not number:
        return 0.0
    exponent = max(math.frexp(value)[1] - 1, int(info.minexp))
    step = Fraction(2) ** (exponent - int(info.nmant))
    nearest = round(number / step) * step
    return (
        float(nearest) if abs(nearest) <= Fraction(float(info.max)) else math.copysign(inf, value)
    )


def _halfway(name: str) -> list[float]:
    """Return numbers at and beside the middle of two of a narrower type."""
    found = [
        0.0,
        0.4,
        1.0,
        1.9,
        2.5,
        127.5,
        128.0,
        200.0,
        255.5,
        300.0,
        65519.0,
        65520.0,
        1e30,
        inf,
    ]
    found += [2.0**24 + 1, 2.0**31, 2.0**53 + 1, 2.0**63, 3.3961775292304e38, 2.0**-14, 2.0**-24]
    for bits in (8, 9, 11, 12, 24, 25):
        for ulps in (1, 3):
            tie = 1 + ulps * 2.0**-bits
            found += [tie, tie + 2.0**-50, tie - 2.0**-50, tie + 2.0**-30, tie - 2.0**-30]
    signed = [v for x in found for v in (x, -x)] + [nan]
    with np.errstate(over="ignore"):
        kept: list[float] = np.array(signed).astype(FLOATS[name]).astype(np.float64).tolist()
    return kept


def test_conversions_round_once_and_saturate() -> None:
    graph, given, cases = Graph(), {}, []
    for name, dtype in {**FLOATS, **INTEGERS}.items():
        values: list[Any] = _halfway(name) if name in FLOATS else _whole_values(dtype)
        x = graph.tensor(dims=(len(values),), data_type=name)
        given[x] = np.array(values).astype(dtype)
        for to in (*FLOATS, *INTEGERS, "boolean"):
            if to != name:
                cases.append((name, to, values, graph.cast(x, to).set_output()))
    results = graph.build("cpu").run(given)
    wrong = []
    for name, to, values, y in cases:
        for value, got in zip(values, results[y.uid].tolist(), strict=True):
            if to == "boolean":
                wanted: float = value != 0
            elif to in FLOATS:
                known = _integer_rounded if isinstance(value, int) else _rounded
                wanted = known(value, to)
            elif math.isnan(value):
                continue
            else:
                info = np.iinfo(INTEGERS[to])
                wanted = info.max if value >= info.max else int(max(value, int(info.min)))
            if got != wanted and not (np.isnan(got) and np.isnan(wanted)):
                wrong.append((name, to, value, got, wanted))
    assert wrong == []


def _integer_rounded(value: int, name: str) -> float:
    """Return an integer rounded once to a floating-point type."""
    bits = ml_dtypes.finfo(FLOATS[name]).nmant + 1
    step = 2 ** max(abs(value).bit_length() - bits, 0)
    nearest = round(Fraction(value, step)) * step
    most = float(ml_dtypes.finfo(FLOATS[name]).max)
    return float(nearest) if abs(nearest) <= most else math.copysign(inf, value)


# ------------------------------------------------------------------------- siblings


def test_nan_is_not_equal_to_itself() -> None:
    """Torch folds a comparison of a value with itself."""
    graph = Graph(io_data_type="float")
    x = graph.tensor(dims=(4,))
    modes = ("CMP_EQ", "CMP_NEQ", "CMP_GE", "CMP_GT", "CMP_LE", "CMP_LT")
    found = {mode: graph.pointwise(x, x, mode=P[mode]).set_output() for mode in modes}
    values = np.array([nan, 1, inf, -0.0], np.float32)
    results = graph.build("cpu").run({x: values})
    for mode, y in found.items():
        assert results[y.uid].tolist() == TWO[mode][0](values, values).tolist(), mode


def test_powers_with_an_exponent_of_the_execution() -> None:
    graph = Graph(io_data_type="float")
    x, y = graph.tensor(dims=(3,)), graph.runtime_scalar(data_type="float")
    z = graph.pow(x, y).set_output()
    plan = graph.build("cpu")
    values = np.array([-2, -3, 0], np.float32)
    for exponent, wanted in ((3.0, [-8, -27, 0]), (2.0, [4, 9, 0]), (0.0, [1, 1, 1])):
        given = {x: values, y: np.array([exponent], np.float32)}
        assert plan.run(given)[z.uid].tolist() == wanted


@pytest.mark.parametrize("io", FLOATS)
def test_pooling_keeps_the_first_nan(io: str) -> None:
    places = list(product([(0, 0), (0, 1), (1, 1), (2, 3), (3, 0)], (nan, inf, -inf)))
    images = np.tile(np.arange(1.0, 17).reshape(4, 4), (len(places), 1, 1, 1))
    for image, (place, value) in zip(images, places, strict=True):
        image[0][place] = value
    graph = Graph(io_data_type=io)
    x = graph.tensor(dims=images.shape)
    window = {"window": (3, 3), "stride": (1, 1), "pre_padding": (1, 1), "post_padding": (1, 1)}
    pooled = [
        graph.resample_fwd(
            x,
            resample_mode="maxpool",
            padding_mode="neg_inf_pad",
            generate_index=indexed,
            **window,  # type: ignore[arg-type]
        )
        for indexed in (False, True)
    ]
    (alone, _), (with_index, index) = pooled
    assert index is not None
    for tensor in (alone, with_index, index):
        tensor.set_output()
    results = graph.build("cpu").run({x: images.astype(FLOATS[io])})
    for n, row, column in np.ndindex(len(places), 4, 4):
        image = images[n, 0]
        rows, columns = (range(max(c - 1, 0), min(c + 2, 4)) for c in (row, column))
        seen = [(i, j) for i in rows for j in columns]
        best = next((at for at in seen if np.isnan(image[at])), None)
        best = best or max(seen, key=lambda at: (image[at], -at[0], -at[1]))
        for y in (alone, with_index):
            np.testing.assert_equal(float(results[y.uid][n, 0, row, column]), image[best])
        assert results[index.uid][n, 0, row, column] == best[0] * 4 + best[1]


def test_large_windows_keep_nan() -> None:
    """These are pooled one dim after the other, or reduced."""
    graph = Graph(io_data_type="float")
    x = graph.tensor(dims=(1, 1, 40, 40))
    image = np.tile(np.array([1, 2, 3, nan], np.float32), (1, 1, 40, 10))
    pooled = [
        graph.resample_fwd(x, resample_mode="maxpool", window=(n, n), stride=(1, 1))[0].set_output()
        for n in (40, 7)
    ]
    results = graph.build("cpu").run({x: image})
    assert all(np.isnan(results[y.uid]).all() for y in pooled)
