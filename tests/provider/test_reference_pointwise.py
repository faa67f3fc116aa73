# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every pointwise mode against Python's own arithmetic, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.enums import PointwiseMode
from hipdnn_iree.graph_api.errors import NotSupportedError
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.graph_api.ops.pointwise import Pointwise
from hipdnn_iree.provider.reference import execute, expect, to_dtype, unsupported
from hipdnn_iree.provider.reference.pointwise import MODES

D, P = DataType, PointwiseMode


def apply(
    mode: PointwiseMode,
    *operands: Any,
    dtype: DataType = D.DOUBLE,
    compute: DataType | None = None,
    result: DataType | None = None,
    **attributes: Any,
) -> Any:
    """Return the reference's result for operands given as lists."""
    g = Graph(io_data_type=dtype, compute_data_type=compute or dtype)
    arrays = [to_dtype(np.asarray(x), dtype) for x in operands]
    tensors = [g.tensor(dims=a.shape) for a in arrays]
    y = g.output(g.pointwise(*tensors, mode=mode, **attributes), data_type=result or dtype)
    frozen = g.freeze()
    found = execute(frozen, {t.uid: a for t, a in zip(tensors, arrays, strict=True)})
    return found[y.uid].tolist()


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def gelu_tanh(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


ONE: dict[PointwiseMode, Callable[[float], float]] = {
    P.ABS: abs,
    P.NEG: lambda x: -x,
    P.IDENTITY: lambda x: x,
    P.CEIL: math.ceil,
    P.FLOOR: math.floor,
    P.SIN: math.sin,
    P.COS: math.cos,
    P.TAN: math.tan,
    P.EXP: math.exp,
    P.ERF: math.erf,
    P.TANH_FWD: math.tanh,
    P.SIGMOID_FWD: sigmoid,
    P.RELU_FWD: lambda x: max(x, 0.0),
    P.ELU_FWD: lambda x: x if x > 0 else math.exp(x) - 1,
    P.SOFTPLUS_FWD: lambda x: math.log(1 + math.exp(x)),
    P.SWISH_FWD: lambda x: x * sigmoid(x),
    P.GELU_FWD: lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    P.GELU_APPROX_TANH_FWD: gelu_tanh,
    P.LOGICAL_NOT: lambda x: float(x == 0),
}
POSITIVE: dict[PointwiseMode, Callable[[float], float]] = {
    P.LOG: math.log,
    P.SQRT: math.sqrt,
    P.RSQRT: lambda x: 1 / math.sqrt(x),
    P.RECIPROCAL: lambda x: 1 / x,
}
TWO: dict[PointwiseMode, Callable[[float, float], float]] = {
    P.ADD: lambda a, b: a + b,
    P.SUB: lambda a, b: a - b,
    P.MUL: lambda a, b: a * b,
    P.DIV: lambda a, b: a / b,
    P.ADD_SQUARE: lambda a, b: a + b * b,
    P.MOD: math.fmod,
    P.POW: lambda a, b: a**b,
    P.MAX: max,
    P.MIN: min,
    P.CMP_EQ: lambda a, b: float(a == b),
    P.CMP_NEQ: lambda a, b: float(a != b),
    P.CMP_GT: lambda a, b: float(a > b),
    P.CMP_GE: lambda a, b: float(a >= b),
    P.CMP_LT: lambda a, b: float(a < b),
    P.CMP_LE: lambda a, b: float(a <= b),
    P.LOGICAL_AND: lambda a, b: float(a != 0 and b != 0),
    P.LOGICAL_OR: lambda a, b: float(a != 0 or b != 0),
}
POINTS = [-3.5, -2.0, -1.25, -0.5, -1e-3, 0.0, 1e-3, 0.5, 1.0, 1.75, 3.0]


def test_the_tables_name_every_forward_mode() -> None:
    forward = {m for m in P if m.result != "backward" and m is not P.UNSET}
    assert set(MODES) == forward | set(BACKWARD)
    assert {*ONE, *POSITIVE, *TWO, P.GEN_INDEX, P.BINARY_SELECT} == forward


@pytest.mark.parametrize("mode", ONE, ids=lambda m: m.name)
def test_one_operand(mode: PointwiseMode) -> None:
    assert apply(mode, POINTS) == pytest.approx([ONE[mode](x) for x in POINTS], rel=1e-13)


@pytest.mark.parametrize("mode", POSITIVE, ids=lambda m: m.name)
def test_one_positive_operand(mode: PointwiseMode) -> None:
    points = [x for x in POINTS if x > 0]
    assert apply(mode, points) == pytest.approx([POSITIVE[mode](x) for x in points], rel=1e-14)


@pytest.mark.parametrize("mode", TWO, ids=lambda m: m.name)
def test_two_operands(mode: PointwiseMode) -> None:
    a = [abs(x) + 0.125 if mode is P.POW else x for x in POINTS]
    b = [1.5, -2.0, -0.75, 2.0, 3.0, -1.0, 1e-3, 0.25, 1.0, -1.75, 3.0]
    wanted = [TWO[mode](x, y) for x, y in zip(a, b, strict=True)]
    assert apply(mode, a, b) == pytest.approx(wanted, rel=1e-14)


def test_erf_at_known_values() -> None:
    # Abramowitz and Stegun, table 7.1.
    wanted = [0.0, 0.1124629160, 0.5204998778, 0.8427007929, 0.9953222650, 0.9999779095]
    assert apply(P.ERF, [0, 0.1, 0.5, 1, 2, 3]) == pytest.approx(wanted, abs=1e-10)


def test_gelu_keeps_its_digits_far_below_zero() -> None:
    # x/2 · erfc(-x/√2) by the asymptotic series of erfc, to five terms.
    x = -8.0
    z = -x / math.sqrt(2)
    series = 1 - 1 / (2 * z**2) + 3 / (4 * z**4) - 15 / (8 * z**6) + 105 / (16 * z**8)
    wanted = 0.5 * x * math.exp(-z * z) / (z * math.sqrt(math.pi)) * series
    assert apply(P.GELU_FWD, [x])[0] == pytest.approx(wanted, rel=1e-4)
    assert apply(P.GELU_APPROX_TANH_FWD, [x])[0] < 0


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ({}, [0, 0, 0, 1, 7]),
        ({"relu_upper_clip": 6.0}, [0, 0, 0, 1, 6]),
        ({"relu_lower_clip": -2.0}, [-2, -1, 0, 1, 7]),
        ({"relu_lower_clip_slope": 0.5}, [-1.5, -0.5, 0, 1, 7]),
        (
            {"relu_lower_clip": -1.0, "relu_upper_clip": 2.0, "relu_lower_clip_slope": 0.25},
            [-1.5, -1, 0, 1, 2],
        ),
    ],
)
def test_relu_attributes(attributes: dict[str, float], wanted: list[float]) -> None:
    assert apply(P.RELU_FWD, [-3.0, -1.0, 0.0, 1.0, 7.0], **attributes) == wanted


