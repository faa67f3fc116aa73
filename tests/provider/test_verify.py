# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs that suit a graph, and a comparison that lets no fault pass."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.enums import PointwiseMode, ReductionMode
from hipdnn_iree.graph_api.errors import BindError
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.provider.reference import Expected, execute, expect, numpy_dtype, to_dtype
from hipdnn_iree.provider.reference.inputs import ALIGNMENT
from hipdnn_iree.provider.sweep.samples import sample_problems
from hipdnn_iree.provider.sweep.suite import Case
from hipdnn_iree.provider.verify import (
    Report,
    compare,
    poisoned_outputs,
    random_inputs,
)

D, P, M = DataType, PointwiseMode, ReductionMode
SAMPLES = {s.name: s for s in sample_problems()}
Problem = tuple[FrozenGraph, dict[int, Any], Expected]


def right(frozen: FrozenGraph, expected: Expected) -> dict[int, Any]:
    """Return correct results, in buffers with the outputs' real strides."""
    outputs = poisoned_outputs(frozen)
    for uid, array in outputs.items():
        array[...] = to_dtype(expected.values[uid], frozen.spec(uid).data_type)
    return outputs


def problem(sample: Case | str, data_type: DataType = D.FLOAT, seed: int = 1) -> Problem:
    found = SAMPLES[sample] if isinstance(sample, str) else sample
    frozen = found.graph(data_type).freeze()
    inputs = random_inputs(frozen, seed)
    return frozen, inputs, expect(frozen, inputs)


def unary(mode: PointwiseMode, dtype: str = "float", dims: tuple[int, ...] = (400,)) -> Any:
    g = Graph(io_data_type=dtype, compute_data_type="float")
    operands = [g.tensor(dims=dims) for _ in range(mode.arity)]
    g.output(g.pointwise(*operands, mode=mode))
    frozen = g.freeze()
    return [a.astype(np.float64) for a in random_inputs(frozen).values()]


# ---------------------------------------------------------------------------- inputs


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=lambda s: s.name)
def test_inputs_have_the_layout_that_the_graph_says(sample: Case) -> None:
    frozen = sample.graph(sample.dtypes[-1]).freeze()
    arrays = random_inputs(frozen, seed=2)
    assert tuple(arrays) == frozen.inputs
    for uid, array in arrays.items():
        spec = frozen.spec(uid)
        size = array.dtype.itemsize
        assert array.shape == spec.dims
        assert array.dtype == numpy_dtype(spec.data_type)
        assert array.strides == tuple(s * size for s in spec.strides)
        assert array.ctypes.data % ALIGNMENT == 0


def test_the_same_seed_gives_the_same_values() -> None:
    frozen = SAMPLES["conv_fprop.bias_relu"].graph(D.HALF).freeze()
    again = SAMPLES["conv_fprop.bias_relu"].graph(D.HALF).freeze()
    first, second, other = (
        list(random_inputs(f, s).values()) for f, s in ((frozen, 7), (again, 7), (frozen, 8))
    )
    for a, b, c in zip(first, second, other, strict=True):
        assert np.array_equal(a, b)
        assert not np.array_equal(a, c)
    x, w, _ = first
    assert not np.array_equal(x.ravel()[:50], w.ravel()[:50])


def test_equal_graphs_with_other_uids_get_the_same_values() -> None:
    def build(first: int) -> FrozenGraph:
        g = Graph(io_data_type="float")
        x, y = g.tensor(dims=(5,), uid=first), g.tensor(dims=(5,), uid=100 - first)
        g.output(g.sub(x, y))
        return g.freeze()

    a, b = random_inputs(build(3)), random_inputs(build(80))
    assert [v.tolist() for v in a.values()] == [v.tolist() for v in b.values()]


@pytest.mark.parametrize("dtype", ["float", "half", "bfloat16", "double", "int32", "int8"])
def test_gaps_and_what_lies_behind_hold_poison(dtype: str) -> None:
    g = Graph(io_data_type=dtype, compute_data_type="float")
    x = g.tensor(dims=(3, 4), strides=(7, 1))
    g.output(g.relu(x))
    array = random_inputs(g.freeze())[x.uid]
    memory = np.lib.stride_tricks.as_strided(
        array, (3 * 7 + 20,), (array.dtype.itemsize,), writeable=False
    ).astype(np.float64)
    inside = np.zeros(memory.shape, dtype=bool)
    inside[[7 * r + c for r in range(3) for c in range(4)]] = True
    outside = memory[~inside]
    if array.dtype.kind == "i":
        assert (outside == outside[0]).all()
        assert abs(outside[0]) > 90
    else:
        assert np.isnan(outside).all()
    assert np.isfinite(memory[inside]).all()


