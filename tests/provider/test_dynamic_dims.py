# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dims that are given at execution: one compiled module runs every size."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pytest
from dynamic_graphs import (
    Build,
    attention,
    batches,
    batchnorm,
    check,
    convolution,
    graph,
    inner_product,
    layernorm,
    mlp,
    pointwise_nhwc,
    rmsnorm,
    scalars,
    softmax,
    softmax_along,
    sums,
)
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.dynamic import at_sizes
from hipdnn_iree.graph_api.dynamic_dim import DynamicDim
from hipdnn_iree.graph_api.errors import (
    BindError,
    GraphError,
    NotSupportedError,
)
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.jit import pipeline, support
from hipdnn_iree.jit.runtime.caller_memory import Pointer
from hipdnn_iree.jit.stages import Job
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.engines.iree.iree_dynamic_plan import DynamicIreePlan

CPU = Target.parse("cpu")
# 1, odd, prime, and around the tiles of the CPU's matrix code.
SIZES = (1, 2, 7, 8, 15, 16, 17, 31, 33, 64)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[FrozenGraph]:
    """Return the graphs that are compiled from here on; nothing comes from the cache."""
    done: list[FrozenGraph] = []
    real = pipeline.run

    def run(job: Job, stages: Any) -> None:
        assert isinstance(job.source, FrozenGraph)
        done.append(job.source)
        real(job, stages)

    monkeypatch.setattr(pipeline, "run", run)
    monkeypatch.setenv("HIPDNN_IREE_CACHE", "off")
    return done


def inner(g: Graph, n: DynamicDim) -> None:
    g.gelu(g.mul(g.tensor(dims=(3, n)), g.tensor(dims=(3, 1)))).set_output()


def normed_mlp(g: Graph, n: DynamicDim) -> None:
    """Norms between products are copied, along a dim that is known."""
    hidden = g.matmul(g.tensor(dims=(n, 16)), g.tensor(dims=(16, 512)))
    normed = g.layernorm(hidden, *(g.tensor(dims=(1, 512)) for _ in range(2))).y
    g.matmul(normed, g.tensor(dims=(512, 5))).set_output()


def products(g: Graph, n: DynamicDim) -> None:
    g.reduction(g.tensor(dims=(n, 5)), mode="mul", axes=[1]).set_output()


def layernorm_backward(g: Graph, n: DynamicDim) -> None:
    dy, x, scale = g.tensor(dims=(n, 40)), g.tensor(dims=(n, 40)), g.tensor(dims=(1, 40))
    mean, inverse = g.tensor(dims=(n, 1)), g.tensor(dims=(n, 1))
    for result in g.layernorm_backward(dy, x, scale, mean=mean, inv_variance=inverse):
        g.output(result)


def attention_batch(g: Graph, n: DynamicDim) -> None:
    q, k, v = (g.tensor(dims=(n, 2, 8, 16)) for _ in range(3))
    g.output(g.sdpa(q, k, v, causal_mask=True)[0])


def attention_keys(g: Graph, n: DynamicDim) -> None:
    k, v = (g.tensor(dims=(2, 2, n, 16)) for _ in range(2))
    g.output(g.sdpa(g.tensor(dims=(2, 4, 6, 16)), k, v)[0])


def convolution_nhwc(g: Graph, n: DynamicDim) -> None:
    x = g.tensor(dims=(n, 4, 9, 9), strides=(324, 1, 36, 4))
    w = g.tensor(dims=(8, 2, 3, 3), strides=(18, 1, 6, 2))
    g.conv_fprop(x, w, padding=1, stride=2).set_output()


def depthwise(g: Graph, n: DynamicDim) -> None:
    g.conv_fprop(g.tensor(dims=(n, 4, 9, 9)), g.tensor(dims=(4, 1, 3, 3)), padding=1).set_output()