def test_attributes_of_the_smooth_activations() -> None:
    assert apply(P.ELU_FWD, [-1.0, 2.0], elu_alpha=0.3) == pytest.approx(
        [0.3 * (math.exp(-1) - 1), 2]
    )
    assert apply(P.SOFTPLUS_FWD, [0.7], softplus_beta=2.0) == pytest.approx(
        [math.log(1 + math.exp(1.4)) / 2]
    )
    assert apply(P.SWISH_FWD, [0.7], swish_beta=2.0) == pytest.approx([0.7 * sigmoid(1.4)])


def test_large_arguments_do_not_overflow() -> None:
    assert apply(P.SOFTPLUS_FWD, [800.0, -800.0]) == [800.0, 0.0]
    assert apply(P.SIGMOID_FWD, [800.0, -800.0]) == [1.0, 0.0]
    assert apply(P.ELU_FWD, [800.0]) == [800.0]


@pytest.mark.parametrize(("axis", "wanted"), [(0, [[0, 0, 0], [1, 1, 1]]), (1, [[0, 1, 2]] * 2)])
def test_gen_index(axis: int, wanted: list[list[int]]) -> None:
    assert apply(P.GEN_INDEX, [[5.0] * 3] * 2, axis=axis, result=D.INT32) == wanted