def test_broadcast_inputs_repeat_one_element() -> None:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(3, 4), strides=(0, 1))
    g.output(g.abs(x))
    array = random_inputs(g.freeze())[x.uid]
    assert array.strides == (0, 4)
    assert (array == array[0]).all()
    assert len(np.unique(array)) == 4


RANGES: list[tuple[PointwiseMode, int, Callable[[Any], Any]]] = [
    (P.LOG, 0, lambda x: x > 0.05),
    (P.SQRT, 0, lambda x: x > 0),
    (P.RSQRT, 0, lambda x: x > 0.05),
    (P.RECIPROCAL, 0, lambda x: np.abs(x) >= 0.49),
    (P.DIV, 1, lambda x: np.abs(x) >= 0.49),
    (P.MOD, 1, lambda x: np.abs(x) >= 0.49),
    (P.POW, 0, lambda x: x >= 0.49),
    (P.EXP, 0, lambda x: np.abs(x) <= 5),
    (P.TAN, 0, lambda x: np.abs(x) <= 1.3),
]


@pytest.mark.parametrize(("mode", "operand", "suits"), RANGES, ids=lambda v: getattr(v, "name", ""))
def test_operands_suit_their_mode(
    mode: PointwiseMode, operand: int, suits: Callable[[Any], Any]
) -> None:
    values = unary(mode)[operand]
    assert suits(values).all()
    assert len(np.unique(values)) > 300


def test_both_signs_occur_where_they_may() -> None:
    for mode, operand in ((P.RECIPROCAL, 0), (P.DIV, 1), (P.ADD, 0), (P.TANH_FWD, 0)):
        values = unary(mode)[operand]
        assert 0.2 < (values < 0).mean() < 0.8


def test_comparisons_have_ties_and_truth_has_zeros() -> None:
    a, b = unary(P.CMP_EQ)
    assert 0.03 < (a == b).mean() < 0.5
    (x,) = unary(P.LOGICAL_NOT)
    assert 0.15 < (x == 0).mean() < 0.6
    *_, mask = unary(P.BINARY_SELECT)
    assert 0.3 < (mask == 0).mean() < 0.7


def test_products_stay_near_one_and_some_elements_are_zero() -> None:
    for mode in (M.MUL, M.MUL_NO_ZEROS):
        g = Graph(io_data_type="half", compute_data_type="float")
        x = g.tensor(dims=(3, 2000))
        y = g.output(g.reduction(x, mode=mode, axes=1))
        frozen = g.freeze()
        arrays = random_inputs(frozen)
        zeros = (arrays[x.uid] == 0).mean()
        assert zeros == 0 if mode is M.MUL else 0.1 < zeros < 0.4
        result = np.abs(execute(frozen, arrays)[y.uid])
        assert ((result > 1e-3) & (result < 1e3)).all()


def test_an_operand_with_two_consumers_suits_both() -> None:
    g = Graph(io_data_type="float")
    x, y = g.tensor(dims=(500,)), g.tensor(dims=(500,))
    g.output(g.log(x))
    g.output(g.logical_or(x, y))
    g.output(g.div(y, x))
    values = random_inputs(g.freeze())[x.uid]
    assert (values >= 0.49).all()
    assert (values <= 2).all()


def test_logarithms_of_computed_values_get_inputs_that_allow_them() -> None:
    g = Graph(io_data_type="float")
    x, w = g.tensor(dims=(6, 40)), g.tensor(dims=(40, 5))
    y = g.output(g.log(g.matmul(x, w)))
    frozen = g.freeze()
    assert np.isfinite(execute(frozen, random_inputs(frozen))[y.uid]).all()


def test_integers_cover_the_range_that_cannot_overflow() -> None:
    frozen, arrays, _ = problem("matmul.square", D.INT8)
    a = arrays[frozen.inputs[0]]
    assert a.min() < -100
    assert a.max() > 100
    g = Graph(io_data_type="int8", compute_data_type="int32")
    x = g.tensor(dims=(2000,))
    g.output(g.identity(x))
    values = random_inputs(g.freeze())[x.uid]
    assert (values.min(), values.max()) == (-128, 127)


def test_int32_sums_do_not_overflow() -> None:
    frozen, arrays, expected = problem("matmul.long_k", D.INT8)
    a, b = (arrays[u].astype(object) for u in frozen.inputs)
    assert np.array_equal(expected.values[frozen.outputs[0]], (a @ b).astype(np.int64))


# ---------------------------------------------------------------------------- comparison

