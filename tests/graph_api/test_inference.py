# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What follows from the inputs: dims, strides, data types, compute types."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.enums import ReductionMode
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.graph_api.layout import analyse, channels_last_strides, contiguous_strides
from hipdnn_iree.graph_api.tensor import Tensor
from hipdnn_iree.graph_api.validate import accumulation_type
from hypothesis import given, settings
from hypothesis import strategies as st

Ints = tuple[int, ...]


def spec(tensor: Tensor) -> Any:
    """What was inferred for a tensor."""
    return tensor.graph.freeze().tensors[tensor.uid]


@settings(max_examples=150)
@given(data=st.data())
def test_random_graphs(recipe: Callable[..., Any], data: st.DataObject) -> None:
    made_of = recipe(data.draw)
    g, tensors = made_of.build(order=random.Random(data.draw(st.integers(0, 99))))
    frozen = g.freeze()
    for i, value in enumerate(made_of.values):
        if i not in tensors or tensors[i].uid not in frozen.tensors:
            continue  # dead
        found = frozen.tensors[tensors[i].uid]
        assert found.dims == value.dims
        assert found.strides == (value.strides or found.strides)
        assert analyse(found.dims, found.strides).dense or found.uid in frozen.inputs
        assert found.data_type is not DataType.UNSET
        assert value.data_type in ("unset", found.data_type.json)
        # The handle shows the same.
        assert (tensors[i].dims, tensors[i].strides) == (found.dims, found.strides)
        assert tensors[i].data_type is found.data_type
    outputs = {tensors[i].uid for i, v in enumerate(made_of.values) if v.output}
    assert set(frozen.outputs) == outputs
    written = {u for n in frozen.nodes for u in n.outputs.values()}
    assert set(frozen.inputs) == {
        u for u, s in frozen.tensors.items() if u not in written and s.value is None
    }
    seen = set(frozen.inputs) | {u for u, s in frozen.tensors.items() if s.value is not None}
    for node in frozen.nodes:  # producers first
        assert seen.issuperset(node.inputs.values())
        seen.update(node.outputs.values())
    assert seen == set(frozen.tensors)


# ------------------------------------------------------------------ convolution


def test_extents_of_a_convolution_by_counting() -> None:
    cases = itertools.product(range(1, 8), range(1, 4), range(3), range(3), (1, 2, 3), (1, 2, 3))
    for extent, taps, pre, post, stride, dilation in cases:
        reach = dilation * (taps - 1)
        expected = len([p for p in range(-pre, extent + post, stride) if p + reach < extent + post])
        g = Graph(io_data_type="float")
        x, w = g.tensor(dims=(2, 3, extent)), g.tensor(dims=(5, 3, taps))
        y = g.conv_fprop(
            x, w, pre_padding=pre, post_padding=post, stride=stride, dilation=dilation
        ).set_output()
        if expected:
            assert spec(y).dims == (2, 5, expected)
        else:
            assert [p.rule for p in g.problems()] == ["CONV-08"]


@pytest.mark.parametrize(
    ("image", "filter", "options", "expected"),
    [
        ((16, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}, (16, 64, 56, 56)),
        ((1, 3, 224, 224), (64, 3, 7, 7), {"padding": 3, "stride": 2}, (1, 64, 112, 112)),
        ((1, 8, 9, 9, 9), (8, 1, 3, 3, 3), {"stride": (1, 2, 3)}, (1, 8, 7, 4, 3)),
        ((1, 6, 10), (9, 2, 3), {"dilation": 2}, (1, 9, 6)),
        ((1, 1, 1, 1), (1, 1, 3, 3), {"padding": 1}, (1, 1, 1, 1)),
        ((1, 2, 5, 5), (4, 2, 2, 2), {"pre_padding": (1, 0), "post_padding": (0, 2)}, (1, 4, 5, 6)),
        ((1, 2, 5, 5), (4, 2, 3, 3), {"pre_padding": 1}, (1, 4, 5, 5)),
        ((1, 2, 5, 5), (4, 2, 3, 3), {"post_padding": 1}, (1, 4, 4, 4)),
    ],
)
def test_convolution(image: Ints, filter: Ints, options: dict[str, Any], expected: Ints) -> None:
    g = Graph(io_data_type="half")
    y = g.conv_fprop(g.tensor(dims=image), g.tensor(dims=filter), **options).set_output()
    assert spec(y).dims == expected
    op = g.freeze().nodes[0].op
    rank = len(image) - 2
    assert {len(v) for v in (op.pre_padding, op.post_padding, op.stride, op.dilation)} == {rank}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("batch", [1, 2])
