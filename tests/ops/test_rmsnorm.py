# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Normalisation by the root mean square: long rows, JSON, the form for gfx9."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import GraphError
from hipdnn_iree.graph_api.ops.rmsnorm import RmsnormResult
from hipdnn_iree.provider.reference import expect

Run = Callable[..., Any]


def norm(
    dims: tuple[int, ...], scale: tuple[int, ...], data_type: str = "half", **options: Any
) -> tuple[Graph, Any, RmsnormResult]:
    g = Graph(io_data_type=data_type, compute_data_type="float")
    x, s = g.tensor(dims=dims), g.tensor(dims=scale)
    results = g.rmsnorm(x, s, **options)
    results.y.set_output()
    if results.inv_rms is not None:
        results.inv_rms.set_output().set_data_type("float")
    return g, (x, s), results


def test_rows_of_65536_halves(run: Run) -> None:
    # Σx² of these is 2.6e8, far beyond what half precision holds.
    rng = np.random.default_rng(0)
    g, (x, s), _ = norm((2, 65536), (65536,), forward_phase="training")
    a = (64 * rng.standard_normal((2, 65536))).astype(np.float16)
    y, inv = run(g, {x: a, s: np.ones(65536, np.float16)})
    wide = a.astype(np.float64)
    rms = np.sqrt(np.square(wide).mean(1, keepdims=True) + 1e-5)
    assert np.abs(y - wide / rms).max() < 3e-3
    assert np.abs(inv * rms - 1).max() < 1e-5


def test_a_sum_that_the_compute_type_cannot_hold_is_not_bounded() -> None:
    """Of computed values: those of inputs are chosen so that it holds them."""
    g = Graph(io_data_type="half", compute_data_type="half")
    x = g.tensor(dims=(2, 4))
    row = g.mul(x, g.scalar(200.0))
    y = g.rmsnorm(row, g.tensor(dims=(1, 4)), epsilon=1e-5).y.set_output()
    frozen = g.freeze()
    values = np.array([[1, -1, 0.25, 1], [0.5, -0.5, 0.25, 0.5]], np.float16)
    found = expect(frozen, {x.uid: values, frozen.inputs[1]: np.ones((1, 4), np.float16)})
    assert (4e4 * values.astype(float) ** 2).sum(1).tolist() == [122500, 32500]
    assert np.isinf(found.high[y.uid][0]).all()
    assert (found.high[y.uid][1] - found.low[y.uid][1] < 0.1).all()


def test_the_squares_are_those_of_the_compute_type(torch_ir: Run) -> None:
    g, _, _ = norm((4, 64), (64,), "bfloat16")
    computed = [
        line
        for line in torch_ir(g, "gfx942").splitlines()
        if "aten.mul" in line or "aten.sum" in line
    ]
    assert computed
    assert all(line.endswith("f32>") for line in computed)


def test_gfx9_gets_rows_of_whole_wavefronts(torch_ir: Run) -> None:
    assert "[15,128],f32" in torch_ir(norm((3, 5, 100), (100,))[0], "gfx942")
    assert "128]" not in torch_ir(norm((3, 5, 100), (100,))[0], "cpu")


def test_json_has_the_phase_as_text_and_leaves_out_what_is_absent() -> None:
    g, _, _ = norm((4, 6), (6,))
    (node,) = json.loads(g.to_json())["nodes"]
    assert node["type"] == "RMSNormAttributes"
    assert node["forward_phase"] == "INFERENCE"
    assert "bias_tensor_uid" not in node["inputs"]
    assert "inv_rms_tensor_uid" not in node["outputs"]
    training, _, _ = norm((4, 6), (6,), forward_phase="training")
    data = json.loads(training.to_json())
    assert data["nodes"][0]["forward_phase"] == "TRAINING"
    del data["nodes"][0]["forward_phase"]  # as older files do; the outputs tell
    assert Graph.from_json(json.dumps(data)).digest == training.digest


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(
    ("rule", "port", "options"),
    [
        ("ROWNORM-01", "compute_data_type", {"compute_data_type": "int32", "epsilon": 1}),
        ("ROWNORM-02", "scale", {"scale": (1,)}),
        ("ROWNORM-03", "scale", {"scale": (4, 5)}),
        ("ROWNORM-05", "epsilon", {"epsilon": -1.0}),
    ],
)
def test_mistakes_are_told(rule: str, port: str, options: dict[str, Any]) -> None:
    g, _, _ = norm((4, 6), options.pop("scale", (6,)), **options)
    with pytest.raises(GraphError) as caught:
        g.freeze()
    assert (rule, port) in {(p.rule, p.port) for p in caught.value.problems}