def test_binary_select_takes_its_third_operand_as_the_predicate() -> None:
    assert apply(P.BINARY_SELECT, [1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [1.0, 0.0, -0.5]) == [1, 5, 3]


def test_broadcasting_aligns_on_the_right() -> None:
    assert apply(P.ADD, [[1.0], [2.0]], [10.0, 20.0]) == [[11, 21], [12, 22]]
    assert apply(P.BINARY_SELECT, [[1.0], [2.0]], [7.0], [[1.0, 0.0]]) == [[1, 7], [2, 7]]


@pytest.mark.parametrize("mode", [P.MAX, P.MIN, P.ADD, P.RELU_FWD, P.ABS])
def test_nan_goes_through(mode: PointwiseMode) -> None:
    operands = [[math.nan, 1.0], [1.0, math.nan]][: mode.arity]
    assert math.isnan(apply(mode, *operands)[0])


@pytest.mark.parametrize(
    ("mode", "a", "b", "wanted"),
    [
        (P.DIV, [7, -7, 7, -7, 6], [2, 2, -2, -2, 3], [3, -3, -3, 3, 2]),
        (P.MOD, [7, -7, 7, -7, 6], [3, 3, -3, -3, 3], [1, -1, 1, -1, 0]),
        (P.ADD, [2**31 - 1, 5], [1, 6], [-(2**31), 11]),
        (P.MUL, [2**30, -3], [4, 5], [0, -15]),
        (P.SUB, [-(2**31)], [1], [2**31 - 1]),
        (P.ADD_SQUARE, [3, 0], [-4, 2**16], [19, 0]),
        (P.MAX, [3, -4], [-3, -5], [3, -4]),
        (P.CMP_GE, [3, -4, 2], [3, -5, 7], [1, 1, 0]),
    ],
)
def test_integers(mode: PointwiseMode, a: list[int], b: list[int], wanted: list[int]) -> None:
    assert apply(mode, a, b, dtype=D.INT32) == wanted


def test_integers_of_one_operand() -> None:
    assert apply(P.ABS, [-5, 5], dtype=D.INT32) == [5, 5]
    assert apply(P.ABS, [-(2**31)], dtype=D.INT32) == [-(2**31)]
    assert apply(P.CEIL, [-5, 5], dtype=D.INT32) == [-5, 5]
    assert apply(P.RELU_FWD, [-5, 5], dtype=D.INT32) == [0, 5]
    assert apply(P.RELU_FWD, [-5, 5, 9], dtype=D.INT32, relu_upper_clip=6.0) == [0, 5, 6]
    assert apply(P.RELU_FWD, [-5, 5], dtype=D.INT32, relu_lower_clip_slope=0.5) == [-2, 5]


def test_int64_keeps_digits_that_doubles_lack() -> None:
    big = 2**53 + 1
    assert apply(P.ADD, [big], [2], dtype=D.INT64) == [big + 2]
    assert apply(P.IDENTITY, [big], dtype=D.INT64) == [big]


def test_narrow_operands_compute_wide_and_saturate_at_the_end() -> None:
    assert apply(P.ADD, [100], [100], dtype=D.INT8, compute=D.INT32) == [127]
    assert apply(P.MUL, [100], [100], dtype=D.INT8, compute=D.INT32, result=D.INT32) == [10000]
    assert apply(P.NEG, [5], dtype=D.UINT8, compute=D.INT32) == [0]


def test_conversions_do_not_pass_through_the_compute_type() -> None:
    value = [2**24 + 1]
    assert apply(P.IDENTITY, value, dtype=D.INT32, compute=D.FLOAT) == value
    assert apply(P.IDENTITY, [2.75], dtype=D.FLOAT, compute=D.INT32) == [2.75]
    assert apply(P.IDENTITY, [-2.75, 300.0], dtype=D.FLOAT, result=D.INT8) == [-2, 127]


def test_truth_is_asked_in_the_own_type() -> None:
    assert apply(P.LOGICAL_NOT, [0.5, 0.0], dtype=D.FLOAT, compute=D.INT32) == [0, 1]
    assert apply(P.LOGICAL_AND, [0.5], [1e-30], dtype=D.FLOAT, compute=D.HALF) == [1]


def test_half_scalars_are_rounded_first() -> None:
    g = Graph(io_data_type="half", compute_data_type="float")
    x = g.tensor(dims=(2,))
    y = g.output(g.mul(x, g.scalar(0.1, data_type="half")))
    found = execute(g.freeze(), {x.uid: np.array([1, 10], dtype=np.float16)})
    assert found[y.uid].tolist() == [0.0999755859375, 0.999755859375]


def test_an_op_without_a_reference_is_declined_with_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    x = g.tensor(dims=(3,))
    g.output(g.pointwise(x, mode=P.EXP, name="slope"))
    frozen = g.freeze()
    monkeypatch.delitem(MODES, P.EXP)
    (problem,) = unsupported(frozen)
    assert (problem.rule, problem.node) == ("REF-01", "slope")
    assert "EXP" in problem.got
    with pytest.raises(NotSupportedError, match="EXP"):
        execute(frozen, {x.uid: np.zeros(3, np.float32)})


BACKWARD = {m: P[m.name.replace("_BWD", "_FWD")] for m in P if m.result == "backward"}


@pytest.mark.parametrize("mode", BACKWARD, ids=lambda m: m.name)
@pytest.mark.parametrize("operands", ["dy_x", "x_dy"])
def test_backward_modes_are_slopes_of_the_forward_ones(mode: PointwiseMode, operands: str) -> None:
    # Central differences of the forward reference, away from the corners of ReLU and ELU.
    x = np.array([-3.1, -1.7, -0.6, -0.2, 0.3, 0.9, 1.6, 2.8])
    dy = np.array([1.0, -2.0, 0.5, 3.0, -1.0, 0.25, 2.0, -0.75])
    attributes = {
        name: value
        for name, value in (
            ("relu_lower_clip", -1.0),
            ("relu_upper_clip", 2.0),
            ("relu_lower_clip_slope", 0.25),
            ("elu_alpha", 0.7),
            ("softplus_beta", 1.5),
            ("swish_beta", 1.702),
        )
        if name in mode.attrs
    }
    attributes = {name: float(np.float32(value)) for name, value in attributes.items()}
    forward = Pointwise(mode=BACKWARD[mode], **attributes)
    h = 1e-5
    real = MODES[forward.mode].real
    slope = (real(forward, x + h) - real(forward, x - h)) / (2 * h)
    g = Graph(io_data_type="double")
    tensors = {"dy": g.tensor(dims=x.shape), "x": g.tensor(dims=x.shape)}
    order = [tensors[name] for name in operands.split("_")]
    y = g.output(g.pointwise(*order, mode=mode, operands=operands, **attributes))
    found = execute(g.freeze(), {tensors["dy"].uid: dy, tensors["x"].uid: x})
    assert found[y.uid] == pytest.approx(dy * slope, rel=1e-8, abs=1e-9)


def bounds(mode: PointwiseMode, *operands: list[float], dtype: DataType = D.FLOAT) -> Any:
    g = Graph(io_data_type=dtype, compute_data_type=dtype)
    tensors = [g.tensor(dims=(len(x),)) for x in operands]
    y = g.output(g.pointwise(*tensors, mode=mode))
    arrays = [to_dtype(np.array(x), dtype) for x in operands]
    e = expect(g.freeze(), {t.uid: a for t, a in zip(tensors, arrays, strict=True)})
    return e.low[y.uid], e.values[y.uid], e.high[y.uid]


def test_exact_modes_have_no_tolerance() -> None:
    x = np.linspace(-3, 3, 31).tolist()
    for mode in (P.ABS, P.NEG, P.IDENTITY, P.CEIL, P.FLOOR, P.RELU_FWD):
        low, value, high = bounds(mode, x)
        assert np.array_equal(low, high)
        assert np.array_equal(low, value)
    for mode in (P.MAX, P.MIN, P.CMP_EQ, P.CMP_LT, P.LOGICAL_OR):
        low, _, high = bounds(mode, x, x[::-1])
        assert np.array_equal(low, high)


def test_one_rounding_is_one_rounding() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.uniform(-2, 2, 500).tolist() for _ in range(2))
    for mode, f in ((P.ADD, np.add), (P.MUL, np.multiply), (P.SUB, np.subtract)):
        low, _, high = bounds(mode, a, b)
        got = f(np.float32(a), np.float32(b)).astype(np.float64)
        assert ((low <= got) & (got <= high)).all()
        # Never more than two neighbours: about 1e-7 of the value.
        assert (high - low <= np.spacing(np.abs(got).astype(np.float32))).all()


