# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One graph at many shapes: specialised exactly, checked by the rules, built once each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api import validate
from hipdnn_iree.graph_api.building import GraphBuilder, Node
from hipdnn_iree.graph_api.enums import PointwiseMode, ReductionMode
from hipdnn_iree.graph_api.errors import GraphError, NotSupportedError
from hipdnn_iree.graph_api.formats.json.json_form import dumps
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.graph_api.ops.base import Inferred, Ports
from hipdnn_iree.graph_api.ops.pointwise import Pointwise
from hipdnn_iree.graph_api.ops.reduction import Reduction
from hipdnn_iree.graph_api.specialise import specialise
from hipdnn_iree.graph_api.validate import Resolution
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.engine import Engine
from hipdnn_iree.provider.plan import Plan
from hipdnn_iree.provider.sweep.samples import sample_problems
from hipdnn_iree.provider.sweep.suite import Case


def check(plan: Plan, seed: int = 1) -> None:
    """Run on random data; every element must be as the reference says for the plan's graph."""
    inputs = verify.random_inputs(plan.graph, seed)
    outputs = verify.poisoned_outputs(plan.graph)
    plan.execute({**inputs, **outputs})
    report = verify.compare(plan.graph, outputs, verify.expect(plan.graph, inputs))
    assert report.ok, report


def mlp(batch: int = 4) -> Graph:
    g = Graph("mlp", io_data_type="float", compute_data_type="float")
    x, w = g.tensor(dims=(batch, 6), name="x"), g.tensor(dims=(6, 5), name="w")
    hidden = g.relu(g.matmul(x, w, name="product"))
    g.reduction(hidden, mode="add", axes=[1], name="sum").set_output().set_name("total")
    hidden.set_output().set_name("hidden")
    g.is_override_shape_enabled = True
    return g


@pytest.mark.parametrize("sample", sample_problems(), ids=lambda s: s.name)
def test_the_same_shapes_give_the_same_graph(sample: Case) -> None:
    frozen = sample.graph(sample.dtypes[0]).freeze()
    assert specialise(frozen, {}) == frozen


def test_a_graph_is_the_one_that_would_have_been_built() -> None:
    small, large = mlp(4).freeze(), mlp(9).freeze()
    x = next(u for u in small.inputs if small.tensors[u].name == "x")
    other = specialise(small, {x: ((9, 6), None)})
    assert other == large
    assert other.is_override_shape_enabled
    assert {u: s.name for u, s in other.tensors.items()} == {
        u: s.name for u, s in small.tensors.items()
    }
    # Coming from a file, where the dims of every tensor are written out, makes no difference.
    read = Graph.from_json(dumps(small)).freeze()
    assert specialise(read, {x: ((9, 6), None)}) == large


