# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch normalisation with given statistics: mixed types, one kernel, faults, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.reference import expect, to_dtype
from under_settings import dump

PORTS = ("mean", "inv_variance", "scale", "bias")
DIMS = (3, 5, 6, 4)


def inference(kind: str = "half", **types: str) -> tuple[Graph, Any]:
    """What hipDNN sends: half data, float32 parameters (unless types say otherwise)."""
    g = Graph(io_data_type=kind, intermediate_data_type="float", compute_data_type="float")
    x = g.tensor(dims=DIMS, strides=(120, 24, 4, 1), name="x")
    given = [g.tensor(dims=(1, 5, 1, 1), name=p, data_type=types.get(p, "float")) for p in PORTS]
    return g, g.batchnorm_inference(x, *given, name="bn").set_output()


def test_as_hipdnn_sends_it(check: Callable[..., Any]) -> None:
    g, _ = inference()
    check(g.freeze())
    text = g.to_json()
    node = json.loads(text)["nodes"][0]
    assert node["type"] == "BatchnormInferenceAttributes"
    assert set(node["inputs"]) == {f"{p}_tensor_uid" for p in ("x", *PORTS)}
    assert Graph.from_json(text).freeze() == g.freeze()


@pytest.mark.parametrize(
    "types",
    [
        {"mean": "half", "scale": "bfloat16", "bias": "double"},
        {"mean": "double", "inv_variance": "half"},
    ],
)
@pytest.mark.parametrize("kind", ["half", "bfloat16"])
def test_every_tensor_has_a_type_of_its_own(
    kind: str, types: dict[str, str], check: Callable[..., Any]
) -> None:
    check(inference(kind, **types)[0].freeze())


@pytest.mark.parametrize("target", ["cpu", "gfx90a", "gfx942"])
def test_one_dispatch_with_the_relu(target: str, tmp_path: Path) -> None:
    g, y = inference()
    y.virtual = True
    g.relu(y).set_output()
    statistics = dump(g.freeze(), Target.parse(target), tmp_path).statistics
    assert statistics["dispatches"] == 1


FAULTS: dict[str, Callable[..., Any]] = {
    "": lambda x, m, i, s, b: (x - m) * i * s + b,
    "inv_variance as variance": lambda x, m, i, s, b: (x - m) / np.sqrt(i + 1e-5) * s + b,
    "no mean": lambda x, m, i, s, b: x * i * s + b,
    "bias first": lambda x, m, i, s, b: (x - m + b) * i * s,
    "the next channel's scale": lambda x, m, i, s, b: (x - m) * i * np.roll(s, 1, 1) + b,
    "mean in half": lambda x, m, i, s, b: (x - m.astype(np.float16)) * i * s + b,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_results_are_caught(fault: str) -> None:
    g, y = inference("float")
    frozen = g.freeze()
    inputs = verify.random_inputs(frozen, seed=8)
    ports = frozen.nodes[0].inputs
    result = FAULTS[fault](*(inputs[ports[p]].astype(np.float64) for p in ("x", *PORTS)))
    found = {y.uid: to_dtype(result, frozen.spec(y.uid).data_type)}
    assert verify.compare(frozen, found, expect(frozen, inputs)).ok is (not fault)


@pytest.mark.usefixtures("collected")
def test_mistakes() -> None:
    g = Graph(io_data_type="float")
    x, p, wrong = (g.tensor(dims=d) for d in ((2, 3, 4), (1, 3, 1), (3,)))
    g.batchnorm_inference(x, p, wrong, p, p, name="bn").set_output()
    assert [(q.rule, q.node, q.port) for q in g.problems()] == [("BN-02", "bn", "inv_variance")]