def test_a_sum_of_rounded_numbers_is_rounded_anywhere() -> None:
    rng = np.random.default_rng(3)
    g = Graph(io_data_type="double", compute_data_type="double")
    x = g.tensor(dims=(2000,))
    kept = g.abs(x).set_data_type("float")
    y = g.output(g.add(kept, 0.5, compute_data_type="float"))
    array = rng.uniform(0.25, 0.5, 2000)
    e = expect(g.freeze(), {x.uid: array})
    got = (np.float32(array) + np.float32(0.5)).astype(np.float64)
    assert ((e.low[y.uid] <= got) & (got <= e.high[y.uid])).all()


def test_a_fused_multiply_add_of_doubles_is_right() -> None:
    # (2^27 + 1)² - 2^54 without the rounding of the product, which takes off the last 1.
    g = Graph(io_data_type="double", compute_data_type="double")
    a, b, c = (g.tensor(dims=(1,)) for _ in range(3))
    y = g.output(g.add(g.mul(a, b), c))
    given = {t.uid: np.array([v]) for t, v in ((a, 2.0**27 + 1), (b, 2.0**27 + 1), (c, -(2.0**54)))}
    e = expect(g.freeze(), given)
    assert e.low[y.uid].item() <= 2.0**28 + 1 <= e.high[y.uid].item()
    assert e.high[y.uid].item() - e.low[y.uid].item() < 32


