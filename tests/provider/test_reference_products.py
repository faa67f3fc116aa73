# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolution and matrix product against formulas of another kind, and by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.enums import ConvMode
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.graph_api.ops.conv_fprop import ConvFprop
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.reference import execute, expect
from hipdnn_iree.provider.reference.convert import widen
from hipdnn_iree.provider.sweep.samples import sample_problems
from hipdnn_iree.provider.sweep.suite import Case
from hipdnn_iree.provider.verify import random_inputs
from numpy.lib.stride_tricks import sliding_window_view

D = DataType


def run(graph: Graph, arrays: Mapping[int, Any]) -> Any:
    frozen = graph.freeze()
    (uid,) = frozen.outputs
    return execute(frozen, arrays)[uid]


def conv(x: Any, w: Any, dtype: str = "double", compute: str = "double", **parameters: Any) -> Any:
    g = Graph(io_data_type=dtype, compute_data_type=compute)
    a, b = np.asarray(x), np.asarray(w)
    tx, tw = g.tensor(dims=a.shape), g.tensor(dims=b.shape)
    y = g.conv_fprop(tx, tw, **parameters).set_output()
    if compute.startswith("int"):
        y.set_data_type(compute)
    return run(g, {tx.uid: a, tw.uid: b})


def by_windows(op: ConvFprop, x: Any, w: Any) -> Any:
    """Return the convolution as one einsum over windows, group by group."""
    spatial = x.ndim - 2
    pads = [(0, 0), (0, 0), *zip(op.pre_padding, op.post_padding, strict=True)]
    reach = [d * (k - 1) + 1 for d, k in zip(op.dilation, w.shape[2:], strict=True)]
    windows = sliding_window_view(np.pad(x, pads), reach, axis=tuple(range(2, x.ndim)))
    steps = [slice(None, None, s) for s in op.stride]
    taps = [slice(None, None, d) for d in op.dilation]
    windows = windows[(slice(None), slice(None), *steps, *taps)]
    if op.conv_mode is ConvMode.CONVOLUTION:
        w = w[(..., *[slice(None, None, -1)] * spatial)]
    groups = x.shape[1] // w.shape[1]
    out = "xyz"[:spatial]
    tap = "pqr"[:spatial]
    parts = [
        np.einsum(f"nc{out}{tap},kc{tap}->nk{out}", wx, ww)
        for wx, ww in zip(np.split(windows, groups, 1), np.split(w, groups, 0), strict=True)
    ]
    return np.concatenate(parts, axis=1)


SINGLE = [
    s for s in sample_problems("conv_fprop") if {"chain", "mixed", "compute"}.isdisjoint(s.tags)
]


@pytest.mark.parametrize("sample", SINGLE, ids=lambda s: s.name)
@pytest.mark.parametrize("dtype", [D.DOUBLE, D.INT8], ids=lambda d: d.json)
def test_conv_is_an_einsum_over_windows(sample: Case, dtype: DataType) -> None:
    if dtype not in sample.dtypes:
        return
    frozen = sample.graph(dtype).freeze()
    (node,) = frozen.nodes
    assert isinstance(node.op, ConvFprop)
    arrays = random_inputs(frozen, seed=5)
    x, w = (widen(arrays[node.inputs[p]], dtype) for p in ("x", "w"))
    got = execute(frozen, arrays)[frozen.outputs[0]]
    np.testing.assert_allclose(got, by_windows(node.op, x, w), rtol=1e-12, atol=1e-12)


def test_conv_by_hand() -> None:
    x = [[[[1.0, 2, 3], [4, 5, 6], [7, 8, 9]]]]
    w = [[[[1.0, 10], [100, 1000]]]]
    assert conv(x, w).tolist() == [[[[5421, 6532], [8754, 9865]]]]
    assert conv(x, w, conv_mode="CONVOLUTION").tolist() == [[[[1245, 2356], [4578, 5689]]]]
    assert conv(x, w, stride=2).tolist() == [[[[5421]]]]
    assert conv(x, w, dilation=2).tolist() == [[[[9731]]]]
    assert conv(x, w, pre_padding=(1, 0), post_padding=(0, 1)).tolist() == [
        [[[2100, 3200, 300], [5421, 6532, 603 + 0], [8754, 9865, 906]]]
    ]