def image_gradient(g: Graph, n: DynamicDim) -> None:
    dy, w = g.tensor(dims=(n, 8, 5, 5)), g.tensor(dims=(8, 3, 3, 3))
    g.conv_dgrad(dy, w, dx_dims=(8, 3, 9, 9), stride=2, padding=1).set_output()


def gradient_of_a_pointwise_one(g: Graph, n: DynamicDim) -> None:
    dy, w = g.tensor(dims=(n, 8, 5, 5)), g.tensor(dims=(8, 3, 1, 1))
    g.conv_dgrad(dy, w, dx_dims=(8, 3, 9, 9), stride=2).set_output()


def linear(g: Graph, n: DynamicDim) -> None:
    """The rows of matrices, behind a result whose dims the script does not know to be dynamic."""
    x = g.relu(g.tensor(dims=(2, n, 8)))
    y = g.linear(x, g.tensor(dims=(8, 5)), g.tensor(dims=(5,)))
    g.linear(y, g.tensor(dims=(5, 3))).set_output()


def linear_of_a_batch(g: Graph, n: DynamicDim) -> None:
    g.linear(g.tensor(dims=(n, 3, 8)), g.tensor(dims=(8, 5))).set_output()


def pooled(g: Graph, n: DynamicDim) -> None:
    """Windows of a batch; with a strided last dim, of which elements are loaded one by one."""
    x = g.tensor(dims=(n, 3, 9, 9))
    more: dict[str, Any] = {"window": 3, "stride": 2, "pre_padding": 1, "post_padding": 1}
    maxima = g.resample_fwd(
        x, resample_mode="maxpool", padding_mode="neg_inf_pad", generate_index=True, **more
    )
    for result in maxima:
        g.output(result)
    more |= {"resample_mode": "avgpool_exclude_padding", "padding_mode": "zero_pad"}
    g.resample_fwd(x, **more).y.set_output()


def pooled_nhwc(g: Graph, n: DynamicDim) -> None:
    x = g.tensor(dims=(2, n, 9, 8), strides=(576, 1, 64, 8))
    g.resample_fwd(
        x, resample_mode="avgpool_include_padding", window=(9, 2), padding_mode="zero_pad"
    ).y.set_output()


def classifier(g: Graph, n: DynamicDim) -> None:
    x = g.relu(g.conv_fprop(g.tensor(dims=(n, 3, 9, 9)), g.tensor(dims=(8, 3, 3, 3))))
    x = g.reduction(x, mode="avg", axes=(2, 3))
    g.matmul(g.reshape(x, (-1, 8)), g.tensor(dims=(8, 5))).set_output()


def reshaped(g: Graph, n: DynamicDim) -> None:
    """Dims on both sides of an open one are split and merged."""
    x = g.reshape(g.relu(g.tensor(dims=(2, 3, n, 12))), (6, -1, 4, 3))
    g.mul(x, 2.0).set_output()


SERVED = (
    pooled,
    classifier,
    reshaped,
    mlp,
    linear,
    normed_mlp,
    batches,
    sums,
    softmax,
    layernorm,
    attention,
    convolution,
    pointwise_nhwc,
    scalars,
)
MORE = (
    pooled_nhwc,
    linear_of_a_batch,
    inner,
    inner_product,
    products,
    softmax_along,
    rmsnorm,
    layernorm_backward,
    attention_batch,
    attention_keys,
    convolution_nhwc,
    depthwise,
    image_gradient,
    gradient_of_a_pointwise_one,
    batchnorm,
)


@pytest.mark.parametrize(
    "build", [*SERVED, *(pytest.param(b, marks=pytest.mark.full) for b in MORE)]
)
def test_one_code_runs_every_size(build: Build, compilations: list[FrozenGraph]) -> None:
    g = graph(build)
    assert not list(support.problems(g.freeze(), CPU))
    plan = g.build("cpu")
    for size in SIZES:
        check(plan, {"n": size})
    assert len(compilations) == 1