DIRECT: dict[PointwiseMode, Callable[[Any], Any]] = {
    P.SIN: np.sin,
    P.COS: np.cos,
    P.TAN: np.tan,
    P.EXP: np.exp,
    P.TANH_FWD: np.tanh,
    P.SIGMOID_FWD: lambda x: 1 / (1 + np.exp(-x)),
    P.SWISH_FWD: lambda x: x / (1 + np.exp(-x)),
    P.SOFTPLUS_FWD: lambda x: np.log1p(np.exp(x)),
    P.ELU_FWD: lambda x: np.where(x > 0, x, np.expm1(x)),
    P.LOG: np.log,
    P.SQRT: np.sqrt,
    P.RSQRT: lambda x: 1 / np.sqrt(x),
    P.RECIPROCAL: lambda x: 1 / x,
}


@pytest.mark.parametrize("mode", DIRECT, ids=lambda m: m.name)
def test_a_plain_float32_implementation_stays_inside_the_bounds(mode: PointwiseMode) -> None:
    x = np.linspace(0.1, 4, 997) if mode in POSITIVE else np.linspace(-1.5, 1.5, 997)
    low, value, high = bounds(mode, x.tolist())
    got = DIRECT[mode](x.astype(np.float32)).astype(np.float64)
    assert ((low <= got) & (got <= high)).all()
    # And the bounds are worth something: 20 millionths of the result at the most.
    assert (high - low <= 4e-5 * np.maximum(np.abs(value), 0.1)).all()


def test_a_swish_whose_sigmoid_is_flushed_stays_inside_the_bounds() -> None:
    """x times what was 0 instead of subnormal: |x| smallest normal numbers are missing."""
    x = np.linspace(-87.5, -87.34, 41)  # ln of the smallest normal number: -87.3365
    _, value, high = bounds(P.SWISH_FWD, x.tolist())
    assert ((value < 0) & (high >= 0)).all()
    # Where the sigmoid is normal with certainty, 0 is wrong.
    _, _, high = bounds(P.SWISH_FWD, [-86.0])
    assert (high < 0).all()


def test_the_bound_follows_errors_through_jumps() -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    x, y = g.tensor(dims=(3,)), g.tensor(dims=(3,))
    third = g.div(x, y)
    equal = g.output(g.cmp_eq(g.mul(third, y), x), data_type="boolean")
    below = g.output(g.floor(g.mul(third, y)))
    frozen = g.freeze()
    arrays = {x.uid: np.float32([1, 5, 2.5]), y.uid: np.float32([3, 3, 3])}
    e = expect(frozen, arrays)
    # 1/3 · 3 may miss 1 by a rounding, so either answer is right; the floor of 2.5 is safe.
    # (Bounds are symmetric: where the floor may be one less, one more passes too.)
    assert e.values[equal.uid].tolist() == [1, 1, 1]
    assert e.low[equal.uid].tolist() == [0, 0, 0]
    assert e.low[below.uid].tolist() == [0, 4, 2]
    assert e.high[below.uid].tolist() == [2, 6, 2]


def test_a_tangent_of_a_rounded_angle_is_bounded_between_poles_only() -> None:
    """x · y is rounded, so large angles may lie beyond the next pole, small ones do not."""
    g = Graph(io_data_type="float", compute_data_type="float")
    x, y = g.tensor(dims=(4,)), g.tensor(dims=(4,))
    tangent = g.output(g.tan(g.mul(x, y)))
    scale = np.float32([0.3, 1.1, 1e5, 1e30])
    e = expect(g.freeze(), {x.uid: np.full(4, 1.1, np.float32), y.uid: scale})
    assert np.isfinite(e.high[tangent.uid][:3]).all()
    assert np.isinf(e.high[tangent.uid][3])
    assert np.isinf(e.low[tangent.uid][3])


def test_an_ill_conditioned_element_has_an_open_bound() -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    x, y = g.tensor(dims=(2,)), g.tensor(dims=(2,))
    z = g.output(g.reciprocal(g.sub(g.mul(x, y), 1.0)))
    arrays = {x.uid: np.float32([3, 2]), y.uid: np.float32([1 / 3, 3])}
    e = expect(g.freeze(), arrays)
    assert np.isinf(e.high[z.uid]).tolist() == [True, False]
