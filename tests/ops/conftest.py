# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the op tests share: running a problem on the CPU, checked against the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from here_and_now import engine
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.reference import expect

CPU = Target.parse("cpu")
Array = np.ndarray[Any, Any]


def _check(frozen: FrozenGraph, seed: int = 1) -> verify.Report:
    """Run a graph on random data with poisoned outputs; every element must be as expected."""
    iree = engine("iree")
    assert not iree.declines(frozen, CPU)
    plan = iree.build(frozen, CPU)
    inputs = verify.random_inputs(frozen, seed=seed)
    outputs = verify.poisoned_outputs(frozen)
    plan.execute({**inputs, **outputs})
    report = verify.compare(frozen, outputs, expect(frozen, inputs))
    assert report.ok, f"{frozen.name}: {report}"
    return report


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave what is wrong for ``problems`` and ``freeze``, as for a graph from a file."""
    monkeypatch.setattr(Graph, "checks_calls", False)


@pytest.fixture(scope="session")
def check() -> Callable[..., verify.Report]:
    """Return the function that runs a frozen graph on the CPU and checks every element."""
    return _check


@pytest.fixture(scope="session")
def run() -> Callable[..., list[np.ndarray[Any, Any]]]:
    """Return the function that runs a graph on given inputs and returns outputs in order made."""

    def run(graph: Graph, inputs: dict[Any, Any]) -> list[np.ndarray[Any, Any]]:
        plan = graph.build("cpu")
        results = plan.run(inputs)
        return [results[t.uid] for t in graph.tensors if t.uid in results]

    return run


@pytest.fixture(scope="session")
def slopes() -> Callable[..., Array]:
    """Return the function that differentiates by central differences, element by element.

    ``slopes(result, at, weights, step)`` is the gradient of Σ ``weights · result(at)``.
    """

    def slopes(
        result: Callable[[Array], Array], at: Array, weights: Array, step: float = 1e-5
    ) -> Array:
        found = np.empty_like(at)
        for place in np.ndindex(*at.shape):
            moved = np.zeros_like(at)
            moved[place] = step
            found[place] = ((result(at + moved) - result(at - moved)) * weights).sum() / (2 * step)
        return found

    return slopes


@pytest.fixture(scope="session")
def torch_ir() -> Callable[..., str]:
    """Return the function that lowers a graph to Torch-dialect text, without locations."""
    from hipdnn_iree.jit.code_plan import plan_code
    from hipdnn_iree.jit.lowering.module import lower_graph

    def lower(graph: Graph, target: str = "cpu", *strategies: str) -> str:
        frozen, where = graph.freeze(), Target.parse(target)
        text = lower_graph(frozen, where, plan_code(frozen, where, strategies))
        return "\n".join(line.partition(" loc(")[0] for line in text.splitlines())

    return lower