@pytest.mark.full
@pytest.mark.parametrize("kind", ["half", "bfloat16"])
@pytest.mark.parametrize("build", [*SERVED, *MORE])
def test_one_code_runs_every_size_in_other_types(build: Build, kind: str) -> None:
    plan = graph(build, kind).build("cpu")
    for size in SIZES:
        check(plan, {"n": size})


def test_two_dims_are_told_apart() -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    # The same example for both: nothing but the names may tell them apart.
    n, m = g.dynamic("n", range=(1, 99)), g.dynamic("m", range=(1, 99))
    x, w = g.tensor(dims=(n, m, 6), name="x"), g.tensor(dims=(m, 6), name="w")
    y = g.reduction(g.mul(x, w), mode="add", axes=[2]).set_output()
    assert g.freeze().tensors[y.uid].dynamic == ("n", "m", "")
    plan = g.build("cpu")
    for sizes in ({"n": 3, "m": 7}, {"n": 7, "m": 3}, {"n": 1, "m": 5}, {"n": 64, "m": 1}):
        check(plan, sizes)


@pytest.mark.parametrize(
    ("dims", "axes", "mode"),
    [("nmk", (0, 1), "add"), ("nm", (1, 2), "avg"), ("nk", (0, 1), "norm2"), ("m", (1, 2), "add")],
)
def test_sums_of_open_dims_that_are_kept(dims: str, axes: tuple[int, ...], mode: str) -> None:
    """W-112: with all three open the code left its buffers."""
    g = Graph(io_data_type="float", compute_data_type="float")
    fixed = {"n": 2, "m": 31, "k": 33}
    shape = [g.dynamic(d, example=n) if d in dims else n for d, n in fixed.items()]
    x = g.tensor(dims=shape)
    total = g.reduction(x, mode=mode, axes=axes).set_output()
    g.mul(x, total).set_output()
    plan = g.build("cpu")
    for sizes in ((2, 22, 40), (8, 12, 11), (1, 1, 1), (2, 33, 28), (65, 7, 64)):
        check(plan, {d: n for d, n in zip("nmk", sizes, strict=True) if d in dims})


def test_what_follows_is_found() -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    n = g.dynamic("n", range=(4, 64))
    x = g.tensor(dims=(2, 3, n, 5), name="x")
    y = g.conv_fprop(x, g.tensor(dims=(4, 3, 3, 3))).set_output()
    z = g.reduction(x, mode="max", axes=[2]).set_output()
    frozen = g.freeze()
    assert frozen.tensors[y.uid].dynamic == ("", "", "*", "")
    assert frozen.tensors[z.uid].dynamic == ()
    assert x.dynamic == ("", "", "n", "")
    assert frozen.symbols == (n,)
    other = at_sizes(frozen, {"n": 9})
    assert other.symbols == ()
    assert other.tensors[y.uid].dims == (2, 4, 7, 3)
    assert pickle.loads(pickle.dumps(frozen)) == frozen


def test_the_digest_knows_dynamic_dims_and_not_their_names() -> None:
    def digest(name: str, *, fixed: bool = False, high: int = 4096) -> str:
        g = Graph(io_data_type="float")
        dim = g.dynamic(name, range=(1, high), example=8)
        g.relu(g.tensor(dims=(8 if fixed else dim, 3))).set_output()
        return g.digest

    assert digest("n") == digest("batch") == digest("n", high=100)
    assert digest("n") != digest("n", fixed=True)