def test_a_channels_last_image_gives_a_channels_last_result(channels: int, batch: int) -> None:
    dims = (batch, channels, 6, 5)
    g = Graph(io_data_type="float")
    x = g.tensor(dims=dims, strides=channels_last_strides(dims))
    w = g.tensor(dims=(8, channels, 3, 3))
    y = g.relu(g.conv_fprop(x, w, padding=1)).set_output()
    assert spec(y).strides == channels_last_strides((batch, 8, 6, 5))


def test_the_layout_of_a_result_follows_its_first_input_unless_given() -> None:
    g = Graph(io_data_type="float")
    dims = (2, 3, 4, 5)
    last = g.tensor(dims=dims, strides=channels_last_strides(dims))
    first = g.tensor(dims=dims)
    bias = g.tensor(dims=(1, 3, 1, 1))
    spread = g.tensor(dims=dims, strides=(0, 1, 0, 0))
    padded = g.tensor(dims=dims, strides=tuple(3 * s for s in channels_last_strides(dims)))
    results = {
        "a": g.add(last, first),
        "b": g.add(first, last),
        "c": g.add(bias, last),  # the first input with the dims of the result decides
        "d": g.add(spread, last),
        "e": g.relu(padded),
        "f": g.add(bias, bias),
        "g": g.relu(last).set_stride(contiguous_strides(dims)),
        "h": g.add(spread, 1.0),
        "i": g.reduction(last, mode="max", axes=(2, 3)),
        "j": g.conv_fprop(last, g.tensor(dims=(7, 3, 1, 1))),
        "k": g.conv_fprop(spread, g.tensor(dims=(7, 3, 1, 1))),
    }
    for y in results.values():
        y.set_output()
    expected = {
        **dict.fromkeys("acde", channels_last_strides(dims)),
        **dict.fromkeys("bgh", contiguous_strides(dims)),
        "f": (3, 1, 1, 1),
        "i": channels_last_strides((2, 3, 1, 1)),
        "j": channels_last_strides((2, 7, 4, 5)),
        "k": contiguous_strides((2, 7, 4, 5)),
    }
    for key, y in results.items():
        found = spec(y)
        assert analyse(found.dims, found.strides) == analyse(found.dims, expected[key]), key
        assert analyse(found.dims, found.strides).dense


def test_a_stride_of_zero_over_one_element_is_no_broadcast() -> None:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(1, 3, 4, 5), strides=(0, 1, 15, 3))
    y = g.relu(x).set_output()
    assert spec(y).strides[1:] == (1, 15, 3)


# ------------------------------------------------------------------ the other ops


def test_matmul_by_counting() -> None:
    for rank in range(2, 6):
        for a_batch in itertools.product((1, 2, 4), repeat=rank - 2):
            b_batch = tuple(random.Random(repr(a_batch)).choice((1, 2, 4)) for _ in a_batch)
            g = Graph(io_data_type="float")
            a = g.tensor(dims=(*a_batch, 3, 5))
            b = g.tensor(dims=(*b_batch, 5, 7))
            c = g.matmul(a, b).set_output()
            assert spec(c).dims == (*map(max, a_batch, b_batch), 3, 7)
            assert spec(c).strides == contiguous_strides(spec(c).dims)