FAULTY = [
    ("conv_fprop.3x3_same", D.FLOAT),
    ("conv_fprop.3x3_same", D.HALF),
    ("conv_fprop.nhwc", D.BFLOAT16),
    ("conv_fprop.bias_relu", D.HALF),
    ("conv_fprop.3x3_same", D.INT8),
    ("matmul.primes", D.FLOAT),
    ("matmul.primes", D.DOUBLE),
    ("matmul.mlp", D.HALF),
    ("pointwise.add", D.FLOAT),
    ("pointwise.gelu_fwd", D.FLOAT),
    ("pointwise.exp", D.HALF),
    ("pointwise.mul", D.INT32),
    ("reduction.add", D.FLOAT),
    ("reduction.avg", D.HALF),
    ("reduction.max", D.FLOAT),
]


@pytest.mark.parametrize(("name", "dtype"), FAULTY)
def test_correct_results_pass(name: str, dtype: DataType) -> None:
    frozen, _, expected = problem(name, dtype)
    report = compare(frozen, right(frozen, expected), expected)
    assert report.ok
    assert report.max_rel_error < 2.0 ** -(dtype.value.mantissa or 60)


def largest(expected: Expected, uid: int) -> tuple[int, ...]:
    values = np.abs(expected.values[uid])
    return tuple(map(int, np.unravel_index(np.argmax(values), values.shape)))


@pytest.mark.parametrize(("name", "dtype"), FAULTY)
def test_one_percent_in_one_element_is_found(name: str, dtype: DataType) -> None:
    frozen, _, expected = problem(name, dtype)
    uid = frozen.outputs[0]
    outputs = right(frozen, expected)
    at = largest(expected, uid)
    wrong = float(outputs[uid][at]) * 1.01
    outputs[uid][at] = wrong if dtype.is_float else math.ceil(abs(wrong)) * (1 if wrong > 0 else -1)
    (report,) = compare(frozen, outputs, expected).outputs
    assert not report.ok
    assert report.wrong == 1
    assert report.worst == at
    assert report.max_rel_error > 1e-3
    assert "worst at" in str(report)


@pytest.mark.parametrize(("name", "dtype"), FAULTY)
def test_swapped_elements_are_found(name: str, dtype: DataType) -> None:
    frozen, _, expected = problem(name, dtype)
    uid = frozen.outputs[0]
    outputs = right(frozen, expected)
    flat = np.array(outputs[uid]).ravel()
    i, j = int(np.argmin(flat)), int(np.argmax(flat))
    flat[[i, j]] = flat[[j, i]]
    outputs[uid][...] = flat.reshape(outputs[uid].shape)
    assert compare(frozen, outputs, expected).outputs[0].wrong == 2


def ones(mode: ReductionMode, compute: str = "float") -> Problem:
    g = Graph(io_data_type="half", compute_data_type=compute)
    x = g.tensor(dims=(1, 8192))
    g.output(g.reduction(x, mode=mode, axes=1))
    frozen = g.freeze()
    inputs = {x.uid: np.ones((1, 8192), dtype=np.float16)}
    return frozen, inputs, expect(frozen, inputs)


@pytest.mark.parametrize(("mode", "wanted"), [(M.ADD, 8192), (M.NORM1, 8192), (M.AVG, 1)])
def test_an_accumulation_in_half_is_found(mode: ReductionMode, wanted: float) -> None:
    frozen, inputs, expected = ones(mode)
    (uid,), (x,) = frozen.outputs, inputs.values()
    total = np.float16(0)
    for value in x.ravel():
        total = np.float16(total + value)
    assert total == 2048  # what accumulating in half comes to
    half = {uid: np.array([[total / (8192 if mode is M.AVG else 1)]], dtype=np.float16)}
    assert not compare(frozen, half, expected).ok
    assert compare(frozen, {uid: np.array([[wanted]], dtype=np.float16)}, expected).ok
    step = np.nextafter(np.float16(wanted), np.float16(0))
    assert not compare(frozen, {uid: np.array([[step]], dtype=np.float16)}, expected).ok


def test_a_matmul_accumulated_in_half_is_found() -> None:
    frozen, inputs, expected = problem("matmul.long_k", D.HALF)
    a, b = (inputs[u] for u in frozen.inputs)
    c = np.zeros((3, 5), dtype=np.float16)
    for k in range(a.shape[1]):
        c = (c + a[:, k, None] * b[None, k]).astype(np.float16)
    uid = frozen.outputs[0]
    assert compare(frozen, {uid: c}, expected).outputs[0].wrong > 8
    good = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    assert compare(frozen, {uid: good}, expected).ok