def test_conv_groups_by_hand() -> None:
    x = [[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]]
    w = [[[[1.0]], [[10.0]]], [[[2.0]], [[20.0]]], [[[3.0]], [[30.0]]], [[[4.0]], [[40.0]]]]
    assert conv(x, w).ravel().tolist() == [21, 42, 129, 172]
    depthwise = [[[[1.0]]], [[[10.0]]], [[[100.0]]], [[[1000.0]]]]
    assert conv(x, depthwise).ravel().tolist() == [1, 20, 300, 4000]


def test_conv_in_integers_is_exact_and_wraps() -> None:
    x = np.full((1, 4, 1, 1), -128, dtype=np.int8)
    w = np.full((1, 4, 1, 1), -128, dtype=np.int8)
    assert conv(x, w, "int8", "int32").item() == 65536
    big = np.full((1, 4, 1, 1), 2**15, dtype=np.int32)
    assert conv(big, 2 * big, "int32", "int32").item() == 0
    huge = np.full((1, 1, 1, 1), 2**40 + 1, dtype=np.int64)
    assert conv(huge, huge, "int64", "int64").item() == (2**40 + 1) ** 2 % 2**64


def matmul(a: Any, b: Any, dtype: str = "double", compute: str = "double") -> Any:
    g = Graph(io_data_type=dtype, compute_data_type=compute)
    ta, tb = g.tensor(dims=np.shape(a)), g.tensor(dims=np.shape(b))
    c = g.matmul(ta, tb).set_output()
    if compute.startswith("int"):
        c.set_data_type(compute)
    return run(g, {ta.uid: np.asarray(a), tb.uid: np.asarray(b)})


def test_matmul_by_hand() -> None:
    assert matmul([[1.0, 2], [3, 4]], [[5.0, 6], [7, 8]]).tolist() == [[19, 22], [43, 50]]


def test_the_smaller_batch_is_repeated_element_by_element() -> None:
    a = np.array([1.0, 2, 3, 4, 5, 6]).reshape(6, 1, 1)
    b = np.array([10.0, 100]).reshape(2, 1, 1)
    assert matmul(a, b).ravel().tolist() == [10, 20, 30, 400, 500, 600]
    assert matmul(b, a).ravel().tolist() == [10, 20, 30, 400, 500, 600]


