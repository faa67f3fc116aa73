# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of batch normalisation: the reference against differences, faults, rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.ops.batchnorm_backward import DEFAULT_EPSILON
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.reference import execute, expect, to_dtype

Arrays = dict[str, np.ndarray[Any, Any]]
DIMS = (3, 2, 2, 3)
OVER = (0, 2, 3)


def per_channel(g: Graph, name: str, dims: tuple[int, ...] = DIMS) -> Any:
    return g.tensor(dims=(1, dims[1], *(1 for _ in dims[2:])), name=name)


def forward(values: Arrays) -> Arrays:
    """The float64 reference of the forward op: y, mean, inv_variance."""
    g = Graph(io_data_type="double", compute_data_type="double")
    inputs = {"x": g.tensor(dims=DIMS), "scale": per_channel(g, "s"), "bias": per_channel(g, "b")}
    # Python's number, not float32's nearest: what the backward op uses.
    r = g.batchnorm(**inputs, epsilon=DEFAULT_EPSILON)
    for tensor in (r.y, r.mean, r.inv_variance):
        tensor.set_output()
    found = execute(g.freeze(), {t.uid: values[p] for p, t in inputs.items()})
    return {p: found[getattr(r, p).uid] for p in ("y", "mean", "inv_variance")}


def backward(values: Arrays, saved: bool) -> Arrays:
    """The float64 reference of the gradients."""
    g = Graph(io_data_type="double", compute_data_type="double")
    inputs = {"dy": g.tensor(dims=DIMS), "x": g.tensor(dims=DIMS), "scale": per_channel(g, "s")}
    if saved:
        inputs |= {p: per_channel(g, p) for p in ("mean", "inv_variance")}
    r = g.batchnorm_backward(**inputs)
    for tensor in r:
        tensor.set_output()
    found = execute(g.freeze(), {t.uid: values[p] for p, t in inputs.items()})
    return {p: found[t.uid] for p, t in r._asdict().items()}


@pytest.mark.parametrize("saved", [False, True])
def test_the_reference_is_the_derivative_of_the_forward_reference(
    saved: bool, slopes: Callable[..., Any]
) -> None:
    rng = np.random.default_rng(5)
    values = {p: rng.standard_normal(DIMS) for p in ("x", "dy")}
    values |= {p: rng.standard_normal((1, 2, 1, 1)) for p in ("scale", "bias")}
    found = backward(values | forward(values), saved)
    for port, gradient in (("x", "dx"), ("scale", "dscale"), ("bias", "dbias")):

        def result(at: Any, port: str = port) -> Any:
            return forward(values | {port: at})["y"]

        expected = slopes(result, values[port], values["dy"])
        assert found[gradient] == pytest.approx(expected, rel=1e-7, abs=1e-8)


def gradients(kind: str, dims: tuple[int, ...], saved: bool) -> tuple[Graph, Any]:
    g = Graph(io_data_type=kind, compute_data_type="float")
    dy, x = g.tensor(dims=dims, name="dy"), g.tensor(dims=dims, name="x")
    given = {p: per_channel(g, p, dims) for p in ("mean", "inv_variance")} if saved else {}
    r = g.batchnorm_backward(dy, x, per_channel(g, "scale", dims), **given)
    for tensor in r:
        tensor.set_output()
    return g, r


def closed_form(v: Arrays, fault: str) -> Arrays:
    """The gradients by hipDNN's formula, with a mistake."""
    x, dy = v["x"], v["dy"]
    n = x.size // x.shape[1]
    mean = v.get("mean", x.mean(OVER, keepdims=True))
    epsilon = 0 if fault == "no epsilon" else DEFAULT_EPSILON
    ddof = 1 if fault == "unbiased variance" else 0
    inverse = v.get("inv_variance", 1 / np.sqrt(x.var(OVER, keepdims=True, ddof=ddof) + epsilon))
    z = (x - mean) * inverse
    dbias, dscale = dy.sum(OVER, keepdims=True), (dy * z).sum(OVER, keepdims=True)
    if fault == "sums in half":
        steps = np.moveaxis(dy, 1, 0).reshape(x.shape[1], -1).astype(np.float16)
        total = np.zeros(x.shape[1], np.float16)
        for column in steps.T:
            total += column
        dbias = total.astype(np.float64).reshape(dbias.shape)
    average = 0 if fault == "no average of dy" else dbias / n
    along = 0 if fault == "no average of dy * z" else z * dscale / n
    scale = 1.0 if fault == "no scale" else v["scale"]
    return {"dx": scale * inverse * (dy - average - along), "dscale": dscale, "dbias": dbias}