def test_a_missing_bias_and_a_wrong_layout_are_found() -> None:
    frozen, inputs, expected = problem("conv_fprop.bias_relu_nhwc", D.HALF)
    uid = frozen.outputs[0]
    bias = next(u for u in frozen.inputs if frozen.spec(u).name == "bias")
    without = execute(frozen, {**inputs, bias: np.zeros_like(inputs[bias])})[uid]
    assert not compare(frozen, {uid: to_dtype(without, D.HALF)}, expected).ok
    good = right(frozen, expected)[uid]
    memory = np.ascontiguousarray(good.transpose(0, 2, 3, 1)).reshape(good.shape)
    assert not compare(frozen, {uid: memory}, expected).ok


def test_add_in_float_is_checked_to_the_last_digits() -> None:
    frozen, _, expected = problem("pointwise.add", D.FLOAT)
    uid = frozen.outputs[0]
    outputs = right(frozen, expected)
    outputs[uid] *= np.float32(1 + 1e-6)
    assert compare(frozen, outputs, expected).outputs[0].wrong > 0.95 * outputs[uid].size


@pytest.mark.parametrize(
    "dtype", [D.FLOAT, D.HALF, D.BFLOAT16, D.DOUBLE, D.INT8, D.UINT8, D.INT32, D.INT64]
)
def test_elements_never_written_are_found(dtype: DataType) -> None:
    frozen, _, expected = problem("pointwise.add", dtype)
    uid = frozen.outputs[0]
    outputs = right(frozen, expected)
    fresh = poisoned_outputs(frozen)
    outputs[uid][0, 1:3] = fresh[uid][0, 1:3]
    (report,) = compare(frozen, outputs, expected).outputs
    assert not report.ok
    # (A right value of a small integer type may look like poison; few do.)
    assert report.unwritten == report.wrong
    assert report.wrong >= 26
    assert "never written" in str(report)
    (untouched,) = compare(frozen, fresh, expected).outputs
    assert untouched.unwritten > 200


def test_booleans_are_zero_or_one() -> None:
    frozen, _, expected = problem("pointwise.cmp_lt", D.FLOAT)
    uid = frozen.outputs[0]
    outputs = right(frozen, expected)
    assert compare(frozen, outputs, expected).ok
    outputs[uid].view(np.uint8)[0, 0, 0] = 2
    assert compare(frozen, outputs, expected).outputs[0].wrong == 1
    (report,) = compare(frozen, poisoned_outputs(frozen), expected).outputs
    assert report.wrong == report.unwritten == report.elements
    flipped = {uid: ~right(frozen, expected)[uid]}
    assert compare(frozen, flipped, expected).outputs[0].wrong == report.elements


def special(values: list[float], got: list[float]) -> Report:
    g = Graph(io_data_type="half", compute_data_type="float")
    x = g.tensor(dims=(len(values),), data_type="float")
    y = g.output(g.mul(x, 2.0))
    frozen = g.freeze()
    expected = expect(frozen, {x.uid: np.array(values, dtype=np.float32)})
    return compare(frozen, {y.uid: np.array(got, dtype=np.float16)}, expected)


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("values", "got", "mismatches"),
    [
        ([NAN, 1.0], [NAN, 2.0], 0),
        ([NAN, 1.0], [0.0, 2.0], 1),
        ([1.0, 1.0], [NAN, 2.0], 1),
        ([INF, -INF], [INF, -INF], 0),
        ([INF, 1.0], [65504.0, 2.0], 1),
        ([1.0, 1.0], [INF, 2.0], 1),
        ([40000.0, 1.0], [INF, 2.0], 0),  # 80000 is no half
        ([40000.0, 1.0], [65504.0, 2.0], 1),
        ([0.0, 1.0], [-0.0, 2.0], 0),
    ],
)
def test_nan_and_infinity(values: list[float], got: list[float], mismatches: int) -> None:
    (report,) = special(values, got).outputs
    assert report.ok == (mismatches == 0)
    assert report.wrong == report.nan_mismatches == mismatches
    assert report.max_abs_error == report.max_rel_error == (INF if mismatches else 0)


@pytest.mark.parametrize("got", [[INF, INF], [-INF, -INF], [INF, NAN]])
def test_an_infinity_of_the_other_sign_is_wrong(got: list[float]) -> None:
    report = special([INF, -INF], got)
    assert report.outputs[0].wrong == 1
    json.dumps(report.as_dict(), allow_nan=False)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("dtype", [D.FP8_E4M3, D.FP8_E4M3_FNUZ, D.FP8_E5M2_FNUZ])
