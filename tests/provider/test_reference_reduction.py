# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions against Python's own sums, products and extremes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.enums import ReductionMode
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.provider.reference import Expected, execute, expect, to_dtype

D, M = DataType, ReductionMode


def graph(
    shape: tuple[int, ...],
    mode: ReductionMode,
    axes: tuple[int, ...],
    dtype: DataType,
    compute: DataType,
    result: DataType | None = None,
) -> tuple[Graph, Any, Any]:
    g = Graph(io_data_type=dtype, compute_data_type=compute)
    x = g.tensor(dims=shape)
    return g, x, g.output(g.reduction(x, mode=mode, axes=axes), data_type=result or dtype)


def reduce(
    x: Any,
    mode: ReductionMode,
    axes: tuple[int, ...],
    dtype: DataType = D.DOUBLE,
    compute: DataType = D.DOUBLE,
    result: DataType | None = None,
) -> Any:
    array = to_dtype(np.asarray(x), dtype)
    g, tx, y = graph(array.shape, mode, axes, dtype, compute, result)
    return execute(g.freeze(), {tx.uid: array})[y.uid]


PLAIN: dict[ReductionMode, Callable[[list[float]], float]] = {
    M.ADD: math.fsum,
    M.MUL: math.prod,
    M.MIN: min,
    M.MAX: max,
    M.AMAX: lambda v: max(map(abs, v)),
    M.AVG: lambda v: math.fsum(v) / len(v),
    M.NORM1: lambda v: math.fsum(map(abs, v)),
    M.NORM2: lambda v: math.sqrt(math.fsum(x * x for x in v)),
    M.MUL_NO_ZEROS: lambda v: math.prod(x for x in v if x),
}


def test_every_mode_is_checked() -> None:
    assert set(PLAIN) == set(M) - {M.NOT_SET}


@pytest.mark.parametrize("mode", PLAIN, ids=lambda m: m.json)
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)])
def test_modes_and_axes(mode: ReductionMode, axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(8).uniform(-2, 2, (3, 4, 5))
    x[np.abs(x) < 0.3] = 0
    if mode is M.MUL:
        x[x == 0] = 1.5
    got = reduce(x, mode, axes)
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    assert got.shape == kept
    for index in np.ndindex(*kept):
        picked = x[tuple(slice(None) if i in axes else index[i] for i in range(3))]
        assert got[index] == pytest.approx(PLAIN[mode](picked.ravel().tolist()), rel=1e-13)


def test_products_of_nothing_but_zeros() -> None:
    assert reduce([[0.0, 0.0], [0.0, 3.0]], M.MUL_NO_ZEROS, (1,)).ravel().tolist() == [1, 3]
    assert reduce([[0.0, 2.0]], M.MUL, (1,)).item() == 0


@pytest.mark.parametrize("mode", [M.MIN, M.MAX, M.AMAX, M.ADD], ids=lambda m: m.json)
def test_nan_goes_through(mode: ReductionMode) -> None:
    assert math.isnan(reduce([[1.0, math.nan, -3.0]], mode, (1,)).item())


def test_sums_and_means_of_many_halves() -> None:
    ones = np.ones((1, 8192))
    assert reduce(ones, M.ADD, (1,), D.HALF, D.FLOAT).item() == 8192
    assert reduce(ones, M.AVG, (1,), D.HALF, D.FLOAT).item() == 1.0
    assert reduce(ones, M.NORM2, (1,), D.HALF, D.FLOAT).item() == pytest.approx(8192**0.5)


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        (M.ADD, -15),
        (M.MUL, 72),
        (M.MIN, -12),
        (M.MAX, 1),
        (M.AMAX, 12),
        (M.NORM1, 19),
        (M.MUL_NO_ZEROS, 72),
    ],
)
def test_integers(mode: ReductionMode, wanted: int) -> None:
    assert reduce([[-12, -6, 1]][0:1], mode, (1,), D.INT32, D.INT32).item() == (
        wanted if mode is not M.ADD else -17
    )


