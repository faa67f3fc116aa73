# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch normalisation with given variance: epsilon, faults, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.reference import expect, to_dtype

PORTS = ("mean", "variance", "scale", "bias")


def inference(kind: str, epsilon: Any = 1e-2) -> tuple[Graph, Any]:
    g = Graph(io_data_type=kind, compute_data_type="float")
    x = g.tensor(dims=(3, 5, 6, 4), name="x")
    mean, variance, scale, bias = (
        g.tensor(dims=(1, 5, 1, 1), name=p, data_type="float") for p in PORTS
    )
    y = g.batchnorm_inference_variance_ext(x, mean, variance, scale, bias, epsilon, name="bn")
    return g, y.set_output()


FAULTS: dict[str, Callable[..., Any]] = {
    "": lambda x, m, v, s, b: (x - m) / np.sqrt(v + 1e-2) * s + b,
    "no epsilon": lambda x, m, v, s, b: (x - m) / np.sqrt(v) * s + b,
    "epsilon beside the root": lambda x, m, v, s, b: (x - m) / (np.sqrt(v) + 1e-2) * s + b,
    "no root": lambda x, m, v, s, b: (x - m) / (v + 1e-2) * s + b,
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", ["float", "half"])
def test_wrong_results_are_caught(fault: str, kind: str) -> None:
    g, y = inference(kind)
    frozen = g.freeze()
    inputs = verify.random_inputs(frozen, seed=9)
    ports = frozen.nodes[0].inputs
    result = FAULTS[fault](*(inputs[ports[p]].astype(np.float64) for p in ("x", *PORTS)))
    found = {y.uid: to_dtype(result, frozen.spec(y.uid).data_type)}
    assert verify.compare(frozen, found, expect(frozen, inputs)).ok is (not fault)


@pytest.mark.usefixtures("collected")
def test_mistakes_and_json() -> None:
    g, _ = inference("float", epsilon=-1.0)
    assert [(p.rule, p.node, p.port) for p in g.problems()] == [("BN-04", "bn", "epsilon")]
    g, _ = inference("half")
    text = g.to_json()
    node = json.loads(text)["nodes"][0]
    assert node["type"] == "BatchnormInferenceAttributesVarianceExt"
    assert set(node["inputs"]) == {f"{p}_tensor_uid" for p in ("x", *PORTS, "epsilon")}
    assert Graph.from_json(text).freeze() == g.freeze()


def test_a_variance_of_0_is_finite(run: Callable[..., Any]) -> None:
    g = Graph(io_data_type="float")
    x, zero, one = g.tensor(dims=(2, 1)), g.tensor(dims=(1, 1)), g.tensor(dims=(1, 1))
    g.batchnorm_inference_variance_ext(x, zero, zero, one, zero, 0.25).set_output()
    given = {x: np.ones((2, 1)), zero: np.zeros((1, 1)), one: np.ones((1, 1))}
    (y,) = run(g, {t: a.astype(np.float32) for t, a in given.items()})
    assert y.tolist() == [[2.0], [2.0]]