FAULTS = (
    "",
    "no average of dy",
    "no average of dy * z",
    "no scale",
    "sums in half",
    "unbiased variance",
)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", ["float", "half"])
@pytest.mark.parametrize("saved", [False, True])
def test_wrong_results_are_caught(fault: str, kind: str, saved: bool) -> None:
    if saved and fault == "unbiased variance":
        return  # not computed then
    g, r = gradients(kind, (4, 3, 7, 5), saved)
    frozen = g.freeze()
    inputs = verify.random_inputs(frozen, seed=6)
    v = {p: inputs[u].astype(np.float64) for p, u in frozen.nodes[0].inputs.items()}
    results = closed_form(v, fault)
    found = {
        t.uid: to_dtype(results[p], frozen.spec(t.uid).data_type) for p, t in r._asdict().items()
    }
    assert verify.compare(frozen, found, expect(frozen, inputs)).ok is (not fault)


@pytest.mark.parametrize("small", [1e-3])
def test_the_default_epsilon_shows_where_the_variance_is_small(
    small: float, run: Callable[..., Any]
) -> None:
    g = Graph(io_data_type="float")
    x, dy, scale = g.tensor(dims=(8, 1)), g.tensor(dims=(8, 1)), g.tensor(dims=(1, 1))
    for tensor in g.batchnorm_backward(dy, x, scale):
        tensor.set_output()
    rng = np.random.default_rng(7)
    values = {
        x: (small * rng.standard_normal((8, 1))).astype(np.float32),
        dy: rng.standard_normal((8, 1)).astype(np.float32),
        scale: np.ones((1, 1), np.float32),
    }
    wide = values[x].astype(np.float64)
    inverse = (wide.var() + 1e-5) ** -0.5
    found = run(g, values)[1]
    assert found == pytest.approx((values[dy] * (wide - wide.mean()) * inverse).sum(), rel=1e-4)


MISTAKES: list[tuple[str, str, Callable[[Graph, Any, Any, Any], Any]]] = [
    ("BN-08", "inv_variance", lambda g, dy, x, s: g.batchnorm_backward(dy, x, s, mean=s, name="b")),
    ("BN-08", "mean", lambda g, dy, x, s: g.batchnorm_backward(dy, x, s, inv_variance=s, name="b")),
    ("BN-09", "dy", lambda g, dy, x, s: g.batchnorm_backward(s, x, s, name="b")),
    ("BN-02", "scale", lambda g, dy, x, s: g.batchnorm_backward(dy, x, x, name="b")),
]


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(("rule", "port", "build"), MISTAKES)
def test_mistakes(rule: str, port: str, build: Callable[[Graph, Any, Any, Any], Any]) -> None:
    g = Graph(io_data_type="float")
    dy, x, scale = (g.tensor(dims=d) for d in (DIMS, DIMS, (1, 2, 1, 1)))
    build(g, dy, x, scale).dx.set_output()
    assert [(p.rule, p.node, p.port) for p in g.problems()] == [(rule, "b", port)]


@pytest.mark.parametrize("saved", [False, True])
def test_json(saved: bool) -> None:
    g, _ = gradients("half", DIMS, saved)
    text = g.to_json()
    node = json.loads(text)["nodes"][0]
    assert node["type"] == "BatchnormBackwardAttributes"
    assert node["inputs"]["peer_stats_tensor_uid"] == []
    assert (node["inputs"]["mean_tensor_uid"] is not None) is saved
    assert Graph.from_json(text).freeze() == g.freeze()