@pytest.mark.parametrize("batches", [((2,), (3,)), ((4,), (6,)), ((2, 3), (4, 2))])
def test_matmul_batches_that_do_not_divide(batches: tuple[Ints, Ints]) -> None:
    g = Graph(io_data_type="float")
    a, b = (g.tensor(dims=(*batch, 2, 2)) for batch in batches)
    g.matmul(a, b).set_output()
    assert {p.rule for p in g.problems()} == {"MATMUL-03"}


@given(
    st.lists(st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=5), min_size=3, max_size=3)
)
def test_pointwise_broadcasts_as_numpy_does(shapes: list[list[int]]) -> None:
    g = Graph(io_data_type="float")
    y = g.binary_select(*(g.tensor(dims=s) for s in shapes)).set_output()
    try:
        expected = np.broadcast_shapes(*map(tuple, shapes))
    except ValueError:
        assert [p.rule for p in g.problems()] == ["PW-03"]
    else:
        assert spec(y).dims == expected


@given(st.lists(st.integers(1, 3), min_size=1, max_size=5), st.data())
def test_reduction_told_in_three_ways(dims: list[int], data: st.DataObject) -> None:
    axes = sorted(data.draw(st.sets(st.integers(0, len(dims) - 1), min_size=1)))
    expected = np.zeros(dims).sum(tuple(axes), keepdims=True).shape
    mode = data.draw(st.sampled_from([m for m in ReductionMode if m is not ReductionMode.NOT_SET]))
    graphs = []
    for given_axes in (axes, [a - len(dims) for a in reversed(axes)], None):
        g = Graph(io_data_type="float")
        y = g.reduction(g.tensor(dims=dims), mode=mode, axes=given_axes).set_output()
        if given_axes is None:
            y.set_dim(expected)
        assert spec(y).dims == expected
        graphs.append(g.freeze())
    assert graphs[0] == graphs[1] == graphs[2]
    assert len({f.digest for f in graphs}) == 1
    assert graphs[0].nodes[0].op == graphs[2].nodes[0].op
    # Dims that had extent 1 before count as reduced: it makes no difference.
    assert graphs[0].nodes[0].op.axes == tuple(i for i, d in enumerate(expected) if d == 1)


# ------------------------------------------------------------------ data types


@pytest.mark.parametrize(
    ("types", "virtual", "output", "compute"),
    [
        ({"io": "half"}, "half", "half", "float"),
        ({"io": "half", "compute": "float"}, "float", "half", "float"),
        ({"io": "half", "intermediate": "bfloat16"}, "bfloat16", "half", "float"),
        ({"io": "half", "intermediate": "half", "compute": "double"}, "half", "half", "double"),
        ({"io": "double"}, "double", "double", "double"),
        ({"io": "int8"}, "int8", "int8", "int32"),
        ({"io": "int64"}, "int64", "int64", "int64"),
        ({"io": "fp8_e4m3"}, "fp8_e4m3", "fp8_e4m3", "float"),
        ({"io": "boolean"}, "boolean", "boolean", "int32"),
    ],
)
def test_defaults(types: dict[str, str], virtual: str, output: str, compute: str) -> None:
    g = Graph(**{f"{name}_data_type": t for name, t in types.items()})
    middle = g.neg(g.tensor(dims=(2,)))
    result = g.neg(middle).set_output()
    assert spec(middle).data_type.json == virtual
    assert spec(result).data_type.json == output
    assert [n.compute_data_type.json for n in g.freeze().nodes] == [compute] * 2


def test_what_is_given_wins_over_the_defaults() -> None:
    g = Graph(io_data_type="half", compute_data_type="float", intermediate_data_type="half")
    x = g.tensor(dims=(2,), data_type="bf16")
    middle = g.neg(x, compute_data_type="double").set_data_type("float")
    result = g.output(g.neg(middle), name="y", data_type="int8")
    assert [spec(t).data_type.json for t in (x, middle, result)] == ["bfloat16", "float", "int8"]
    assert [n.compute_data_type.json for n in g.freeze().nodes] == ["double", "float"]
    assert spec(result).name == "y"


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ([], "float"),
        (["half"], "float"),
        (["half", "double"], "double"),
        (["int8", "uint8"], "int32"),
        (["int8", "int64"], "int64"),
        (["int64", "bfloat16"], "float"),
        (["boolean"], "int32"),
        (["fp4_e2m1"], "float"),
        # Not known: reported by itself, and no reason to complain about integers.
        (["unset"], "float"),
    ],
)
def test_accumulation_type(types: list[str], expected: str) -> None:
    assert accumulation_type([DataType.parse(t) for t in types]).json == expected


