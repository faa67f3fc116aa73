# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How a graph's problems are told: all at once, in order, with hints; what else is taken."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hipdnn_iree.graph_api.enums import ConvMode, PointwiseMode, ReductionMode
from hipdnn_iree.graph_api.errors import GraphError
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.graph_api.ops.conv_fprop import ConvFprop
from hipdnn_iree.graph_api.ops.matmul import Matmul
from hipdnn_iree.graph_api.ops.pointwise import Pointwise
from hipdnn_iree.graph_api.ops.reduction import Reduction
from rule_graphs import RELU, node, pw, reduce, x


def test_all_problems_at_once_in_node_order() -> None:
    g = Graph("net", io_data_type="float")
    x4 = g.tensor(dims=(1, 6, 8, 8), name="x", strides=(1, 2))
    bad = g.tensor(dims=(0, 2), name="bad")
    w = g.tensor(dims=(4, 5, 3, 3), name="w", uid=1)
    w2 = g.tensor(dims=(4, 3, 9, 9), name="w2", uid=1)
    g.conv_fprop(g.tensor(dims=(1, 6, 8, 8)), w, stride=0, dilation=-1, name="c1")
    g.conv_fprop(g.tensor(dims=(1, 6, 8, 8)), w2, conv_mode="unset", name="c2").set_output()
    r = g.relu(g.tensor(dims=(2, 3)), upper_clip=-1, name="r1")
    r.set_dim((3, 2))
    g.exp(x4, compute_data_type="int32", name="e1").set_output()
    g.matmul(g.tensor(dims=(2, 3)), g.tensor(dims=(2, 3)), name="mm").set_output()
    g.reduction(bad, mode="add", axes=9, name="s1").set_output()
    g.reduction(g.tensor(dims=(2, 3)), mode="not_set", axes=9, name="s2").set_output()
    assert [(p.rule, p.node, p.port) for p in g.problems()] == [
        ("TENSOR-01", "", "w2"),
        ("TENSOR-04", "", "x"),
        ("TENSOR-05", "", "bad"),
        ("CONV-04", "c1", "stride"),
        ("CONV-05", "c1", "dilation"),
        ("CONV-06", "c1", "w"),
        ("CONV-09", "c2", "conv_mode"),
        ("PW-06", "r1", "relu_upper_clip"),
        ("MATMUL-02", "mm", "b"),
        ("REDUCE-01", "s2", "mode"),
        ("REDUCE-04", "s2", "axes"),
    ]
    # What follows from a mistake is not reported as another one: e1 and s1 are silent, as their
    # inputs are broken.
    with pytest.raises(GraphError) as caught:
        g.freeze()
    text = str(caught.value)
    assert text.startswith("graph 'net' breaks 11 rule(s)\n")
    assert len(text.splitlines()) == 12


def test_problems_keep_the_order_in_which_nodes_were_added() -> None:
    g = Graph(io_data_type="float")
    names = [f"n{i}" for i in range(20)]
    for name in names:
        g.pointwise(g.tensor(dims=(2,)), mode="abs", elu_alpha=1, name=name).set_output()
    assert [p.node for p in g.problems()] == names


def test_a_problem_upstream_does_not_hide_one_downstream() -> None:
    g = Graph(io_data_type="float")
    bad = g.pointwise(x(g), mode="abs", elu_alpha=1, name="up").set_dim((2, 3))
    g.reduction(bad, mode="add", axes=5, name="down").set_output()
    assert [(p.rule, p.node) for p in g.problems()] == [("PW-04", "up"), ("REDUCE-04", "down")]


def test_a_failed_graph_stays_open_and_can_be_mended() -> None:
    g = Graph(io_data_type="float")
    a = x(g, uid=3)
    y = g.relu(a, name="relu")
    for _ in range(2):
        with pytest.raises(GraphError):
            g.freeze()
    y.set_output().set_uid(3)
    assert [p.rule for p in g.problems()] == ["TENSOR-01"]
    y.set_uid(4)
    assert g.freeze().outputs == (4,)


