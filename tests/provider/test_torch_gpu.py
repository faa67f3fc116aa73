# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch on a GPU, which timings are held against; what executes needs an NVIDIA GPU."""

from __future__ import annotations

from typing import Any

import pytest
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.errors import NotSupportedError
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.provider.sweep.contestants import contestant
from hipdnn_iree.provider.sweep.measuring import results_of, right
from hipdnn_iree.provider.verify import compare, expect, poisoned_outputs, random_inputs

torch = pytest.importorskip("torch")
CUDA = Target.parse("cuda:sm_80")


def graph_of(dtype: str) -> FrozenGraph:
    graph = Graph(io_data_type=dtype, intermediate_data_type="float", compute_data_type="float")
    x, w, b = (graph.tensor(dims=dims) for dims in ((64, 96), (96, 32), (1, 32)))
    y = graph.relu(graph.add(graph.matmul(x, w), b))
    graph.output(graph.mul(y, 0.5))
    return graph.freeze()


def build(graph: FrozenGraph) -> Any:
    return contestant("torch", settings()).build(graph, CUDA, settings())


def test_a_gpu_that_pytorch_does_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(NotSupportedError, match="TORCH-GPU-01"):
        build(graph_of("half"))


def test_what_pytorch_does_not_serve_is_no_matter_of_gpus() -> None:
    graph = Graph(io_data_type="fp8_e4m3", compute_data_type="float")
    graph.output(graph.relu(graph.tensor(dims=(3, 5))))
    with pytest.raises(NotSupportedError, match="TORCH-ENG-04"):
        build(graph.freeze())


def test_sizes_have_to_be_known() -> None:
    graph = Graph(io_data_type="half", compute_data_type="float")
    graph.output(graph.relu(graph.tensor(dims=(graph.dynamic("n", example=3), 5))))
    with pytest.raises(NotSupportedError, match="TORCH-GPU-02"):
        build(graph.freeze())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that PyTorch sees")
@pytest.mark.parametrize("dtype", ["half", "bfloat16", "float"])
def test_results_and_repeated_calls(dtype: str) -> None:
    graph = graph_of(dtype)
    plan = build(graph)
    inputs, outputs = random_inputs(graph, seed=5), poisoned_outputs(graph)
    call = contestant("torch", settings()).call(plan, {**inputs, **outputs})
    found = results_of(graph, call, outputs)
    report = compare(graph, found, expect(graph, inputs))
    assert right(graph, report, contestant("torch", settings())), str(report)
    repeated = call.repeated  # type: ignore[attr-defined]
    for what in (repeated.run, repeated.cold, repeated.flush):
        what(3)