@pytest.mark.parametrize(
    ("batch_a", "batch_b"),
    [((3,), (3,)), ((1,), (4,)), ((6,), (2,)), ((2, 4), (4, 2)), ((2, 1, 6), (4, 3, 2))],
)
def test_matmul_batch_by_batch(batch_a: tuple[int, ...], batch_b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(*batch_a, 3, 5)), rng.normal(size=(*batch_b, 5, 2))
    got = matmul(a, b)
    batch = tuple(map(max, batch_a, batch_b))
    assert got.shape == (*batch, 3, 2)
    for index in itertools.product(*map(range, batch)):
        ia = tuple(i // (n // m) for i, n, m in zip(index, batch, batch_a, strict=True))
        ib = tuple(i // (n // m) for i, n, m in zip(index, batch, batch_b, strict=True))
        for i, j in itertools.product(range(3), range(2)):
            wanted = sum(a[(*ia, i, k)] * b[(*ib, k, j)] for k in range(5))
            assert got[(*index, i, j)] == pytest.approx(wanted, rel=1e-12)


def test_matmul_in_integers_is_exact_and_wraps() -> None:
    a = np.full((1, 3), 127, dtype=np.int8)
    assert matmul(a, a.T.copy(), "int8", "int32").tolist() == [[3 * 127 * 127]]
    big = np.full((1, 2), 2**31 - 1, dtype=np.int32)
    assert matmul(big, big.T.copy(), "int32", "int32").tolist() == [[2]]
    # Beyond 2^53 the products leave float64, and stay exact all the same.
    huge = np.array([[2**40 + 1, 3]], dtype=np.int64)
    wanted = ((2**40 + 1) ** 2 + 9) % 2**64
    assert matmul(huge, huge.T.copy(), "int64", "int64").tolist() == [[wanted]]


def test_float32_sums_in_any_order_stay_inside_the_bounds() -> None:
    rng = np.random.default_rng(4)
    g = Graph(io_data_type="float", compute_data_type="float")
    ta, tb = g.tensor(dims=(20, 3000)), g.tensor(dims=(3000, 10))
    c = g.matmul(ta, tb).set_output()
    a = rng.uniform(-1, 1, (20, 3000)).astype(np.float32)
    b = rng.uniform(-1, 1, (3000, 10)).astype(np.float32)
    e = expect(g.freeze(), {ta.uid: a, tb.uid: b})
    low, high = e.low[c.uid], e.high[c.uid]
    one_by_one = np.zeros((20, 10), dtype=np.float32)
    for k in range(3000):
        one_by_one += a[:, k, None] * b[None, k]
    for got in (a @ b, one_by_one, np.einsum("ik,kj->ij", a, b)):
        assert ((low <= got) & (got <= high)).all()
    # The bound is 8·√3000 units of Σ|a·b|, half of it on either side.
    size = np.abs(a).astype(float) @ np.abs(b).astype(float)
    assert ((high - low) / size).max() < 2 * 8.01 * 3000**0.5 * 2.0**-24 + 2.0**-23


def test_small_whole_numbers_are_exact_in_float() -> None:
    e = _whole_sum(3)
    assert np.array_equal(e[0], e[1])
    assert not np.array_equal(*_whole_sum(30_000))


def _whole_sum(top: int) -> tuple[Any, Any]:
    g = Graph(io_data_type="float", compute_data_type="float")
    ta, tb = g.tensor(dims=(4, 64)), g.tensor(dims=(64, 4))
    c = g.matmul(ta, tb).set_output()
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-top, top, s).astype(np.float32) for s in ((4, 64), (64, 4)))
    e = expect(g.freeze(), {ta.uid: a, tb.uid: b})
    return e.low[c.uid], e.high[c.uid]


def _allowed(kind: str, a: Any, b: Any, target: str) -> tuple[Any, Any]:
    g = Graph(io_data_type=kind, compute_data_type="float")
    ta, tb = g.tensor(dims=a.shape), g.tensor(dims=b.shape)
    c = g.matmul(ta, tb).set_output().set_data_type("float")
    e = expect(g.freeze(), {ta.uid: a, tb.uid: b}, Target.parse(target))
    return e.low[c.uid], e.high[c.uid]


@pytest.mark.parametrize(
    ("kind", "tiny", "large"), [("half", 2.0**-20, 1024.0), ("bfloat16", 2.0**-130, 2.0**120)]
)
def test_mi200_may_take_subnormal_factors_for_zero(kind: str, tiny: float, large: float) -> None:
    dtype = np.float16 if kind == "half" else ml_dtypes.bfloat16
    a = np.array([[tiny, 1.0]], dtype=dtype)
    b = np.array([[large, 1.0], [3.0, 1.0]], dtype=dtype)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    flushed = np.array([[3.0, 1.0]])
    for target in ("gfx90a", "gfx942", "cpu"):
        low, high = _allowed(kind, a, b, target)
        assert ((low <= exact) & (exact <= high)).all()
        within = (low <= flushed) & (flushed <= high)
        # Subnormal bfloat16 may be read as 0 everywhere, halves nowhere else.
        assert within.all() == (target == "gfx90a" or kind == "bfloat16")
    # What is no subnormal number is bounded as on the others.
    normal = np.array([[0.25, 1.0]], dtype=dtype)
    for ends in zip(*(_allowed(kind, normal, b, t) for t in ("gfx90a", "gfx942")), strict=True):
        assert np.allclose(*ends, rtol=1e-6, atol=0)


def test_floats_are_not_flushed_in_products() -> None:
    a, b = np.array([[2.0**-20]], np.float32), np.array([[1024.0]], np.float32)
    low, high = _allowed("float", a, b, "gfx90a")
    assert low[0, 0] > 0.9 * 2.0**-10
    assert high[0, 0] < 1.1 * 2.0**-10


