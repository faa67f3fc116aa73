# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sizes rounded up to buckets: what is added must change nothing, or the graph is declined."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.buckets import Buckets, as_buckets, combinations, read_buckets
from hipdnn_iree.graph_api.dynamic import at_sizes
from hipdnn_iree.graph_api.dynamic_dim import DynamicDim
from hipdnn_iree.graph_api.errors import BindError, GraphError, NotSupportedError
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.graph_api.independence import mixing
from hipdnn_iree.jit import pipeline
from hipdnn_iree.jit.runtime import padding
from hipdnn_iree.jit.runtime.caller_memory import Pointer
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.bucket_plan import BucketPlan, PaddedPlan, problems
from hipdnn_iree.provider.plan import Plan
from hipdnn_iree.provider.precompile import precompile

Build = Callable[[Graph, DynamicDim], Any]


def graph(build: Build, kind: str = "float", high: int = 64) -> Graph:
    g = Graph(build.__name__, io_data_type=kind, compute_data_type="float")
    build(g, g.dynamic("n", range=(1, high)))
    return g


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put bytes of ones where copies of entries would be: NaN in every floating type."""

    def fill(array: np.ndarray[Any, Any], dims: tuple[int, ...]) -> None:
        kept = array[tuple(slice(0, n) for n in dims)].copy()
        array[...] = np.full(array.itemsize, 0xFF, np.uint8).view(array.dtype)[0]
        array[tuple(slice(0, n) for n in dims)] = kept

    monkeypatch.setattr(padding, "_repeat", fill)


def check(plan: Plan, sizes: dict[str, int], seed: int = 1) -> None:
    at = at_sizes(plan.graph, sizes)
    inputs, outputs = verify.random_inputs(at, seed), verify.poisoned_outputs(at)
    plan.execute({**inputs, **outputs})
    report = verify.compare(at, outputs, verify.expect(at, inputs))
    assert report.ok, f"{sizes}: {report}"


def mlp(g: Graph, n: DynamicDim) -> None:
    hidden = g.relu(g.matmul(g.tensor(dims=(n, 16)), g.tensor(dims=(16, 33))))
    g.add(g.matmul(hidden, g.tensor(dims=(33, 5))), g.tensor(dims=(1, 5))).set_output()


def columns(g: Graph, n: DynamicDim) -> None:
    wide = g.matmul(g.tensor(dims=(2, 7, 6)), g.tensor(dims=(1, 6, n)))
    g.transpose(g.mul(wide, g.tensor(dims=(n,))), permutation=(2, 0, 1)).set_output()


def square(g: Graph, n: DynamicDim) -> None:
    outer = g.mul(g.tensor(dims=(n, 1)), g.tensor(dims=(1, n)))
    g.add(outer, g.tensor(dims=(n, n), strides=(1, 8))).set_output()


def softmax(g: Graph, n: DynamicDim) -> None:
    x = g.tensor(dims=(n, 12))
    e = g.exp(g.sub(x, g.reduction(x, mode="max", axes=[1])))
    g.div(e, g.reduction(e, mode="add", axes=[1])).set_output()


def convolution(g: Graph, n: DynamicDim) -> None:
    x = g.tensor(dims=(n, 4, 7, 7), strides=(196, 1, 28, 4))
    y = g.conv_fprop(x, g.tensor(dims=(8, 4, 3, 3)), padding=1)
    others = [g.tensor(dims=(1, 8, 1, 1)) for _ in range(4)]
    y = g.batchnorm_inference(y, *others)
    g.output(g.resample_fwd(y, resample_mode="maxpool", window=2, stride=2)[0])


def pointwise_convolution(g: Graph, n: DynamicDim) -> None:
    g.conv_fprop(g.tensor(dims=(2, 3, n, 5)), g.tensor(dims=(4, 3, 1, 1))).set_output()


def filters(g: Graph, n: DynamicDim) -> None:
    g.conv_fprop(g.tensor(dims=(2, 3, 5, 5)), g.tensor(dims=(n, 3, 2, 2))).set_output()


def image_gradient(g: Graph, n: DynamicDim) -> None:
    dy, w = g.tensor(dims=(n, 6, 4, 4)), g.tensor(dims=(6, 3, 2, 2))
    g.conv_dgrad(dy, w, stride=2, dx_dims=(8, 3, 8, 8)).set_output()


def norms(g: Graph, n: DynamicDim) -> None:
    x, row = g.tensor(dims=(2, n, 10)), (1, 1, 10)
    y, mean, variance = g.layernorm(
        x, g.tensor(dims=row), g.tensor(dims=row), forward_phase="training"
    )
    assert mean is not None
    assert variance is not None
    g.output(mean)
    g.output(variance)
    g.output(g.rmsnorm(y, g.tensor(dims=row))[0])


def training_channels(g: Graph, n: DynamicDim) -> None:
    one = [g.tensor(dims=(1, n, 1, 1)) for _ in range(2)]
    for result in g.batchnorm(g.tensor(dims=(3, n, 2, 4)), *one, epsilon=1e-5):
        if result is not None:
            g.output(result)


def attention(g: Graph, n: DynamicDim) -> None:
    q, k, v = (g.tensor(dims=(n, 2, 6, 8)) for _ in range(3))
    o, stats, *_ = g.sdpa(
        q, k, v, attn_mask=g.tensor(dims=(n, 1, 6, 6)), causal_mask=True, generate_stats=True
    )
    g.output(o)
    assert stats is not None
    g.output(stats)


def queries(g: Graph, n: DynamicDim) -> None:
    k, v = (g.tensor(dims=(2, 2, 9, 8)) for _ in range(2))
    g.output(g.sdpa(g.tensor(dims=(2, 2, n, 8)), k, v, causal_mask=True)[0])


def movement(g: Graph, n: DynamicDim) -> None:
    x = g.tensor(dims=(n, 4, 6))
    x = g.reshape(g.reshape(x, dim=(8, 24)), dim=(8, 4, 6))
    y = g.concatenate([x, g.transpose(x, permutation=(0, 1, 2))], axis=2)
    y = g.pad(y, pre_padding=(0, 1, 0), post_padding=(0, 0, 2))
    g.reduction(y, mode="avg", axes=[1]).set_output()


def gradients(g: Graph, n: DynamicDim) -> None:
    q, k, v, o, do = (g.tensor(dims=(n, 2, 4, 8)) for _ in range(5))
    for result in g.sdpa_backward(q, k, v, o, do, g.tensor(dims=(n, 2, 4, 1)))[:3]:
        assert result is not None
        g.output(result)


def blocks(g: Graph, n: DynamicDim) -> None:
    x = g.tensor(dims=(n, 32))
    g.block_scale_dequantize(x, g.tensor(dims=(n, 2)), block_size=16).set_output()


SERVED = (
    *(mlp, columns, square, softmax, convolution, pointwise_convolution, filters),
    *(image_gradient, norms, training_channels, attention, queries, movement, gradients, blocks),
)


@pytest.mark.usefixtures("poison")
@pytest.mark.parametrize("build", SERVED)
def test_what_is_added_changes_nothing(build: Build) -> None:
    """By the meaning of the ops: the reference, on padding full of NaN."""
    plan = graph(build).build("cpu", engine="reference", buckets="powers")
    for size in (1, 5, 8):
        check(plan, {"n": size})


@pytest.mark.usefixtures("poison")
@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (mlp, "half"),
        (convolution, "float"),
        (attention, "bfloat16"),
        *(
            pytest.param(build, kind, marks=pytest.mark.full)
            for build in SERVED
            for kind in ("float", "half", "bfloat16")
        ),
    ],
)
def test_code_of_a_bucket_runs_smaller_sizes(build: Build, kind: str) -> None:
    plan = graph(build, kind).build("cpu", buckets=(8, 64))
    for size in (1, 5, 7, 8):
        check(plan, {"n": size})


def test_few_codes_serve_many_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[FrozenGraph] = []
    real = pipeline.compile_source
    from hipdnn_iree.provider.engines.iree import iree_engine as iree

    monkeypatch.setattr(iree, "compile_source", lambda g, *more: done.append(g) or real(g, *more))
    plan = graph(mlp).build("cpu", buckets={"n": 16})
    assert isinstance(plan, BucketPlan)
    for size in (3, 17, 16, 5, 32, 3):
        check(plan, {"n": size})
    assert [g.tensors[g.outputs[0]].dims[0] for g in done] == [16, 32]
    first, second = plan.used()
    assert (first.bucket, second.bucket) == ({"n": 16}, {"n": 32})
    assert [s["n"] for s in first.sizes] == [3, 5, 16]
    assert [s["n"] for s in second.sizes] == [17, 32]
    small = plan.with_sizes({"n": 5})
    assert isinstance(small, PaddedPlan)
    assert (small.bucket, small.driver) == ({"n": 16}, "local-sync")
    assert not isinstance(plan.with_sizes({"n": 16}), PaddedPlan)


def test_for_gfx9_the_bucket_is_compiled() -> None:
    frozen = graph(mlp, "half").freeze()
    plan = graph(mlp, "half").build("gfx942", buckets=[16])
    at = plan.with_sizes({"n": 5})
    assert isinstance(at, PaddedPlan)
    assert at.code.plan.graph.digest == at_sizes(frozen, {"n": 16}).digest
    assert at.statistics["dispatches"] > 0
    with pytest.raises(NotSupportedError, match="IREE-DYN-05"):
        graph(mlp, "half").build("gfx942")


def test_two_dims() -> None:
    g = Graph(io_data_type="float")
    n, m = g.dynamic("n", range=(1, 64)), g.dynamic("m", range=(1, 20), example=4)
    g.sigmoid(g.tensor(dims=(n, 3, m))).set_output()
    plan = g.build("cpu", engine="reference", buckets={"n": "powers", "m": (2, 20)})
    for sizes in ({"n": 3, "m": 1}, {"n": 4, "m": 20}, {"n": 33, "m": 3}):
        check(plan, sizes)
    assert isinstance(plan, BucketPlan)
    assert [use.bucket for use in plan.used()] == [
        {"n": 4, "m": 2},
        {"n": 4, "m": 20},
        {"n": 64, "m": 20},
    ]


def test_added_entries_are_copies() -> None:
    array = np.zeros((4, 2, 4), np.int32)
    array[:2, :, :3] = np.arange(12).reshape(2, 2, 3)
    padding._repeat(array, (2, 2, 3))
    assert np.array_equal(array, np.pad(array[:2, :, :3], ((0, 2), (0, 0), (0, 1)), "edge"))

    # A whole number is never divided by what was in the memory before.
    def quotients(g: Graph, n: DynamicDim) -> None:
        x, y = (g.tensor(dims=(n, 3), name=name, data_type="int32") for name in "xy")
        g.div(x, y, compute_data_type="int32").set_output().set_data_type("int32")

    plan = graph(quotients).build("cpu", buckets="powers")
    (z,) = plan.run({"x": np.full((5, 3), 7, np.int32), "y": np.full((5, 3), 2, np.int32)}).values()
    assert (z == 3).all()


def test_bound_and_addressed_memory() -> None:
    plan = graph(mlp).build("cpu", buckets="powers").with_sizes({"n": 5})
    at = plan.graph
    inputs, outputs = verify.random_inputs(at, 1), verify.poisoned_outputs(at)
    call = plan.bind({**inputs, **outputs})
    call()
    assert verify.compare(at, outputs, verify.expect(at, inputs)).ok
    for array in inputs.values():  # read anew at each call
        np.multiply(array, 0.5, out=array)
    call()
    assert verify.compare(at, outputs, verify.expect(at, inputs)).ok
    results = plan.run(inputs)
    assert all(np.array_equal(results[u], outputs[u]) for u in outputs)
    again = verify.poisoned_outputs(at)
    plan.execute({u: Pointer(a.ctypes.data) for u, a in (inputs | again).items()})
    assert all(np.array_equal(again[u], outputs[u]) for u in outputs)
    # Foreign strides are taken on demand only.
    x = next(u for u in inputs if at.tensors[u].dims == (5, 16))
    spread = np.zeros((5, 32), np.float32)[:, ::2]
    spread[...] = inputs[x]
    with pytest.raises(BindError, match="BIND-06"):
        plan.bind({**inputs, **outputs, x: spread})
    plan.bind({**inputs, **outputs, x: spread}, copy=True)()
    assert verify.compare(at, outputs, verify.expect(at, inputs)).ok


def test_buffers_that_do_not_fit() -> None:
    plan = graph(mlp).build("cpu", engine="reference", buckets="powers").with_sizes({"n": 5})
    inputs, outputs = verify.random_inputs(plan.graph, 1), verify.poisoned_outputs(plan.graph)
    (y,) = outputs
    x = next(u for u in inputs if plan.graph.tensors[u].dims == (5, 16))
    missing = {u: a for u, a in inputs.items() if u != x}
    for rule, buffers in {
        "BIND-01": missing | outputs,
        "BIND-02": inputs | outputs | {999: np.zeros(1)},
        "BIND-03": inputs | outputs | {x: "x"},
        "BIND-04": inputs | outputs | {x: np.zeros((5, 16))},
        "BIND-05": inputs | outputs | {y: np.zeros((8, 5), np.float32)},
        "BIND-10": inputs | {y: inputs[x].reshape(-1)[:25].reshape(5, 5)},
    }.items():
        with pytest.raises(BindError, match=rule):
            plan.execute(buffers)
    with pytest.raises(BindError, match="BIND-02"):
        plan.run(inputs | outputs)


def test_threads_with_sizes_of_their_own() -> None:
    plan = graph(mlp).build("cpu", buckets="powers")
    failures: list[BaseException] = []

    def work(size: int) -> None:
        try:
            for k in range(4):
                check(plan, {"n": size + k % 2}, seed=size)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(9 + i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def _k(g: Graph, n: DynamicDim) -> None:
    g.matmul(g.tensor(dims=(5, n)), g.tensor(dims=(n, 6)), name="at").set_output()


def _batches(g: Graph, n: DynamicDim) -> None:
    g.matmul(g.tensor(dims=(n, 3, 4)), g.tensor(dims=(2, 4, 5)), name="at").set_output()


def _sums(g: Graph, n: DynamicDim) -> None:
    g.reduction(g.exp(g.tensor(dims=(n, 3))), mode="add", axes=[0], name="at").set_output()


def _after(g: Graph, n: DynamicDim) -> None:
    x = g.tensor(dims=(3, n))
    g.sub(x, g.reduction(x, mode="max", axes=[1], name="at")).set_output()


def _channels(g: Graph, n: DynamicDim) -> None:
    g.conv_fprop(g.tensor(dims=(1, n, 5, 5)), g.tensor(dims=(2, n, 1, 1)), name="at").set_output()


def _window(g: Graph, n: DynamicDim) -> None:
    g.conv_fprop(
        g.tensor(dims=(1, 2, n, 5)), g.tensor(dims=(2, 2, 3, 1)), padding=(1, 0), name="at"
    ).set_output()


def _weights(g: Graph, n: DynamicDim) -> None:
    x, dy = g.tensor(dims=(n, 2, 5, 5)), g.tensor(dims=(n, 3, 3, 3))
    g.conv_wgrad(dy, x, dw_dims=(3, 2, 3, 3), name="at").set_output()


def _image(g: Graph, n: DynamicDim) -> None:
    g.conv_dgrad(g.tensor(dims=(1, n, 4, 4)), g.tensor(dims=(n, 3, 2, 2)), name="at").set_output()


def _rows(g: Graph, n: DynamicDim) -> None:
    g.output(g.rmsnorm(g.tensor(dims=(3, n)), g.tensor(dims=(1, n)), name="at")[0])


def _scale_gradient(g: Graph, n: DynamicDim) -> None:
    dy, x = g.tensor(dims=(n, 4)), g.tensor(dims=(n, 4))
    for y in g.layernorm_backward(dy, x, g.tensor(dims=(1, 4)), epsilon=1e-5, name="at"):
        g.output(y)


def _statistics(g: Graph, n: DynamicDim) -> None:
    one = [g.tensor(dims=(1, 4, 1, 1)) for _ in range(2)]
    g.output(g.batchnorm(g.tensor(dims=(n, 4, 3, 3)), *one, epsilon=1e-5, name="at")[0])


def _keys(g: Graph, n: DynamicDim) -> None:
    k, v = (g.tensor(dims=(1, 2, n, 8)) for _ in range(2))
    g.output(g.sdpa(g.tensor(dims=(1, 2, 4, 8)), k, v, name="at")[0])


def _heads(g: Graph, n: DynamicDim) -> None:
    q, k, v = (g.tensor(dims=(1, n, 4, 8)) for _ in range(3))
    g.output(g.sdpa(q, k, v, name="at")[0])


def _bottom(g: Graph, n: DynamicDim) -> None:
    k, v = (g.tensor(dims=(1, 2, 64, 8)) for _ in range(2))
    q = g.tensor(dims=(1, 2, n, 8))
    g.output(g.sdpa(q, k, v, causal_mask_bottom_right=True, name="at")[0])


def _mask_gradient(g: Graph, n: DynamicDim) -> None:
    q, k, v, o, do = (g.tensor(dims=(n, 2, 4, 8)) for _ in range(5))
    stats, mask = g.tensor(dims=(n, 2, 4, 1)), g.tensor(dims=(1, 1, 4, 4))
    options: Any = {"attn_mask": mask, "generate_dbias": True, "name": "at"}
    for result in g.sdpa_backward(q, k, v, o, do, stats, **options):
        if result is not None:
            g.output(result)


def _pooled(g: Graph, n: DynamicDim) -> None:
    x = g.tensor(dims=(1, 2, n, 4))
    g.output(g.resample_fwd(x, resample_mode="maxpool", window=(1, 2), stride=(1, 2), name="at")[0])


def _joined(g: Graph, n: DynamicDim) -> None:
    g.concatenate([g.tensor(dims=(n, 2)), g.tensor(dims=(3, 2))], axis=0, name="at").set_output()


def _shifted(g: Graph, n: DynamicDim) -> None:
    y = g.pad(g.tensor(dims=(n, 2)), pre_padding=(1, 0), name="wide")
    g.pad(y, pre_padding=(0, 0), post_padding=(-1, 0), name="at").set_output()


def _scaled(g: Graph, n: DynamicDim) -> None:
    kind = {"data_type": "fp8_e4m3"}
    x = g.tensor(dims=(16, n))
    y, scale = g.block_scale_quantize(x, block_size=16, axis=0, name="fine")
    g.output(y, **kind)
    g.output(scale)
    y, scale = g.block_scale_quantize(x, block_size=1, axis=1, name="at")
    g.output(y, **kind)
    g.output(scale)


def _derived(g: Graph, n: DynamicDim) -> None:
    y = g.conv_fprop(g.tensor(dims=(1, 2, n, 3)), g.tensor(dims=(2, 2, 2, 1)), padding=(1, 0))
    g.relu(y, name="at").set_output()


def _experts(g: Graph, n: DynamicDim) -> None:
    weight = g.tensor(dims=(2, 4, 4))
    first = g.tensor(dims=(2, 1, 1), data_type="int32")
    y = g.moe_grouped_matmul(g.tensor(dims=(1, n, 4)), weight, first, name="at")
    g.output(y)


@pytest.mark.parametrize(
    ("build", "port", "why"),
    [
        (_k, "a", "summed over"),
        (_batches, "a", "which batch of b"),
        (_sums, "x", "ADD over it"),
        (_after, "x", "MAX over it"),
        (_channels, "x", "channels"),
        (_window, "x", "window"),
        (_weights, "x", "sum"),
        (_image, "dy", "sum"),
        (_rows, "x", "normalised"),
        (_scale_gradient, "dy", "dscale"),
        (_statistics, "x", "statistics"),
        (_keys, "k", "sum"),
        (_heads, "q", "heads"),
        (_bottom, "q", "diagonal"),
        (_mask_gradient, "q", "dbias"),
        (_pooled, "x", "window"),
        (_joined, "x[0]", "concatenated"),
        (_shifted, "x", "varies with"),
        (_scaled, "x", "blocks"),
        (_derived, "in_0", "varies with"),
    ],
)
def test_what_mixes_is_declined(build: Build, port: str, why: str) -> None:
    # The sizes at which one number of batches divides the other are few.
    g = graph(build, high=2 if build is _batches else 64)
    found = [p for p in mixing(g.freeze()) if p.node == "at"]
    assert [p.port for p in found if why in p.got][:1] == [port], found
    assert {p.rule for p in found} == {"MIX-01"}
    with pytest.raises(NotSupportedError, match="MIX-01") as caught:
        g.build("cpu", engine="reference", buckets="powers")
    assert "exact=True" in str(caught.value)


def test_an_op_that_nothing_is_known_of_is_declined() -> None:
    found = [p.rule for p in mixing(graph(_experts).freeze()) if p.node == "at"]
    assert found
    assert set(found) == {"MIX-02"}


def test_packed_types_are_declined() -> None:
    def packed(g: Graph, n: DynamicDim) -> None:
        g.identity(g.tensor(dims=(n, 3), data_type="int4")).set_output()

    frozen = graph(packed).freeze()
    assert "PADDED-01" in {p.rule for p in problems(frozen, Target.parse("cpu"))}


def test_on_a_gpu_padding_is_at_the_end_of_memory() -> None:
    def inner(g: Graph, n: DynamicDim) -> None:
        g.relu(g.tensor(dims=(3, n))).set_output()

    for target, rules in (("cpu", set()), ("gfx942", {"PADDED-02"})):
        found = {p.rule for p in problems(graph(inner).freeze(), Target.parse(target))}
        assert found == rules
    assert not list(problems(graph(convolution).freeze(), Target.parse("gfx942")))


@pytest.mark.parametrize(
    ("given", "size", "bucket"),
    [
        ("powers", 1, 4),
        ("powers", 5, 8),
        ("powers", 64, 64),
        ("powers", 65, 100),
        (24, 5, 24),
        (24, 25, 48),
        (24, 99, 100),
        ((8, 40, 100), 8, 8),
        ((8, 40, 100), 9, 40),
        ({"n": (8, 40)}, 40, 40),
    ],
)
def test_the_smallest_bucket_that_holds_a_size(given: Any, size: int, bucket: int) -> None:
    dim = DynamicDim("n", 4, 100, 8)
    assert as_buckets([dim], given)["n"].holding(size) == bucket


@pytest.mark.parametrize(
    ("given", "every"),
    [
        ("powers", [4, 8, 16, 32, 64, 100]),
        (40, [40, 80, 100]),
        ((8, 40), [8, 40]),
        ((100,), [100]),
    ],
)
def test_every_bucket_of_a_dim(given: Any, every: list[int]) -> None:
    held = as_buckets([DynamicDim("n", 4, 100, 8)], given)["n"]
    assert list(held) == every
    assert [held.holding(size) for size in every] == every
    assert as_buckets([held.dim], read_buckets([held.spelled]))["n"] == held


def test_every_bucket_of_a_graph() -> None:
    n, m = DynamicDim("n", 1, 1 << 31, 8), DynamicDim("m", 1, 9, 2)
    assert combinations(as_buckets([n, m], {"n": (4, 8), "m": (9,)})) == [
        {"n": 4, "m": 9},
        {"n": 8, "m": 9},
    ]
    with pytest.raises(GraphError) as caught:
        combinations(as_buckets([n, m], {"n": 2, "m": "powers"}))
    assert [(p.rule, p.port) for p in caught.value.problems] == [
        ("BUCKET-03", "n"),
        ("BUCKET-03", "m"),
    ]


def test_a_size_above_all_buckets() -> None:
    plan = graph(mlp).build("cpu", engine="reference", buckets=(8, 16))
    check(plan, {"n": 16})
    with pytest.raises(GraphError, match="BUCKET-02"):
        plan.with_sizes({"n": 17})


@pytest.mark.parametrize(
    "given",
    ["fives", "", 0, 1, 2.5, True, (), (8, 4), (4, 4), (0, 8), (8, 65), (8, "x"), {}, {"m": 8}],
)
def test_buckets_that_make_no_sense(given: Any) -> None:
    with pytest.raises(GraphError, match="BUCKET-01"):
        graph(mlp).build("cpu", buckets=given)


def test_buckets_of_a_dim_that_the_graph_has_not() -> None:
    g = Graph(io_data_type="float")
    g.relu(g.tensor(dims=(g.dynamic("rows", range=(1, 64)), 4))).set_output()
    with pytest.raises(GraphError, match="did you mean 'rows'") as found:
        g.build("cpu", buckets={"row": 8, "rows": 8})
    assert [(p.rule, p.port) for p in found.value.problems] == [("BUCKET-01", "row")]
    fixed = Graph(io_data_type="float")
    fixed.relu(fixed.tensor(dims=(4, 4))).set_output()
    with pytest.raises(GraphError, match="the graph has no dynamic dims"):
        fixed.build("cpu", engine="reference", buckets={"n": 8})
    (wrong,) = precompile([fixed], "cpu", buckets={"n": 8})
    assert "BUCKET-01" in str(wrong.error)


def test_exact_and_buckets_exclude_each_other() -> None:
    with pytest.raises(GraphError, match="BUCKET-01"):
        graph(mlp).build("cpu", exact=True, buckets="powers")
    g = Graph(io_data_type="float")
    g.relu(g.tensor(dims=(3,))).set_output()
    assert not isinstance(g.build("cpu", engine="reference", buckets="powers"), BucketPlan)


def test_what_the_command_line_says() -> None:
    assert read_buckets(["powers"]) == "powers"
    assert read_buckets(["16"]) == 16
    assert read_buckets(["8,32"]) == [8, 32]
    assert read_buckets(["8,"]) == [8]
    assert read_buckets(["n=powers", "m=1,5"]) == {"n": "powers", "m": [1, 5]}
    assert str(Buckets(DynamicDim("n", 1, 9, 2), step=4)) == "multiples of 4"
    for texts in (["n=x"], ["8,,"], [","], ["-4"], ["4", "n=5"]):
        with pytest.raises(ValueError, match=texts[0].lstrip("-")):
            read_buckets(texts)
