# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bounds of large problems: never below the exact ones, close to them, and exact in a sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.provider.reference import expect, to_dtype
from hipdnn_iree.provider.reference.convert import widen
from hipdnn_iree.provider.reference.thrift import grouped_features, norm, sampled_features
from hipdnn_iree.provider.verify import compare, random_inputs

Make = Callable[[Graph], Any]


def product(g: Graph) -> Any:
    return g.matmul(g.tensor(dims=(3, 35, 17)), g.tensor(dims=(3, 17, 261)))


def repeated(g: Graph) -> Any:
    return g.matmul(g.tensor(dims=(2, 6, 5, 9)), g.tensor(dims=(2, 2, 9, 41)))


def convolution(g: Graph) -> Any:
    x, w = g.tensor(dims=(2, 6, 9, 8)), g.tensor(dims=(40, 3, 3, 2))
    return g.conv_fprop(x, w, padding=[2, 1], stride=[2, 1], dilation=[1, 2])


def data_gradient(g: Graph) -> Any:
    dy, w = g.tensor(dims=(2, 8, 5, 7)), g.tensor(dims=(8, 21, 3, 3))
    return g.conv_dgrad(dy, w, dx_dims=(2, 42, 9, 13), padding=1, stride=2)


def weight_gradient(g: Graph) -> Any:
    dy, x = g.tensor(dims=(2, 38, 9, 7)), g.tensor(dims=(2, 6, 9, 7))
    return g.conv_wgrad(dy, x, dw_dims=(38, 3, 3, 3), padding=1)


def attention(g: Graph) -> Any:
    q, k, v = (g.tensor(dims=(2, 4, rows, 16)) for rows in (33, 47, 47))
    return g.sdpa(q, k, v, generate_stats=True)


def masked(g: Graph) -> Any:
    q = g.tensor(dims=(2, 4, 19, 8))
    k, v = g.tensor(dims=(2, 2, 23, 8)), g.tensor(dims=(2, 2, 23, 5))
    return g.sdpa(q, k, v, attn_mask=g.tensor(dims=(2, 1, 19, 23)), right_bound=2)


def chain(g: Graph) -> Any:
    h = g.relu(g.matmul(g.tensor(dims=(9, 14)), g.tensor(dims=(14, 70))))
    return g.matmul(h, g.tensor(dims=(70, 66)))


def scores(g: Graph) -> Any:
    h = g.matmul(g.tensor(dims=(1, 2, 9, 14)), g.tensor(dims=(1, 2, 14, 8)))
    return g.sdpa(h, g.tensor(dims=(1, 2, 12, 8)), h2(g, (1, 2, 12, 8)))


def h2(g: Graph, dims: tuple[int, ...]) -> Any:
    return g.mul(g.tensor(dims=dims), g.tensor(dims=dims))


# What is made, and how much larger than the exact bound the other one is at most, in the median.
MADE: dict[str, tuple[Make, float]] = {
    "product": (product, 1.6),
    "repeated": (repeated, 1.6),
    "convolution": (convolution, 1.6),
    "data gradient": (data_gradient, 2.2),
    "weight gradient": (weight_gradient, 1.8),
    "attention": (attention, 3.0),
    "masked": (masked, 3.0),
    "chain": (chain, 2.4),
    "scores": (scores, 3.0),
}


@pytest.mark.parametrize("kind", ["float", "half", "int8"])
@pytest.mark.parametrize("name", MADE)
def test_bounds_of_large_problems(name: str, kind: str) -> None:
    make, most = MADE[name]
    if kind == "int8" and name in ("attention", "masked", "chain", "scores"):
        return
    g = Graph(io_data_type=kind, compute_data_type="int32" if kind == "int8" else "float")
    results = make(g)
    for result in results if isinstance(results, tuple) else (results,):
        if result is not None:
            result.set_output().set_data_type("int32" if kind == "int8" else "float")
    frozen = g.freeze()
    inputs = random_inputs(frozen, seed=3)
    tight, loose = (expect(frozen, inputs, thrifty=each) for each in (False, True))
    for uid in frozen.outputs:
        np.testing.assert_array_equal(tight.values[uid], loose.values[uid])
        assert (loose.low[uid] <= tight.low[uid]).all()
        assert (loose.high[uid] >= tight.high[uid]).all()
        widths = [(e.high[uid] - e.low[uid]).astype(np.float64) for e in (tight, loose)]
        some = widths[0] > 0
        if some.any():
            assert np.median(widths[1][some] / widths[0][some]) <= most
        elif name not in ("attention", "masked", "scores"):
            assert not widths[1].any()  # whole numbers are exact either way


def test_a_sample_of_features_is_exact() -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    convolution(g).set_output()
    frozen = g.freeze()
    inputs = random_inputs(frozen, seed=4)
    tight, loose = (expect(frozen, inputs, thrifty=each) for each in (False, True))
    (uid,) = frozen.outputs
    same = (tight.high[uid] == loose.high[uid]).all((0, 2, 3))
    sample = sampled_features(20)
    assert {0, 1, 15, 16, 18, 19} <= set(sample)
    exact = grouped_features(2, 20, sample)
    assert same[exact].all()
    assert not same.all()
    assert sampled_features(1).tolist() == [0]
    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(norm(x, 1), [5, 0], rtol=1e-8)


def test_a_wrong_element_shows_in_either() -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    product(g).set_output()
    frozen = g.freeze()
    inputs = random_inputs(frozen, seed=5)
    loose = expect(frozen, inputs, thrifty=True)
    (uid,) = frozen.outputs
    right = to_dtype(loose.values[uid], frozen.spec(uid).data_type)
    assert compare(frozen, {uid: right}, loose).ok
    wrong = right.copy()
    wrong[2, 34, 200] *= 1 + 2.0**-12
    report = compare(frozen, {uid: wrong}, loose)
    assert not report.ok
    assert report.outputs[0].wrong == 1
    assert widen(wrong, frozen.spec(uid).data_type).shape == right.shape