@pytest.mark.parametrize(
    "change",
    [
        lambda g, t: t.set_output(),
        lambda g, t: t.set_name("a"),
        lambda g, t: t.set_uid(5),
        lambda g, t: t.set_data_type("half"),
        lambda g, t: t.set_dim((1,)),
        lambda g, t: t.set_stride((1,)),
        lambda g, t: g.tensor(dims=(1,)),
        lambda g, t: g.tensor_like(t),
        lambda g, t: g.scalar(1.0),
        lambda g, t: g.output(t),
        lambda g, t: g.relu(t),
        lambda g, t: g.add(t, 1.0),
        lambda g, t: g.conv_fprop(t, t),
        lambda g, t: g.matmul(t, t),
        lambda g, t: g.reduction(t, mode="add", axes=0),
        lambda g, t: g.add_node(RELU, {"in_0": t}),
    ],
)
def test_a_frozen_graph_is_closed(change: Callable[[Graph, Any], object]) -> None:
    g = Graph(io_data_type="float")
    t = x(g)
    y = g.relu(t).set_output()
    before = g.freeze()
    with pytest.raises(GraphError, match="GRAPH-07"):
        change(g, t)
    assert g.freeze() is before
    assert len(g.nodes) == 1
    assert len(g.tensors) == 2
    assert y.dims == (2, 3)


# Ops whose parameters did not go through the op methods are checked all the same.
@pytest.mark.parametrize(
    ("op", "inputs", "rule"),
    [
        (Pointwise(mode=PointwiseMode.UNSET), {"in_0": (2,)}, "PW-01"),
        (Pointwise(mode=PointwiseMode.ELU_FWD, elu_alpha=math.inf), {"in_0": (2,)}, "PW-08"),
        (Reduction(mode=ReductionMode.ADD, axes=(7,)), {"x": (2,)}, "REDUCE-04"),
        (ConvFprop(stride=(0,)), {"x": (1, 1, 4), "w": (1, 1, 2)}, "CONV-04"),
        (ConvFprop(pre_padding=(-1,)), {"x": (1, 1, 4), "w": (1, 1, 2)}, "CONV-03"),
        (ConvFprop(conv_mode=ConvMode.UNSET), {"x": (1, 1, 4), "w": (1, 1, 2)}, "CONV-09"),
    ],
)
def test_ops_made_by_hand(op: Any, inputs: dict[str, tuple[int, ...]], rule: str) -> None:
    g = Graph(io_data_type="float")
    node(g, op, {port: g.tensor(dims=dims) for port, dims in inputs.items()})
    assert rule in {p.rule for p in g.problems()}


def test_a_misspelling_gets_a_hint() -> None:
    g = Graph(io_data_type="float")
    for attempt, hint in (
        (lambda: pw(g, mode="rleu_fwd"), "did you mean 'relu_fwd'?"),
        (lambda: Graph(io_data_type="flaot"), "did you mean 'float'?"),
        (lambda: reduce(g, mode="kurtosis"), ""),
    ):
        with pytest.raises(GraphError) as caught:
            attempt()
        assert caught.value.problems[0].hint == hint


def test_handles_know_what_they_are() -> None:
    g = Graph(io_data_type="float")
    a = x(g)
    middle = g.relu(a)
    last = g.output(g.exp(middle), name="y")
    assert [t.is_output for t in (a, middle, last)] == [False, False, True]
    assert [t.virtual for t in (a, middle, last)] == [False, True, False]
    assert last.set_output(False).is_output is False
    # Uids are given on first use, the smallest that is free, and stay.
    b = g.tensor(dims=(1,), uid=1)
    assert (a.uid, b.uid, middle.uid, a.uid) == (2, 1, 3, 2)
    like = g.tensor_like(g.tensor(dims=(2, 3), strides=(1, 2), data_type="half"), name="like")
    assert (like.dims, like.strides, like.data_type.json) == ((2, 3), (1, 2), "half")
    assert (like.name, like.given_uid) == ("like", None)


def test_truth_values_need_no_arithmetic() -> None:
    """BOOLEAN is a compute type for modes that copy or look, and for nothing else."""
    g = Graph(io_data_type="boolean", compute_data_type="boolean")
    a, b = x(g), x(g)
    results = {
        "": [
            g.logical_and(a, b),
            g.logical_or(a, True),
            g.logical_not(a),
            g.identity(a),
            g.binary_select(a, b, a),
            g.gen_index(a, axis=0),
        ],
        "NODE-03": [
            g.add(a, b),
            g.cmp_eq(a, b),
            g.matmul(a, g.tensor(dims=(3, 2))),
            g.reduction(a, mode="max", axes=0),
        ],
    }
    for tensors in results.values():
        for tensor in tensors:
            tensor.set_output()
    assert [p.rule for p in g.problems()] == ["NODE-03"] * 4
    assert {p.got for p in g.problems()} == {"boolean"}
    assert [p.node for p in g.problems()] == [
        "pointwise_6",
        "pointwise_7",
        "matmul_8",
        "reduction_9",
    ]