def test_each_node_is_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph of 4,096 nodes at other sizes took 2.1 s of CPU time: all was resolved twice."""
    resolved: list[str] = []
    real = validate.resolve_node

    def counted(graph: GraphBuilder, node: Node, result: Resolution) -> None:
        resolved.append(node.op.NAME)
        real(graph, node, result)

    small = mlp(4).freeze()
    x = next(u for u in small.inputs if small.tensors[u].name == "x")
    monkeypatch.setattr(validate, "resolve_node", counted)
    specialise(small, {x: ((9, 6), None)})
    assert len(resolved) == len(small.nodes)


@pytest.mark.parametrize("batch", [1, 2, 7, 64])
def test_other_sizes_are_right(batch: int) -> None:
    plan = mlp().build("cpu")
    check(plan)
    other = plan.with_shapes({"x": (batch, 6)})
    assert [other.graph.tensors[u].dims[0] for u in other.graph.outputs] == [batch, batch]
    check(other)
    assert plan.with_shapes({"x": (batch, 6)}) is other
    assert plan.with_shapes({"x": ((batch, 6), None), "hidden": (batch, 5)}).graph == other.graph


def test_strides_are_taken() -> None:
    plan = mlp().build("cpu")
    other = plan.with_shapes({"x": ((3, 6), (1, 3)), "hidden": ((3, 5), (1, 3))})
    specs = {s.name: s for s in other.graph.tensors.values()}
    assert specs["x"].strides == specs["hidden"].strides == (1, 3)
    check(other)
    padded = plan.with_shapes({"x": ((4, 6), (8, 1))})
    assert padded is not plan
    check(padded)


def test_nothing_new_is_the_plan_itself() -> None:
    plan = mlp().build("cpu")
    assert plan.with_shapes({}) is plan
    assert plan.with_shapes({"x": (4, 6), "w": ((6, 5), (5, 1))}) is plan


def test_memory_orders_and_broadcasts_stay() -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    x = g.tensor(dims=(2, 3, 4, 5), strides=(60, 1, 15, 3), name="x")
    b = g.tensor(dims=(2, 3, 1, 1), strides=(0, 1, 3, 3), name="b")
    y = g.add(x, b).set_output().set_name("y")
    plan = g.build("cpu").with_shapes({x: (5, 7, 3, 4), b: (5, 7, 1, 1)})
    specs = {s.name: s for s in plan.graph.tensors.values()}
    assert specs["x"].strides == specs["y"].strides == (84, 1, 28, 7)
    assert specs["b"].strides == (0, 1, 7, 7)
    assert y.dims == (2, 3, 4, 5)
    check(plan)


def _image(g: Graph) -> dict[Any, Any]:
    dy, w = g.tensor(dims=(2, 4, 3, 3)), g.tensor(dims=(4, 1, 3, 3))
    # Two groups, and the one of two images with this result that is not the smallest.
    g.conv_dgrad(dy, w, dx_dims=(2, 2, 6, 6), stride=2, padding=1).set_output().set_name("dx")
    return {dy: (3, 4, 3, 5)}


def _filter(g: Graph) -> dict[Any, Any]:
    x, dy = g.tensor(dims=(2, 4, 5, 5)), g.tensor(dims=(2, 6, 5, 5))
    g.conv_wgrad(dy, x, dw_dims=(6, 2, 3, 3), padding=1).set_output().set_name("dw")
    return {x: (5, 4, 4, 6), dy: (5, 6, 4, 6)}


def _diagonal(g: Graph) -> dict[Any, Any]:
    q, k, v = (g.tensor(dims=(1, 2, 4, 8)) for _ in range(3))
    # While both are as long the two diagonals are one; for other lengths they are not.
    g.output(g.sdpa(q, k, v, causal_mask_bottom_right=True)[0], name="o")
    return {q: (1, 2, 3, 8), k: (1, 2, 7, 8), v: (1, 2, 7, 8)}


def _reshaped(g: Graph) -> dict[Any, Any]:
    x = g.tensor(dims=(2, 3, 4))
    flat = g.reshape(x, dim=(6, 4))
    g.relu(g.reshape(flat, dim=(2, 3, 2, 2))).set_output().set_name("r")
    return {x: (5, 3, 4)}


def _reshaped_rest(g: Graph) -> dict[Any, Any]:
    x = g.tensor(dims=(2, 3, 4))
    g.reshape(x, dim=(-1, 2)).set_output()
    return {x: (5, 7, 2)}


def _rows(g: Graph) -> dict[Any, Any]:
    x, scale = g.tensor(dims=(3, 8)), g.tensor(dims=(1, 8))
    g.output(g.layernorm(x, scale, g.tensor(dims=(1, 8)), epsilon=1e-5)[0])
    return {x: (11, 8)}


def _column(g: Graph) -> dict[Any, Any]:
    # From a file only y's dims tell what is reduced; an extent of 1 says both.
    x = g.tensor(dims=(4, 1, 5))
    y = g.tensor(dims=(4, 1, 1))
    g.add_node(Reduction(mode=ReductionMode.ADD), {"x": x}, outputs={"y": y})
    return {x: (2, 1, 9)}


@pytest.mark.parametrize("make", [_image, _filter, _diagonal, _reshaped, _rows, _column])
@pytest.mark.parametrize("by_file", [False, True])
def test_what_does_not_follow_from_operands(
    make: Callable[[Graph], dict[Any, Any]], by_file: bool
) -> None:
    g = Graph(make.__name__, io_data_type="float", compute_data_type="float")
    shapes = {tensor.uid: dims for tensor, dims in make(g).items()}
    if by_file:
        g = Graph.from_json(g.to_json())
    plan = g.build("cpu").with_shapes(shapes)
    check(plan)
    dims = {s.name: s.dims for s in plan.graph.tensors.values()}
    if make is _image:
        assert dims["dx"] == (3, 2, 6, 10)
        named = {**shapes, "dx": (3, 2, 5, 9)}  # the other image
        check(g.build("cpu").with_shapes(named))
    if make is _reshaped:
        assert dims["r"] == (5, 3, 2, 2)
    if make is _filter:
        assert dims["dw"] == (6, 2, 3, 3)


def test_the_bottom_right_diagonal_is_not_forgotten() -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    shapes = _diagonal(g)
    plan = g.build("cpu").with_shapes(shapes)
    direct = Graph(io_data_type="float", compute_data_type="float")
    q, k, v = (direct.tensor(dims=dims) for dims in shapes.values())
    direct.output(direct.sdpa(q, k, v, causal_mask_bottom_right=True)[0])
    assert plan.graph == direct.freeze()


@pytest.mark.parametrize(
    ("shapes", "rule"),
    [
        ({99: (4, 6)}, "SHAPE-01"),
        ({"x": (4, 6, 1)}, "SHAPE-02"),
        ({"x": ((4, 6), (6,))}, "SHAPE-02"),
        ({"x": "46"}, "SHAPE-04"),
        ({"x": (4.0, 6)}, "SHAPE-04"),
        ({"x": ((4, 6), 6)}, "SHAPE-04"),
        ({"x": (0, 6)}, "TENSOR-05"),
        ({"x": (4, 7)}, "MATMUL-02"),
        ({"x": (9, 6), "hidden": (4, 5)}, "NODE-02"),
        ({"x": ((9, 6), (-6, 1))}, "TENSOR-06"),
        ({"hidden": ((4, 5), (0, 1))}, "TENSOR-07"),
    ],
)
def test_shapes_that_do_not_fit(shapes: dict[Any, Any], rule: str) -> None:
    plan = mlp().build("cpu")
    for _ in range(2):  # a failure is not remembered
        with pytest.raises(GraphError) as caught:
            plan.with_shapes(shapes)
        assert rule in {p.rule for p in caught.value.problems}, caught.value


@pytest.mark.parametrize("extent", [-1, 0, -(2**63)])
def test_an_extent_that_is_none_beside_a_broadcast_dim(extent: int) -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    x = g.tensor(dims=(2, 8, 7, 9), strides=(63, 0, 9, 1))
    g.relu(x).set_output()
    with pytest.raises(GraphError, match=r"TENSOR-05|PARAM-01"):
        specialise(g.freeze(), {x.uid: ((2, 8, 7, extent), None)})


def test_gaps_need_strides() -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    x = g.tensor(dims=(3, 4), strides=(8, 1), name="x")
    g.relu(x).set_output()
    plan = g.build("cpu")
    with pytest.raises(GraphError, match="SHAPE-03"):
        plan.with_shapes({x: (5, 4)})
    check(plan.with_shapes({x: ((5, 4), (9, 1))}))


def test_results_with_gaps_need_strides() -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    x = g.tensor(dims=(3, 4), name="x")
    y = g.relu(x).set_output().set_stride((8, 1)).set_name("y")
    plan = g.build("cpu")
    with pytest.raises(GraphError, match=r"'y' .*SHAPE-03\] got dims \[5, 4\]"):
        plan.with_shapes({x: (5, 4)})
    other = plan.with_shapes({x: (5, 4), y: ((5, 4), (10, 2))})
    assert other.graph.spec(y.uid).strides == (10, 2)
    check(other)


def test_the_rest_of_a_reshape_is_what_is_left() -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    shapes = _reshaped_rest(g)
    plan = g.build("cpu").with_shapes(shapes)
    assert plan.graph.tensors[plan.graph.outputs[0]].dims == (35, 2)
    check(plan)


@dataclass(frozen=True, kw_only=True)
class Free(Pointwise):
    """An op whose result is longer than its operand, by as much as is asked for."""

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        return {"out_0": Inferred(dims=t.given("out_0") or t.dims("in_0"))}


def test_a_result_that_does_not_follow_must_be_given() -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    x, y = g.tensor(dims=(4,), name="x"), g.tensor(dims=(6,), name="y")
    g.add_node(Free(mode=PointwiseMode.RELU_FWD), {"in_0": x}, outputs={"out_0": y})
    frozen = g.freeze()
    assert specialise(frozen, {}) == frozen
    with pytest.raises(GraphError) as caught:
        specialise(frozen, {x.uid: ((5,), None)})
    assert [(p.rule, p.port) for p in caught.value.problems] == [("SHAPE-05", "out_0")]
    other = specialise(frozen, {x.uid: ((5,), None), y.uid: ((9,), None)})
    assert other.tensors[y.uid].dims == (9,)


def test_an_engine_may_decline_other_shapes() -> None:
    g = Graph(io_data_type="half", compute_data_type="float")
    x, scale = g.tensor(dims=(4, 64, 7), name="x"), g.tensor(dims=(1, 64, 1), name="scale")
    g.rmsnorm(x, scale).y.set_output()
    plan = g.build("gfx942")
    with pytest.raises(NotSupportedError, match="IREE-NORM-01"):
        plan.with_shapes({x: (4, 300, 7), scale: (1, 300, 1)})


def test_both_engines_take_them() -> None:
    g = mlp()
    for engine in ("iree", "reference"):
        plan = g.build("cpu", engine=engine).with_shapes({"x": (7, 6)})
        assert plan.engine == g.build("cpu", engine=engine).engine
        check(plan)


def test_many_threads_build_a_shape_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from hipdnn_iree.provider import plan as plans

    plan = mlp().build("cpu")
    real, built = plans.build_pinned, []

    def build(maker: Engine, graph: FrozenGraph, *rest: Any) -> Plan:
        built.append(graph)
        return real(maker, graph, *rest)

    monkeypatch.setattr(plans, "build_pinned", build)
    found: list[Plan] = []
    ready = threading.Barrier(8)

    def work(batch: int) -> None:
        ready.wait()
        other = plan.with_shapes({"x": (batch, 6)})
        data = np.random.default_rng(batch).random((batch, 6), dtype=np.float32)
        for _ in range(20):
            total = other.run({"x": data, "w": np.ones((6, 5), np.float32)})
            expected = 5 * data.sum(1, keepdims=True)
            assert np.allclose(next(v for v in total.values() if v.shape[1] == 1), expected)
        found.append(other)

    threads = [threading.Thread(target=work, args=(5 + i % 2,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(built) == len({id(p) for p in found}) == 2
