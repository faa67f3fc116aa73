# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of the layer normalisation: the reference against finite differences, long rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.reference import execute
from under_settings import flags

Dims = tuple[int, ...]


def forward(dims: Dims, scale: Dims, count: int, values: list[Any]) -> Any:
    g = Graph(io_data_type="double", compute_data_type="double")
    inputs = [g.tensor(dims=d) for d in (dims, scale, scale)]
    y = g.layernorm(*inputs, epsilon=0.01, normalized_dim_count=count).y.set_output()
    frozen = g.freeze()
    return execute(frozen, {t.uid: v for t, v in zip(inputs, values, strict=True)})[y.uid]


@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize(
    ("dims", "scale", "count"),
    [((3, 5), (5,), 0), ((2, 3, 4), (1, 3, 4), 0), ((2, 3, 4), (3, 1), 0), ((2, 3, 4), (4,), 2)],
)
def test_the_reference_is_the_derivative(
    dims: Dims, scale: Dims, count: int, saved: bool, slopes: Callable[..., Any]
) -> None:
    rng = np.random.default_rng(2)
    x, dy = rng.standard_normal(dims), rng.standard_normal(dims)
    s, bias = rng.standard_normal(scale), rng.standard_normal(scale)
    g = Graph(io_data_type="double", compute_data_type="double")
    tx, ts, tb, tdy = (g.tensor(dims=d) for d in (dims, scale, scale, dims))
    more: dict[str, Any] = {"epsilon": 0.01}
    if saved:
        _, mean, inv = g.layernorm(
            tx, ts, tb, epsilon=0.01, forward_phase="training", normalized_dim_count=count
        )
        more = {"mean": mean, "inv_variance": inv}
    results = g.layernorm_backward(tdy, tx, ts, normalized_dim_count=count, **more)
    for t in results:
        t.set_output()
    frozen = g.freeze()
    arrays = {tx.uid: x, ts.uid: s, tb.uid: bias, tdy.uid: dy}
    found = execute(frozen, {u: arrays[u] for u in frozen.inputs})
    for k, t in enumerate(results):

        def result(at: Any, k: int = k) -> Any:
            moved = [x, s, bias]
            moved[k] = at
            return forward(dims, scale, count, moved)

        numeric = slopes(result, (x, s, bias)[k], dy)
        assert np.abs(found[t.uid] - numeric).max() < 1e-7


def test_sums_over_many_halves(run: Callable[..., Any]) -> None:
    # dbias is 4096 ones: in half precision the sum would stop at 2048.
    g = Graph(io_data_type="half", compute_data_type="float")
    dy, x, s = g.tensor(dims=(4096, 8)), g.tensor(dims=(4096, 8)), g.tensor(dims=(8,))
    for t in g.layernorm_backward(dy, x, s, epsilon=1e-5):
        t.set_output()
    a = np.random.default_rng(3).standard_normal((4096, 8)).astype(np.float16)
    dx, dscale, dbias = run(g, {dy: np.ones_like(a), x: a, s: np.ones(8, np.float16)})
    wide = a.astype(np.float64)
    h = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    assert (dbias == 4096).all()
    assert np.abs(dscale - h.sum(0)).max() < 0.1
    assert np.abs(dx).max() < 1e-3  # a constant dy moves nothing


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
def test_everything_is_computed_in_the_compute_type(
    target: str, torch_ir: Callable[..., str]
) -> None:
    g = Graph(io_data_type="bfloat16", compute_data_type="float")
    dy, x, s = g.tensor(dims=(4, 100)), g.tensor(dims=(4, 100)), g.tensor(dims=(100,))
    for t in g.layernorm_backward(dy, x, s, epsilon=1e-5):
        t.set_output()
    lines = [v for v in torch_ir(g, target).splitlines() if "aten.mul" in v or "aten.sum" in v]
    assert lines
    assert all(line.endswith("f32>") for line in lines)


def test_rows_that_are_padded_stay_in_rows_on_gfx9() -> None:
    # Transposed, each is added up by one thread: 210 elements take over a minute to compile.
    def transposed(n: int, target: str, *, saved: bool = False) -> bool:
        g = Graph(io_data_type="half", compute_data_type="float")
        more: dict[str, Any] = {"epsilon": 1e-5}
        if saved:
            more = {port: g.tensor(dims=(3, 1)) for port in ("mean", "inv_variance")}
        dy, x, scale = g.tensor(dims=(3, n)), g.tensor(dims=(3, n)), g.tensor(dims=(n,))
        for result in g.layernorm_backward(dy, x, scale, **more):
            result.set_output()
        found = flags(g.freeze(), Target.parse(target))
        return "--iree-opt-outer-dim-concat=false" not in found

    assert [transposed(n, "gfx942") for n in (64, 65, 128, 210)] == [True, False, True, False]
    assert transposed(210, "cpu")
    assert transposed(210, "gfx942", saved=True)
