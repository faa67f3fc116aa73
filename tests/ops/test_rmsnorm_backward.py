# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of the root-mean-square normalisation: the reference against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import GraphError
from hipdnn_iree.provider.reference import execute

Dims = tuple[int, ...]


def forward(dims: Dims, scale: Dims, values: list[Any]) -> Any:
    g = Graph(io_data_type="double", compute_data_type="double")
    x, s, b = (g.tensor(dims=d) for d in (dims, scale, scale))
    y = g.rmsnorm(x, s, bias=b, epsilon=0.01).y.set_output()
    frozen = g.freeze()
    return execute(frozen, {t.uid: v for t, v in zip((x, s, b), values, strict=True)})[y.uid]


@pytest.mark.parametrize(
    ("dims", "scale"), [((3, 5), (5,)), ((2, 3, 4), (1, 3, 4)), ((2, 3, 4), (3, 1))]
)
def test_the_reference_is_the_derivative(
    dims: Dims, scale: Dims, slopes: Callable[..., Any]
) -> None:
    rng = np.random.default_rng(2)
    x, dy = rng.standard_normal(dims), rng.standard_normal(dims)
    s, bias = rng.standard_normal(scale), rng.standard_normal(scale)
    g = Graph(io_data_type="double", compute_data_type="double")
    tx, ts, tdy = (g.tensor(dims=d) for d in (dims, scale, dims))
    _, inv = g.rmsnorm(tx, ts, epsilon=0.01, forward_phase="training")
    assert inv is not None
    results = g.rmsnorm_backward(tdy, tx, ts, inv, has_dbias=True)
    for t in results:
        assert t is not None
        t.set_output()
    frozen = g.freeze()
    arrays = {tx.uid: x, ts.uid: s, tdy.uid: dy}
    found = execute(frozen, {u: arrays[u] for u in frozen.inputs})
    for k, t in enumerate(results):
        assert t is not None

        def result(at: Any, k: int = k) -> Any:
            moved = [x, s, bias]
            moved[k] = at
            return forward(dims, scale, moved)

        numeric = slopes(result, (x, s, bias)[k], dy)
        assert np.abs(found[t.uid] - numeric).max() < 1e-7


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(
    ("rule", "port", "dy", "inv"),
    [("ROWNORM-04", "inv_rms", (4, 6), (4, 6)), ("ROWNORM-07", "dy", (4, 5), (4, 1))],
)
def test_mistakes_are_told(rule: str, port: str, dy: Dims, inv: Dims) -> None:
    g = Graph(io_data_type="float")
    x, s = g.tensor(dims=(4, 6)), g.tensor(dims=(6,))
    g.rmsnorm_backward(g.tensor(dims=dy), x, s, g.tensor(dims=inv)).dx.set_output()
    with pytest.raises(GraphError) as caught:
        g.freeze()
    assert (rule, port) in {(p.rule, p.port) for p in caught.value.problems}


@pytest.mark.parametrize("port", ["dy", "x"])
def test_a_repeated_operand(port: str, check: Callable[..., object]) -> None:
    # As the gradient of a sum over the batch is; without a copy the CPU code does not compile.
    dims, thin = (7, 2, 13, 9), (0, 117, 9, 1)
    g = Graph(io_data_type="float")
    dy = g.tensor(dims=dims, strides=thin if port == "dy" else None)
    x = g.tensor(dims=dims, strides=thin if port == "x" else None)
    scale, inverse = g.tensor(dims=(1, 1, 1, 9)), g.tensor(dims=(7, 2, 13, 1))
    found = g.rmsnorm_backward(dy, x, scale, inverse)
    found.dx.set_output()
    found.dscale.set_output()
    if port == "dy":
        for gradient in g.layernorm_backward(dy, x, scale, epsilon=1e-5):
            gradient.set_output()
    check(g.freeze())