def test_mi200_may_take_small_weights_of_attention_for_zero() -> None:
    """exp(-11) is a subnormal half: the second key's value may have no weight."""
    g = Graph(io_data_type="half", compute_data_type="float", intermediate_data_type="float")
    q, k, v = (g.tensor(dims=d) for d in ((1, 1, 1, 8), (1, 1, 2, 8), (1, 1, 2, 8)))
    o = g.sdpa(q, k, v, attn_scale_value=1.0).o
    o.set_output().set_data_type("float")
    keys = np.zeros((1, 1, 2, 8), np.float16)
    keys[0, 0, 1, 0] = -11.0
    values = np.zeros((1, 1, 2, 8), np.float16)
    values[0, 0, 1] = 1000.0
    ones = np.ones((1, 1, 1, 8), np.float16)
    given = {q.uid: ones, k.uid: keys, v.uid: values}
    weight = math.exp(-11) / (1 + math.exp(-11))
    for target, may in (("gfx90a", True), ("gfx942", False)):
        e = expect(g.freeze(), given, Target.parse(target))
        assert (e.low[o.uid] <= 1000 * weight).all()
        assert (e.high[o.uid] >= 1000 * weight).all()
        assert (e.low[o.uid] <= 0).all() == may


def started_from_bias(products: Any, bias: np.float32) -> float:
    """Return the sum of float32 products, whose accumulator is the bias at first."""
    total = bias
    for product in products:
        total = np.float32(total + product)
    return float(total)


@pytest.mark.parametrize("twice", [False, True], ids=["one bias", "two"])
@pytest.mark.parametrize("bias_first", [False, True])
def test_a_sum_of_products_may_start_from_what_is_added_to_it(
    twice: bool, bias_first: bool
) -> None:
    """As MLIR makes it of ``vector.contract`` and ``addf``; seen in a drawn graph for gfx942."""
    g = Graph(io_data_type="float", intermediate_data_type="float", compute_data_type="float")
    a, b, c = g.tensor(dims=[1, 31]), g.tensor(dims=[31, 1]), g.tensor(dims=[1, 1])
    y = g.matmul(a, b)
    for _ in range(1 + twice):
        y = g.add(c, y) if bias_first else g.add(y, c)
    y.set_output()
    x = w = np.full(31, 6e-3, np.float32)  # products of 0.6 of a unit in the bias's last place
    bias = np.float32(1000.1)
    first = np.float32(bias * 2) if twice else bias
    inputs = {a.uid: x[None], b.uid: w[:, None], c.uid: np.full((1, 1), bias)}
    found = expect(g.freeze(), inputs)
    low, high = (float(ends[y.uid].item()) for ends in (found.low, found.high))
    right = float(np.dot(x.astype(np.float64), w)) + float(bias) * (1 + twice)
    joined = started_from_bias(x * w, first)
    assert abs(joined - right) > 5 * np.spacing(first), "one rounding does not explain it"
    assert low <= joined <= high
    assert high - low < 80 * np.spacing(first)


def test_only_an_addition_joins_a_sum_of_products() -> None:
    """What lies between them, or another mode, leaves the sum as it is."""
    for mode in ("relu", "sub"):
        g = Graph(io_data_type="float", intermediate_data_type="float", compute_data_type="float")
        a, b, c = g.tensor(dims=[1, 31]), g.tensor(dims=[31, 1]), g.tensor(dims=[1, 1])
        y = g.matmul(a, b)
        y = (g.add(g.relu(y), c) if mode == "relu" else g.sub(y, c)).set_output()
        tiny = np.full(31, 1e-3, np.float32)
        inputs = {a.uid: tiny[None], b.uid: tiny[:, None], c.uid: np.full((1, 1), 1000.1, "f4")}
        found = expect(g.freeze(), inputs)
        width = float((found.high[y.uid] - found.low[y.uid]).item())
        assert width <= 2 * np.spacing(np.float32(1000.1)), mode