def test_integer_sums_wrap_in_the_compute_type_and_saturate_in_the_result() -> None:
    assert reduce([[2**31 - 1, 1]], M.ADD, (1,), D.INT32, D.INT32).item() == -(2**31)
    assert reduce([[100, 100]], M.ADD, (1,), D.INT8, D.INT32).item() == 127
    assert reduce([[100, 100]], M.ADD, (1,), D.INT8, D.INT32, D.INT32).item() == 200
    assert reduce([[2**62, 2**62]], M.ADD, (1,), D.INT64, D.INT64).item() == -(2**63)
    assert reduce([[2**53, 1]], M.ADD, (1,), D.INT64, D.INT64).item() == 2**53 + 1
    assert reduce([[2**16, 2**16]], M.MUL, (1,), D.INT32, D.INT32).item() == 0


def test_integer_means_in_float_drop_the_fraction_at_the_end() -> None:
    assert reduce([[-3, -4]], M.AVG, (1,), D.INT32, D.FLOAT).item() == -3
    assert reduce([[-3, -4]], M.AVG, (1,), D.INT32, D.FLOAT, D.FLOAT).item() == -3.5


def expected(x: Any, mode: ReductionMode, dtype: DataType = D.FLOAT) -> tuple[Expected, int]:
    array = to_dtype(np.asarray(x), dtype)
    g, tx, y = graph(array.shape, mode, (1,), dtype, D.FLOAT)
    return expect(g.freeze(), {tx.uid: array}), y.uid


@pytest.mark.parametrize("mode", PLAIN, ids=lambda m: m.json)
def test_float32_in_order_stays_inside_the_bounds(mode: ReductionMode) -> None:
    rng = np.random.default_rng(9)
    x = (rng.choice([-1, 1], (50, 700)) * rng.uniform(0.9, 1.1, (50, 700))).astype(np.float32)
    total = np.float32(1) if mode in (M.MUL, M.MUL_NO_ZEROS) else np.float32(0)
    y = np.full((50, 1), total)
    for i in range(700):
        column = x[:, i : i + 1]
        if mode in (M.ADD, M.AVG):
            y = y + column
        elif mode in (M.MUL, M.MUL_NO_ZEROS):
            y = y * column
        elif mode is M.NORM1:
            y = y + np.abs(column)
        elif mode is M.NORM2:
            y = y + column * column
    if mode is M.AVG:
        y = y * np.float32(1 / 700)
    elif mode is M.NORM2:
        y = np.sqrt(y)
    elif mode in (M.MIN, M.MAX):
        y = getattr(x, mode.name.lower())(1, keepdims=True)
    elif mode is M.AMAX:
        y = np.abs(x).max(1, keepdims=True)
    e, uid = expected(x, mode)
    assert y.dtype == np.float32
    assert ((e.low[uid] <= y) & (y <= e.high[uid])).all()


def test_extremes_are_exact() -> None:
    x = np.random.default_rng(9).normal(size=(20, 30))
    for mode in (M.MIN, M.MAX, M.AMAX):
        e, uid = expected(x, mode)
        assert np.array_equal(e.low[uid], e.high[uid])


def test_a_sum_of_whole_numbers_is_exact() -> None:
    e, uid = expected(np.ones((1, 8192)), M.ADD, D.HALF)
    assert e.low[uid].item() == e.high[uid].item() == 8192


@pytest.mark.parametrize(
    ("mode", "most"), [(M.AVG, 1900.0), (M.ADD, 1900.0), (M.NORM1, 1900.0), (M.NORM2, 43.0)]
)
def test_sums_beyond_the_compute_type_have_no_bound(mode: ReductionMode, most: float) -> None:
    """Of 33 numbers up to 2,000 (of squares: up to 45) in half, whose largest is 65,504."""
    for size, finite in ((most, True), (most * 1.1, False)):
        g, x, y = graph((1, 33), mode, (1,), D.HALF, D.HALF)
        e = expect(g.freeze(), {x.uid: np.full((1, 33), size, np.float16)})
        assert np.isfinite(e.high[y.uid]).all() == finite, (mode, size)


def test_zero_times_a_mean_that_may_be_infinite_may_be_nan() -> None:
    """Random graph 302868: an engine adds up in half, and has infinity and NaN in the end."""
    for size, overflows in ((1900.0, False), (2100.0, True)):
        g, x, y = graph((1, 33), M.AVG, (1,), D.HALF, D.HALF)
        zero = g.tensor(dims=(1, 1))
        product = g.mul(y, zero).set_output()
        given = {x.uid: np.full((1, 33), size, np.float16), zero.uid: np.zeros((1, 1), np.float16)}
        e = expect(g.freeze(), given)
        assert (product.uid in e.overflowing) == overflows
        assert np.isinf(e.high[product.uid]).all() == overflows