def test_sizes_come_with_the_buffers() -> None:
    g = graph(mlp)
    plan = g.build("cpu")
    assert isinstance(plan, DynamicIreePlan)
    inputs = {
        u: np.ones([s or 8 for s in g.freeze().tensors[u].dims], np.float32)
        for u in g.freeze().inputs
    }
    x = next(u for u in inputs if g.freeze().tensors[u].dynamic)
    for size in (3, 100):
        (y,) = plan.run({**inputs, x: np.ones((size, 16), np.float32)}).values()
        assert y.shape == (size, 5)
    fixed = plan.with_sizes({"n": 3})
    assert plan.with_sizes({"n": 3}) is fixed
    assert fixed.graph.tensors[x].dims == (3, 16)
    # Addresses say no sizes.
    memory = verify.random_inputs(fixed.graph, 1)
    outputs = verify.poisoned_outputs(fixed.graph)
    pointers = {u: Pointer(a.ctypes.data) for u, a in (memory | outputs).items()}
    with pytest.raises(BindError, match="DYN-03"):
        plan.execute(pointers)
    fixed.execute(pointers)
    assert verify.compare(fixed.graph, outputs, verify.expect(fixed.graph, memory)).ok


def test_the_workspace_grows_with_the_sizes() -> None:
    plan = graph(mlp).build("cpu")
    small, large = plan.with_sizes({"n": 3}), plan.with_sizes({"n": 300})
    assert 0 < small.workspace_bytes < large.workspace_bytes
    at = large.graph
    inputs, outputs = verify.random_inputs(at, 1), verify.poisoned_outputs(at)
    space = np.full(large.workspace_bytes + 128, 0xFF, np.uint8)
    large.execute({**inputs, **outputs}, space)
    assert verify.compare(at, outputs, verify.expect(at, inputs)).ok
    with pytest.raises(BindError, match="BIND-11"):
        large.execute({**inputs, **outputs}, space[: small.workspace_bytes])


def test_many_threads_with_sizes_of_their_own() -> None:
    plan = graph(mlp).build("cpu")
    failures: list[BaseException] = []

    def work(size: int) -> None:
        try:
            for k in range(5):
                check(plan, {"n": size + k % 2}, seed=size)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(1 + 3 * i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_other_shapes_of_a_dynamic_plan() -> None:
    plan = graph(pointwise_nhwc).build("cpu")
    x = plan.graph.inputs[0]
    sized = plan.with_sizes({"n": 5})
    bound = (*plan.graph.inputs, *plan.graph.outputs)
    assert plan.with_shapes({uid: sized.graph.tensors[uid].dims for uid in bound}) is sized
    left = plan.with_shapes({x: (5, 3, 4, 5)})  # it takes no bare addresses for the others
    assert left is plan.with_shapes({x: (5, 3, 4, 5)})
    assert left.graph == sized.graph
    assert left.executable.module is sized.executable.module
    wide = plan.with_shapes({x: (5, 3, 2, 7)})  # other dims than the dynamic one
    assert not hasattr(wide, "whole")
    assert wide.graph.tensors[x].dims == (5, 3, 2, 7)


def test_a_plan_for_each_size(compilations: list[FrozenGraph]) -> None:
    def strips(g: Graph, n: DynamicDim) -> None:
        g.conv_fprop(g.tensor(dims=(1, 2, n, 5)), g.tensor(dims=(3, 2, 1, 2))).set_output()
        g.sigmoid(g.tensor(dims=(n, 2))).set_output()

    g = graph(strips)
    with pytest.raises(NotSupportedError, match="IREE-DYN-03"):
        g.build("cpu", engine="iree")
    plan = g.build("cpu", exact=True)
    assert plan.engine == "IREE_JIT_ENGINE"
    for size in (3, 5, 3):
        check(plan, {"n": size})
    assert len(compilations) == 2


@pytest.mark.parametrize("exact", [False, True])
def test_the_reference_takes_them(exact: bool) -> None:
    plan = graph(mlp).build("cpu", engine="reference", exact=exact)
    for size in (1, 9):
        check(plan, {"n": size})


def test_a_graph_without_dynamic_dims_has_no_sizes() -> None:
    g = Graph(io_data_type="float")
    g.relu(g.tensor(dims=(3,))).set_output()
    plan = g.build("cpu", exact=True)
    assert plan.with_sizes({}) is plan
    with pytest.raises(GraphError, match="DYN-03"):
        plan.with_sizes({"n": 3})
