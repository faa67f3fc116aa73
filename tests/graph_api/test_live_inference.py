# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Handles show what follows while a graph is written, and calls that are certainly wrong raise."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from custom_ops import ERF, graph_of
from hipdnn_iree import Graph
from hipdnn_iree.graph_api import inference
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.errors import GraphError, NotSupportedError
from hipdnn_iree.graph_api.graph import Graph as ModelGraph
from hipdnn_iree.graph_api.layout import channels_last_strides, contiguous_strides
from hipdnn_iree.graph_api.tensor import Tensor
from hipdnn_iree.graph_api.validate import resolve
from hypothesis import given, settings
from hypothesis import strategies as st


def shown(tensor: Tensor) -> Any:
    return tensor.dims, tensor.strides, tensor.data_type


def resolved(g: ModelGraph) -> dict[int, Any]:
    """What resolving the whole graph says of each tensor."""
    views = resolve(g).views
    return {id(t): (v.dims, v.strides, v.data_type) for t in g.tensors if (v := views.get(id(t)))}


def assert_up_to_date(g: ModelGraph) -> None:
    """Where strides that were set have another rank by now, a resolution goes on with its own."""
    sound = [t for t in g.tensors if len(t.given_strides or ()) in (0, len(t.dims or ()))]
    expected = resolved(g)
    known = [t for t in sound if id(t) in expected]
    assert {id(t): shown(t) for t in known} == {id(t): expected[id(t)] for t in known}


def test_strides_of_another_rank_are_shown_as_they_were_set() -> None:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(2,))
    y = g.abs(x).set_stride((1,)).set_output()
    x.set_dim((3, 3))
    assert (y.dims, y.strides) == ((3, 3), (1,))
    assert [p.rule for p in g.problems()] == ["TENSOR-04"]
    assert_up_to_date(g)


# ------------------------------------------------------------------------- what is shown


@settings(max_examples=80)
@given(data=st.data())
def test_handles_show_what_freeze_infers(recipe: Callable[..., Any], data: st.DataObject) -> None:
    order = random.Random(data.draw(st.integers(0, 99)))
    g, _ = recipe(data.draw).build(order=order, kind=Graph)
    before = {id(t): shown(t) for t in g.tensors}
    frozen = g.freeze()
    for tensor in g.tensors:
        if tensor.uid in frozen.tensors:
            assert before[id(tensor)] == shown(tensor)


@settings(max_examples=80)
@given(data=st.data())
def test_setters_change_what_follows(recipe: Callable[..., Any], data: st.DataObject) -> None:
    """Whatever is set, on inputs and on results, the handles agree with a fresh resolution."""
    g, _ = recipe(data.draw).build(kind=Graph)
    kinds = st.sampled_from(["float", "half", "int32", "unset"])
    for _ in range(data.draw(st.integers(1, 6))):
        tensor = data.draw(st.sampled_from(g.tensors))
        dims = tensor.dims or (2, 3)
        what = data.draw(st.sampled_from(["dims", "strides", "type", "output", "io", "other"]))
        if what == "dims":
            axis = data.draw(st.integers(0, len(dims) - 1))
            tensor.set_dim([d + (i == axis) for i, d in enumerate(dims)])
        elif what == "strides":
            tensor.set_stride(data.draw(st.permutations(contiguous_strides(dims))))
        elif what == "type":
            tensor.set_data_type(data.draw(kinds))
        elif what == "output" and g.is_produced(tensor):
            tensor.set_output(data.draw(st.booleans()))
        elif what == "io":
            g.io_data_type = data.draw(kinds)
        else:
            tensor.dims = tensor.strides = None
        if data.draw(st.booleans()):
            assert_up_to_date(g)
    assert_up_to_date(g)


