# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs with a dynamic dim, and checking them at some sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hipdnn_iree import Graph
from hipdnn_iree.graph_api.dynamic import at_sizes
from hipdnn_iree.graph_api.dynamic_dim import DynamicDim
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.plan import Plan

Build = Callable[[Graph, DynamicDim], Any]


def graph(build: Build, kind: str = "float", example: int = 8) -> Graph:
    g = Graph(build.__name__, io_data_type=kind, compute_data_type="float")
    build(g, g.dynamic("n", range=(1, 4096), example=example))
    return g


def check(plan: Plan, sizes: dict[str, int], seed: int = 1) -> None:
    """Run at some sizes on random data; every element must be as the reference says."""
    at = at_sizes(plan.graph, sizes)
    inputs = verify.random_inputs(at, seed)
    outputs = verify.poisoned_outputs(at)
    plan.execute({**inputs, **outputs})
    report = verify.compare(at, outputs, verify.expect(at, inputs))
    assert report.ok, f"{sizes}: {report}"


def pointwise_nhwc(g: Graph, n: DynamicDim) -> None:
    x = g.tensor(dims=(n, 3, 4, 5), strides=(60, 1, 15, 3))
    g.relu(g.add(x, g.tensor(dims=(1, 3, 1, 1)))).set_output()


def mlp(g: Graph, n: DynamicDim) -> None:
    hidden = g.relu(g.matmul(g.tensor(dims=(n, 16)), g.tensor(dims=(16, 33))))
    g.add(g.matmul(hidden, g.tensor(dims=(33, 5))), g.tensor(dims=(1, 5))).set_output()


def batches(g: Graph, n: DynamicDim) -> None:
    left, right = g.tensor(dims=(n, 2, 4, 6)), g.tensor(dims=(1, 2, 6, 5))
    g.matmul(left, right).set_output()


def inner_product(g: Graph, n: DynamicDim) -> None:
    g.matmul(g.tensor(dims=(7, n)), g.tensor(dims=(n, 9))).set_output()


def sums(g: Graph, n: DynamicDim) -> None:
    x = g.tensor(dims=(n, 33))
    for mode in ("add", "avg", "max", "norm2"):
        g.reduction(x, mode=mode, axes=[0]).set_output()
    g.reduction(x, mode="avg", axes=[1]).set_output()


def softmax(g: Graph, n: DynamicDim) -> None:
    x = g.tensor(dims=(n, 40))
    e = g.exp(g.sub(x, g.reduction(x, mode="max", axes=[1])))
    g.div(e, g.reduction(e, mode="add", axes=[1])).set_output()


def softmax_along(g: Graph, n: DynamicDim) -> None:
    x = g.tensor(dims=(4, n))
    e = g.exp(g.sub(x, g.reduction(x, mode="max", axes=[1])))
    g.div(e, g.reduction(e, mode="add", axes=[1])).set_output()


def layernorm(g: Graph, n: DynamicDim) -> None:
    scale, bias = (g.tensor(dims=(1, 1, 65)) for _ in range(2))
    x = g.tensor(dims=(2, n, 65))
    for result in g.layernorm(x, scale, bias, forward_phase="training"):
        g.output(result)


def rmsnorm(g: Graph, n: DynamicDim) -> None:
    g.output(g.rmsnorm(g.tensor(dims=(n, 40)), g.tensor(dims=(1, 40)))[0])


def attention(g: Graph, n: DynamicDim) -> None:
    q, k, v = (g.tensor(dims=(2, 2, n, 16)) for _ in range(3))
    mask = g.tensor(dims=(1, 1, n, n))
    o, stats, *_ = g.sdpa(q, k, v, attn_mask=mask, generate_stats=True)
    g.output(o)
    assert stats is not None
    g.output(stats)


def convolution(g: Graph, n: DynamicDim) -> None:
    x, w = g.tensor(dims=(n, 3, 9, 9)), g.tensor(dims=(8, 3, 3, 3))
    g.relu(g.conv_fprop(x, w, padding=1)).set_output()


def batchnorm(g: Graph, n: DynamicDim) -> None:
    others = [g.tensor(dims=(1, 4, 1, 1)) for _ in range(4)]
    g.output(g.batchnorm_inference(g.tensor(dims=(n, 4, 3, 3)), *others))


def scalars(g: Graph, n: DynamicDim) -> None:
    x = g.mul(g.tensor(dims=(n, 3)), g.runtime_scalar(data_type="float"))
    g.add(x, g.scalar(0.5)).set_output()