def test_settings_at_the_edge_of_what_is_allowed() -> None:
    g = Graph(io_data_type="float")
    a = g.tensor(dims=(1,) * 8, strides=(-5, 0, 7, 2**60 - 1, 1, 1, 1, 1), uid=-(2**63))
    a.alignment = 1
    big = g.tensor(dims=(2**60 - 1,), uid=2**63 - 1)
    g.relu(a, upper_clip=3.4028234e38, lower_clip=-3.4028234e38).set_output()
    g.relu(big).set_output()
    g.conv_fprop(g.tensor(dims=(1, 1, 2)), g.tensor(dims=(1, 1, 2)), stride=2**63 - 1).set_output()
    assert g.problems() == []
    assert Graph.from_json(g.to_json()).freeze() == g.freeze()


def test_numpy_numbers_are_welcome() -> None:
    g = Graph("n", io_data_type="half", compute_data_type="float")
    image = g.tensor(
        dims=np.array([1, 4, 8, 8]), strides=np.array([256, 1, 32, 4]), uid=np.int64(9)
    )
    w = g.tensor(dims=(np.int32(4), 4, 3, 3))
    y = g.conv_fprop(image, w, padding=np.int64(1), stride=np.array([2, 2], np.uint8))
    y = g.relu(y, upper_clip=np.float32(6), lower_clip_slope=np.float64(0.1))
    y = g.mul(y, np.float16(0.5))
    y = g.reduction(y, mode="add", axes=np.array([2, 3]), is_deterministic=np.bool_(True))
    y = g.gen_index(y, axis=np.int8(1)).set_output()
    y.set_uid(np.uint16(77)).set_dim(np.array([1, 4, 1, 1])).set_stride(np.array([4, 1, 4, 4]))
    frozen = g.freeze()
    assert (frozen.inputs[0], frozen.outputs) == (9, (77,))
    assert frozen == Graph.from_json(g.to_json()).freeze()
    for spec in frozen.tensors.values():
        assert all(type(n) is int for n in (spec.uid, *spec.dims, *spec.strides))
        assert type(spec.value) in (float, type(None))


@pytest.mark.parametrize(
    "value",
    [True, [True], 1.0, [1.0], "1", ["1"], None, [None], [[1]], 2**63, [-(2**63) - 1], b"1",
     np.float32(1), np.array([1.5]), np.bool_(True), np.array([[1, 2]]), object, 1j, {"a": 1}],
    ids=repr,
)  # fmt: skip
def test_what_is_no_integer(value: Any) -> None:
    g = Graph(io_data_type="float")
    a = g.tensor(dims=(1, 1, 4, 4))
    for attempt in (
        lambda: g.tensor(dims=value) if value is not None else a.set_dim(value),
        lambda: a.set_stride(value),
        lambda: g.conv_fprop(a, a, padding=value),
        lambda: g.conv_fprop(a, a, dilation=value),
    ):
        with pytest.raises(GraphError) as caught:
            attempt()
        assert [p.rule for p in caught.value.problems] == ["PARAM-01"]
    assert g.nodes == []


def test_the_text_of_many_problems_or_long_names_stays_bearable() -> None:
    graph = Graph("n" * 100_000, io_data_type="float")
    for _ in range(300):
        graph.add_node(Matmul(), {}, name="m" * 10_000)
    with pytest.raises(GraphError) as caught:
        graph.freeze()
    assert len(caught.value.problems) > 300
    lines = str(caught.value).split("\n")
    assert len(lines) == 101
    assert all(len(line) <= 1000 for line in lines)
    assert lines[-1] == f"  ... and {len(caught.value.problems) + 1 - 100} more"


@pytest.mark.parametrize("far", [2**63 - 1, -(2**63)])
def test_strides_of_a_result_without_dims_are_checked_like_others(far: int) -> None:
    graph = Graph(io_data_type="float")
    y = graph.relu(graph.tensor(dims=(4, 1))).set_output().set_stride((1, far))
    assert y.given_dims is None
    assert [p.rule for p in graph.problems()] == ["TENSOR-05"]


def test_a_dynamic_dim_among_the_numbers_of_a_reshape() -> None:
    g = Graph(io_data_type="float")
    rows = g.dynamic("rows", example=4)
    with pytest.raises(GraphError, match=r"PARAM-01.*") as caught:
        g.reshape(g.tensor(dims=(rows, 6)), (rows, 2, 3))
    assert caught.value.problems[0].hint == "-1 stands for what is left, a dynamic dim too"
    assert g.reshape(g.tensor(dims=(rows, 6)), (-1, 2, 3)).dims == (4, 2, 3)