def test_shapes_at_once() -> None:
    g = Graph(io_data_type="half", compute_data_type="float")
    dims = (4, 3, 33, 31)
    x = g.tensor(dims=dims, strides=channels_last_strides(dims), name="x")
    assert x.strides == channels_last_strides(dims)
    y = g.conv_fprop(x, g.tensor(dims=(7, 3, 5, 1)), stride=2, padding=(1, 0))
    assert y.dims == y.shape == (4, 7, 16, 16)
    assert y.strides == channels_last_strides((4, 7, 16, 16))
    assert y.data_type is DataType.FLOAT
    assert repr(y.set_name("y")) == "<Tensor 'y': float[4,7,16,16]>"
    assert repr(y.set_output()) == "<Tensor 'y': half[4,7,16,16]>"
    m, v = g.sub(y, 1.0), g.reduction(y, mode="avg", axes=(2, 3))
    assert (m.dims, v.dims) == ((4, 7, 16, 16), (4, 7, 1, 1))
    assert "y: half[4,7,16,16] (output) = conv_fprop(x=x: half[4,3,33,31]" in repr(g)
    like = g.tensor_like(m)
    assert (like.given_dims, like.given_strides) == (m.dims, m.strides)


def test_what_is_not_known_yet() -> None:
    g = Graph(io_data_type="float")
    x = g.tensor(name="x")
    y = g.relu(x)
    assert (x.dims, y.dims, y.strides) == (None, None, None)
    with pytest.raises(GraphError, match="set_dim") as caught:
        y.shape  # noqa: B018
    assert [p.rule for p in caught.value.problems] == ["TENSOR-13"]
    assert repr(y) == "<Tensor '': float[?]>"
    x.set_dim((2, 3))
    assert (y.dims, y.strides) == ((2, 3), (3, 1))
    dx = g.conv_dgrad(g.tensor(dims=(1, 4, 5, 5)), g.tensor(dims=(4, 3, 3, 3)), stride=2)
    z = g.relu(dx)
    assert (dx.dims, z.dims) == (None, None)
    dx.set_dim((1, 3, 12, 12))
    assert z.dims == (1, 3, 12, 12)
    dx.dims = (1, 3, 11, 11)
    assert z.dims == (1, 3, 11, 11)


def test_a_tensor_that_is_read_before_it_is_written() -> None:
    g = Graph(io_data_type="float")
    late = g.tensor(virtual=True)
    y = g.relu(late)
    assert y.dims is None
    g.add_node(g.nodes[0].op, {"in_0": g.tensor(dims=(5,))}, outputs={"out_0": late})
    assert (late.dims, y.dims) == ((5,), (5,))
    assert_up_to_date(g)


def test_a_cycle_has_no_dims() -> None:
    g = ModelGraph(io_data_type="float")
    a, b = g.tensor(virtual=True), g.tensor(virtual=True)
    g.relu(g.tensor(dims=(2,)))
    op = g.nodes[0].op
    g.add_node(op, {"in_0": a}, outputs={"out_0": b})
    g.add_node(op, {"in_0": b}, outputs={"out_0": a})
    assert (a.dims, b.dims) == (None, None)
    assert "GRAPH-03" in {p.rule for p in g.problems()}


# ---------------------------------------------------------------------------- what it costs