def test_numbers_follow_the_tensors() -> None:
    g = Graph(io_data_type="half")
    y = g.mul(g.tensor(dims=(2,)), 0.1).set_output()
    assert g.freeze().nodes[0].compute_data_type is DataType.FLOAT
    assert spec(y).data_type is DataType.HALF
    alone = Graph(io_data_type="half")
    alone.add(1.5, 2).set_output()
    assert alone.freeze().nodes[0].compute_data_type is DataType.DOUBLE
    assert alone.freeze().inputs == ()


@pytest.mark.parametrize(
    ("value", "options", "expected"),
    [
        (True, {}, ("boolean", True)),
        (3, {}, ("int64", 3)),
        (0.1, {}, ("double", 0.1)),
        (0.1, {"compute": "float"}, ("float", float(np.float32(0.1)))),
        (3, {"compute": "half"}, ("half", 3.0)),
        (1, {"own": "boolean"}, ("boolean", True)),
        (True, {"own": "float"}, ("float", 1.0)),
        (3.0, {"own": "int8"}, ("int8", 3)),
        (0.1, {"own": "bfloat16"}, ("bfloat16", 0.10009765625)),
        (0.3, {"own": "fp8_e4m3"}, ("fp8_e4m3", 0.3125)),
    ],
)
def test_scalars_are_kept_as_their_type_holds_them(
    value: Any, options: dict[str, str], expected: tuple[str, Any]
) -> None:
    g = Graph(io_data_type="double", compute_data_type=options.get("compute", "unset"))
    scalar = g.scalar(value, data_type=options.get("own", "unset"))
    g.identity(scalar, compute_data_type="float").set_output()
    found = spec(scalar)
    assert (found.data_type.json, found.value) == expected
    assert type(found.value) is type(expected[1])
    assert found.dims == found.strides == (1,)


def test_attributes_are_float32_as_in_hipdnn() -> None:
    g = Graph(io_data_type="double")
    g.elu(g.tensor(dims=(2,)), alpha=0.1).set_output()
    g.relu(g.tensor(dims=(2,)), upper_clip=6, lower_clip=np.float64(-0.0)).set_output()
    ops = {n.op.mode.name: n.op for n in g.freeze().nodes}
    assert ops["ELU_FWD"].elu_alpha == float(np.float32(0.1))
    assert repr(ops["RELU_FWD"].relu_upper_clip) == "6.0"
    assert repr(ops["RELU_FWD"].relu_lower_clip) == "-0.0"


@pytest.mark.parametrize(
    ("intermediate", "own", "wanted"),
    [
        ("unset", "float", "float"),  # or a product with 0.01 would lose its fraction
        ("unset", "half", "half"),
        ("unset", "unset", "int32"),
        ("unset", "int64", "int32"),
        ("int32", "float", "int32"),  # as it was asked for
    ],
)
def test_a_float_step_in_a_graph_of_integers_stays_float(
    intermediate: str, own: str, wanted: str
) -> None:
    g = Graph(io_data_type="int8", intermediate_data_type=intermediate, compute_data_type="int32")
    step = g.mul(g.tensor(dims=(3, 4)), g.tensor(dims=(3, 4)), compute_data_type=own)
    assert step.data_type.json == wanted
    g.output(g.identity(step))
    frozen = g.freeze()
    assert step.data_type.json == frozen.spec(step.uid).data_type.json == wanted
    assert Graph.from_json(g.to_json()).freeze() == frozen