@pytest.mark.parametrize(
    ("share", "right", "wrong"), [(0.5, [0.5], [1, NAN]), (0.98, [1, NAN], [0.5, -1])]
)
def test_a_bound_beyond_the_largest_number_of_a_type_without_infinities(
    share: float, right: list[float], wrong: list[float], dtype: DataType, sign: int
) -> None:
    # The quotient may have been rounded in between, half a unit; there is NaN behind the largest.
    g = Graph(io_data_type="float", compute_data_type="float")
    x = g.tensor(dims=(1,))
    y = g.output(g.identity(g.mul(x, sign / 3).set_data_type(dtype)).set_data_type(dtype))
    frozen = g.freeze()
    expected = expect(frozen, {x.uid: np.array([3 * share * dtype.largest], dtype=np.float32)})
    for found, ok in [*((f, True) for f in right), *((f, False) for f in wrong)]:
        got = to_dtype(np.array([sign * found * dtype.largest]), dtype)
        assert compare(frozen, {y.uid: got}, expected).ok is ok


def softmax_of_columns(scale: float) -> tuple[FrozenGraph, dict[int, Any], Expected]:
    """Return softmax over rows whose maxima, scaled and not exact, are kept in half."""
    g = Graph(io_data_type="half", intermediate_data_type="float", compute_data_type="float")
    x = g.mul(g.tensor(dims=(4, 8)), scale / 3.0)
    most = g.reduction(x, mode="max", axes=(0,)).set_data_type("half")
    e = g.exp(g.sub(x, most))
    g.output(g.div(e, g.reduction(e, mode="add", axes=(0,))))
    frozen = g.freeze()
    inputs = random_inputs(frozen, 1)
    for array in inputs.values():
        array[...] = np.arange(1, 33).reshape(4, 8)
    return frozen, inputs, expect(frozen, inputs)


@pytest.mark.parametrize(("scale", "ok"), [(9e4, True), (1e3, False)])
def test_nan_where_an_intermediate_is_too_large_for_its_type(scale: float, ok: bool) -> None:
    # An engine that rounds the maxima has -inf behind the subtraction, then 0 / 0.
    frozen, _, expected = softmax_of_columns(scale)
    outputs = right(frozen, expected)
    assert compare(frozen, outputs, expected).ok
    for array in outputs.values():
        array[...] = np.nan
    assert compare(frozen, outputs, expected).ok is ok
    assert bool(expected.overflowing) is ok


def test_the_report_in_json() -> None:
    frozen, _, expected = problem("pointwise.all_results", D.FLOAT)
    report = compare(frozen, right(frozen, expected), expected)
    data = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert data["ok"] is True
    assert [o["name"] for o in data["outputs"]] == [frozen.spec(u).name for u in frozen.outputs]
    assert 0 <= data["max_abs_error"] < 1e-6
    assert {"max_rel_error", "worst", "allowed", "nan_mismatches", "unwritten"} <= set(
        data["outputs"][0]
    )
    assert len(str(report).splitlines()) == 3


def test_a_sum_that_cancels_is_no_large_relative_error() -> None:
    g = Graph(io_data_type="float")
    x, y = g.tensor(dims=(2,)), g.tensor(dims=(2,))
    z = g.output(g.sub(g.mul(x, 3.0), y))
    frozen = g.freeze()
    expected = expect(frozen, {x.uid: np.float32([1 / 3, 5]), y.uid: np.float32([1, 2])})
    report = compare(frozen, {z.uid: np.float32([0, 13])}, expected)
    assert report.ok
    assert report.max_rel_error < 1e-7


def test_results_that_do_not_fit_are_refused_all_at_once() -> None:
    frozen, _, expected = problem("pointwise.all_results", D.FLOAT)
    total, positive, _ = frozen.outputs
    bad = {total: np.zeros((9, 4), np.float32), positive: np.zeros((4, 9), np.float64)}
    with pytest.raises(BindError) as caught:
        compare(frozen, bad, expected)
    assert [p.rule for p in caught.value.problems] == ["VERIFY-02", "VERIFY-02", "VERIFY-01"]


def test_poisoned_outputs_have_the_layout_of_the_outputs() -> None:
    g = Graph(io_data_type="half", compute_data_type="float")
    dims = (2, 3, 4, 5)
    x = g.tensor(dims=dims, strides=channels_last_strides(dims))
    y = g.output(g.relu(x))
    (array,) = poisoned_outputs(g.freeze()).values()
    assert array.strides == tuple(2 * s for s in y.strides or ())
    assert array.ctypes.data % ALIGNMENT == 0
    assert np.isnan(array).all()
    assert array.flags.writeable