@pytest.fixture
def resolutions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes that are resolved from here on."""
    made: list[str] = []
    real = inference.resolve_node

    def counted(graph: Any, node: Any, found: Any) -> None:
        made.append(node.name)
        real(graph, node, found)

    monkeypatch.setattr(inference, "resolve_node", counted)
    return made


def test_each_call_resolves_one_node(resolutions: list[str]) -> None:
    g = Graph(io_data_type="float")
    y = g.tensor(dims=(2, 3))
    for i in range(300):
        y = g.relu(y, name=f"r{i}").set_name(f"y{i}").set_output()
        y.set_data_type("float")
        assert y.shape == (2, 3)
    assert len(resolutions) <= 2 * 300  # once more where a setter was called and the shape read
    made = len(resolutions)
    g.tensors[0].set_dim((4, 3))
    assert y.shape == (4, 3)
    assert len(resolutions) == made + 300
    g.freeze()
    assert y.shape == (4, 3)
    assert len(resolutions) == made + 300


def test_a_deep_graph_without_recursion(resolutions: list[str]) -> None:
    g = ModelGraph(io_data_type="float")  # resolves nothing before it is asked
    y = g.tensor(dims=(2, 3))
    for _ in range(3000):
        y = g.relu(y)
    assert not resolutions
    assert y.dims == (2, 3)
    assert len(resolutions) == 3000


def test_files_are_read_without_it(resolutions: list[str]) -> None:
    model = ModelGraph(io_data_type="float")
    model.matmul(model.tensor(dims=(2, 3)), model.tensor(dims=(3, 4)), name="mm").set_output()
    data = json.loads(model.to_json())
    next(t for t in data["tensors"] if t["dims"] == [3, 4])["dims"] = [5, 4]
    resolutions.clear()
    g = Graph.from_json(json.dumps(data))
    assert not resolutions
    (problem,) = g.problems()
    assert (problem.rule, problem.at) == ("MATMUL-02", "")
    g.relu(g.nodes[0].outputs["c"])  # a call on a broken graph that is not itself wrong
    assert [p.rule for p in g.problems()] == ["MATMUL-02"]


# ------------------------------------------------------------------------- wrong calls

WRONG: dict[str, tuple[str, Callable[[Graph], Any]]] = {
    "matmul": ("MATMUL-02", lambda g: g.matmul(g.tensor(dims=(2, 3)), g.tensor(dims=(2, 3)))),
    "channels": (
        "CONV-06",
        lambda g: g.conv_fprop(g.tensor(dims=(1, 6, 8, 8)), g.tensor(dims=(4, 5, 3, 3))),
    ),
    "bias": ("PW-03", lambda g: g.add(g.tensor(dims=(2, 3)), g.tensor(dims=(4,)))),
    "axes": ("REDUCE-04", lambda g: g.reduction(g.tensor(dims=(2, 3)), mode="add", axes=5)),
    "elements": ("RESHAPE-03", lambda g: g.reshape(g.tensor(dims=(2, 3)), dim=(5,))),
    "order": ("TRANSPOSE-01", lambda g: g.transpose(g.tensor(dims=(2, 3)), permutation=(0, 2))),
    "compute": ("PW-07", lambda g: g.exp(g.tensor(dims=(2,)), compute_data_type="int32")),
    "compute type": ("NODE-03", lambda g: g.neg(g.tensor(dims=(2,)), compute_data_type="fp8_e5m2")),
    "extent": ("TENSOR-05", lambda g: g.relu(g.tensor(dims=(0, 3)))),
    "strides": ("TENSOR-04", lambda g: g.relu(g.tensor(dims=(2, 3), strides=(1,)))),
    "overlap": ("TENSOR-06", lambda g: g.relu(g.tensor(dims=(2, 3), strides=(1, 1)))),
    "other graph": ("GRAPH-04", lambda g: g.relu(Graph(io_data_type="float").tensor(dims=(2,)))),
    "no input": ("NODE-01", lambda g: g.add_node(g.nodes[0].op, {})),
    "scalar": ("PW-03", lambda g: g.add(g.mul(g.tensor(dims=(2,)), 2.0), g.tensor(dims=(3,)))),
    "later": (
        "MATMUL-02",
        lambda g: g.matmul(g.exp(g.neg(g.tensor(dims=(2, 3)))), g.tensor(dims=(4, 3))),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_raises_and_changes_nothing(name: str) -> None:
    rule, call = WRONG[name]
    g = Graph("net", io_data_type="float")
    x = g.tensor(dims=(2, 3))
    kept = g.relu(x).set_output()
    with pytest.raises(GraphError, match="graph 'net' breaks 1 rule") as caught:
        call(g)
    (problem,) = caught.value.problems
    assert problem.rule == rule
    assert problem.at.startswith(f"{__file__}:")
    assert str(problem).endswith(f" at {problem.at}")
    assert problem.as_dict()["at"] == problem.at
    before = len(g.nodes)
    results = {id(t) for node in g.nodes for t in node.outputs.values()}
    assert {id(t) for t in g.tensors if t.virtual} <= results
    assert all(g.is_produced(t) is (id(t) in results) for t in g.tensors)
    g.neg(kept).set_output()
    assert len(g.nodes) == before + 1
    model = ModelGraph("net", io_data_type="float")  # in the model the same is found at validate
    model.relu(model.tensor(dims=(2, 3)))
    call(model)  # type: ignore[arg-type]
    assert rule in {p.rule for p in model.problems()}


MENDED: dict[str, tuple[Callable[[Graph], Any], Callable[[Graph, Any], Any]]] = {
    "the type of an operand": (
        lambda g: g.moe_grouped_matmul(
            g.tensor(dims=(1, 8, 4)), g.tensor(dims=(2, 4, 4)), g.tensor(dims=(2, 1, 1), name="o")
        ),
        lambda g, y: next(t for t in g.tensors if t.name == "o").set_data_type("int32"),
    ),
    "the graph's compute type": (
        lambda g: g.exp(g.tensor(dims=(2,), data_type="int32")),
        lambda g, y: setattr(g, "compute_data_type", "float"),
    ),
    "dims of a gradient": (
        lambda g: g.conv_wgrad(g.tensor(dims=(1, 4, 6, 6)), g.tensor(dims=(1, 3, 8, 8))),
        lambda g, y: y.set_dim((4, 3, 3, 3)),
    ),
    "dims of a reshape": (
        lambda g: g.reshape(g.tensor(dims=(2, 3))),
        lambda g, y: y.set_dim((3, 2)),
    ),
    "reduced dims": (
        lambda g: g.reduction(g.tensor(dims=(2, 3)), mode="add"),
        lambda g, y: y.set_dim((2, 1)),
    ),
    "a size": (
        lambda g: g.resample_fwd(g.tensor(dims=(1, 2, 4, 4)), resample_mode="nearest").y,
        lambda g, y: y.set_dim((1, 2, 8, 8)),
    ),
    "the default size of a gradient that is read": (
        lambda g: g.add(
            g.conv_dgrad(
                g.tensor(dims=(1, 4, 5, 5)), g.tensor(dims=(4, 3, 3, 3)), name="dgrad"
            ).set_name("dx"),
            g.tensor(dims=(1, 6, 7, 7)),
        ),
        lambda g, y: next(t for t in g.tensors if t.name == "dx").set_dim((1, 6, 7, 7)),
    ),
}


@pytest.mark.parametrize("name", MENDED)
def test_what_a_later_call_can_mend_is_left_for_validate(name: str) -> None:
    call, mend = MENDED[name]
    g = Graph(io_data_type="float")
    y = call(g)
    y = y if isinstance(y, Tensor) else y.y
    y.set_output()
    broken = g.problems()
    assert broken
    assert all(p.at.startswith(f"{__file__}:") for p in broken if p.node)
    mend(g, y)
    assert g.problems() == []
    assert_up_to_date(g)


def test_types_that_come_last() -> None:
    g = Graph()
    y = g.exp(g.matmul(g.tensor(dims=(2, 3)), g.tensor(dims=(3, 4)))).set_output()
    assert (y.dims, y.data_type) == ((2, 4), DataType.UNSET)
    g.io_data_type = "half"  # type: ignore[assignment]
    assert y.data_type is DataType.HALF
    g.freeze()


def test_errors_name_the_line_of_a_script(tmp_path: Path) -> None:
    script = tmp_path / "net.py"
    script.write_text(
        "from hipdnn_iree import Graph\n"
        "g = Graph('net', io_data_type='float')\n"
        "def layer(x, w):\n"
        "    y = g.matmul(x, w, name='up')\n"
        "    return y\n"
        "x = g.tensor(dims=(2, 3))\n"
        "y = layer(x, g.tensor(dims=(3, 4)))\n"
        "y.set_dim((5, 5)).set_output()\n"
    )
    names: dict[str, Any] = {}
    exec(compile(script.read_text(), str(script), "exec"), names)
    with pytest.raises(GraphError) as caught:
        names["g"].freeze()
    (problem,) = caught.value.problems
    assert (problem.rule, problem.at) == ("NODE-02", f"{script}:4")
    with pytest.raises(GraphError) as caught:
        exec(compile("\n\nlayer(x, x)", str(script), "exec"), names)
    assert caught.value.problems[0].at == f"{script}:4"
    names["y"].set_dim((2, 4))
    assert [node.at for node in names["g"].freeze().nodes] == [f"{script}:4"]


def test_later_errors_name_the_line_too() -> None:
    g = graph_of(ERF)  # an op of name "mine", which the reference cannot know
    line = g.nodes[0].at
    assert line.partition(":")[0].endswith("custom_ops.py")
    with pytest.raises(NotSupportedError) as caught:
        g.build("cpu", engine="reference")
    assert caught.value.__notes__ == [f"node 'mine' was added at {line}"]
