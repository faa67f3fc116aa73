# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Wild calls: whatever a script does to a graph, it hears of it by ``GraphError`` only."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hipdnn_iree.graph_api.draw import to_dot, to_mermaid
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.enums import ConvMode, PointwiseMode, ReductionMode
from hipdnn_iree.graph_api.errors import FormatError, GraphError
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.graph_api.layout import analyse
from hipdnn_iree.graph_api.ops.conv_fprop import ConvFprop
from hipdnn_iree.graph_api.ops.matmul import Matmul
from hipdnn_iree.graph_api.ops.pointwise import Pointwise
from hipdnn_iree.graph_api.ops.reduction import Reduction
from hipdnn_iree.graph_api.tensor import Tensor
from hypothesis import given, settings
from hypothesis import strategies as st

Draw = Callable[..., Any]

JUNK = st.sampled_from(
    [None, True, False, "", "x", "3", b"1", 1.5, math.nan, math.inf, -math.inf, 10**5000, 2**63,
     [], [None], [[1]], ["a"], (), {}, object(), 1j, np.float32(2), np.array([1, 2]),
     np.array(1.5), np.bool_(True), DataType.FLOAT, PointwiseMode.ADD, "\ud800"]
)  # fmt: skip
EXTENT = st.sampled_from([1, 1, 2, 2, 3, 4, 6, 8, 0, -1, 2**31, 2**62, 2**63 - 1, -(2**63)])
INTS = st.lists(EXTENT, max_size=6) | EXTENT
SMALL = st.lists(st.integers(1, 4), min_size=1, max_size=5)
FITTING = [(2, 2), (1, 2), (3, 2), (2, 1, 2), (1, 2, 2), (1, 2, 3, 3), (4, 2, 2, 2), (2, 1, 3, 3)]
NUMBER = st.floats() | st.integers() | st.booleans()
TYPE = st.sampled_from([*(t.json for t in DataType), *DataType, "f31", "", None, 1])
NAME = st.text(max_size=5) | st.sampled_from(["", "x", "a b", 'q"<>\n', "\ud800"])


def maybe(draw: Draw, usual: Any, seldom: Any = JUNK) -> Any:
    """A draw that is wrong now and then."""
    return draw(usual) if draw(st.integers(0, 19)) else draw(seldom)


def options(draw: Draw, table: dict[str, Any]) -> dict[str, Any]:
    return {name: maybe(draw, usual) for name, usual in table.items() if draw(st.booleans())}


NODE = {"compute_data_type": st.sampled_from(["float", "double", "int32", "half"]), "name": NAME}
PARAMETERS: dict[str, dict[str, Any]] = {
    "conv_fprop": {
        "padding": st.integers(0, 2) | INTS,
        "pre_padding": INTS,
        "post_padding": INTS,
        "stride": st.integers(1, 2) | INTS,
        "dilation": st.integers(1, 2) | INTS,
        "conv_mode": st.sampled_from([*ConvMode, "CONVOLUTION", "x", 1]),
    },
    "matmul": {},
    "reduction": {"axes": st.integers(-3, 3) | INTS, "is_deterministic": st.booleans()},
    "pointwise": {
        "relu_lower_clip": NUMBER,
        "relu_upper_clip": NUMBER,
        "relu_lower_clip_slope": NUMBER,
        "swish_beta": NUMBER,
        "elu_alpha": NUMBER,
        "softplus_beta": NUMBER,
        "axis": EXTENT,
    },
}
MODES = {
    "reduction": st.sampled_from([*ReductionMode, "add", "MAX", "max_op", "x", 4]),
    "pointwise": st.sampled_from([*PointwiseMode, "relu_fwd", "add", "max", "x", 2]),
}
OPERANDS = {"conv_fprop": 2, "matmul": 2, "reduction": 1, "pointwise": 3}


class Script:
    """Draws statements on a graph and runs them; wrong ones are refused by ``GraphError``."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.graph = Graph("g", io_data_type="float")
        self.other = Graph(io_data_type="float")
        self.tensors: list[Tensor] = [self.graph.tensor(dims=(2, 3))]

    def run(self, statements: int) -> None:
        # Half of the scripts make no mistakes but in what they combine.
        kinds = (self.fitting, self.fitting, self.result)
        if self.draw(st.booleans()):
            kinds = (self.tensor, self.fitting, self.scalar, self.change, self.op, self.node)
        for _ in range(statements):
            try:
                self.draw(st.sampled_from(kinds))()
            except GraphError as error:
                assert error.problems  # noqa: PT017
                str(error)

    def fitting(self) -> None:
        self.tensors.append(self.graph.tensor(dims=self.draw(st.sampled_from(FITTING))))

    def result(self) -> None:
        """Call an op on the newest tensors; about every second call fits."""
        method = self.draw(st.sampled_from(sorted(OPERANDS)))
        chosen: dict[str, Any] = {}
        if method in MODES:
            chosen["mode"] = self.draw(st.sampled_from(["add", "max"]))
        if method == "reduction":
            chosen["axes"] = self.draw(st.integers(-2, 1))
        if method == "conv_fprop":
            chosen["padding"] = self.draw(st.integers(0, 2))
        count = 2 if method == "pointwise" else OPERANDS[method]
        operands = [self.draw(st.sampled_from(self.tensors[-4:])) for _ in range(count)]
        self.tensors.append(getattr(self.graph, method)(*operands, **chosen).set_output())

    def tensor(self) -> None:
        strange = {
            "strides": INTS,
            "data_type": TYPE,
            "uid": st.integers(0, 3) | EXTENT,
            "virtual": st.booleans(),
            "name": NAME,
        }
        chosen = options(self.draw, strange) if self.draw(st.integers(0, 3)) == 0 else {}
        graph = self.graph if self.draw(st.integers(0, 19)) else self.other
        dims = self.draw(SMALL) if self.draw(st.integers(0, 5)) else maybe(self.draw, INTS)
        self.tensors.append(graph.tensor(dims=dims, **chosen))

    def scalar(self) -> None:
        chosen = options(self.draw, {"data_type": TYPE, "name": NAME, "uid": EXTENT})
        self.tensors.append(self.graph.scalar(maybe(self.draw, NUMBER), **chosen))

    def change(self) -> None:
        t = self.draw(st.sampled_from(self.tensors))
        setters: dict[str, Any] = {
            "set_output": st.booleans(),
            "set_name": NAME,
            "set_uid": EXTENT,
            "set_data_type": TYPE,
            "set_dim": INTS | SMALL,
            "set_stride": INTS,
        }
        name = self.draw(st.sampled_from(sorted(setters)))
        getattr(t, name)(maybe(self.draw, setters[name]))

    def operand(self) -> Any:
        if self.draw(st.integers(0, 9)) == 0:
            return maybe(self.draw, NUMBER)
        return self.draw(st.sampled_from(self.tensors[-3:] + self.tensors))

    def op(self) -> None:
        method = self.draw(st.sampled_from(sorted(OPERANDS)))
        count = OPERANDS[method]
        chosen = options(self.draw, PARAMETERS[method] if self.draw(st.booleans()) else {})
        chosen |= options(self.draw, NODE)
        if method in MODES:
            chosen["mode"] = maybe(self.draw, MODES[method])
        if method == "pointwise":
            mode = chosen["mode"]
            count = mode.arity if isinstance(mode, PointwiseMode) and mode.arity else 2
        if method == "reduction" and self.draw(st.booleans()):
            chosen["axes"] = self.draw(st.integers(-2, 1))
        operands = [self.operand() for _ in range(count)]
        result = getattr(self.graph, method)(*operands, **chosen)
        if self.draw(st.booleans()):
            result.set_output()
        self.tensors.append(result)

    def node(self) -> None:
        """Wire a node by hand: any tensors at any ports, cycles and all."""
        relu = Pointwise(mode=PointwiseMode.RELU_FWD)
        add = Pointwise(mode=PointwiseMode.ADD)
        reduce = Reduction(mode=ReductionMode.ADD, axes=(0,))
        op = self.draw(st.sampled_from([relu, relu, add, reduce, Matmul(), ConvFprop()]))
        tensors = st.sampled_from(self.tensors)
        inputs = {
            p.name: maybe(self.draw, tensors) for p in op.INPUTS if self.draw(st.integers(0, 9))
        }
        if self.draw(st.integers(0, 9)) == 0:
            inputs["z"] = self.draw(tensors)
        outputs: Any = self.draw(st.sampled_from(["own", "given", "given", "strange"]))
        if outputs == "own":
            outputs = None
        elif outputs == "given":
            outputs = {p.name: maybe(self.draw, tensors) for p in op.OUTPUTS}
        else:
            outputs = self.draw(st.sampled_from([[], ["z"], {"z": self.tensors[0]}, ["y", "c"]]))
        self.tensors += self.graph.add_node(op, inputs, outputs=outputs).values()


@settings(max_examples=300)
@given(st.data())
def test_wild_scripts(data: st.DataObject) -> None:
    script = Script(data.draw)
    script.run(data.draw(st.integers(1, 12)))
    g = script.graph
    before = repr(g)
    problems = g.problems()
    assert repr(g) == before  # checking changes nothing
    try:
        frozen = g.freeze()
    except GraphError as error:
        assert list(error.problems) == problems  # noqa: PT017
        assert problems
        for problem in problems:
            assert all([problem.rule, problem.got, problem.wanted])
        return
    assert not problems
    for spec in frozen.tensors.values():
        assert all(type(n) is int and n >= 1 for n in spec.dims)
        assert len(spec.dims) == len(spec.strides)
        assert analyse(spec.dims, spec.strides).span * 8 < 2**63
    for node in frozen.nodes:
        dims = [frozen.tensors[u].dims for u in node.inputs.values()]
        (result,) = (frozen.tensors[u].dims for u in node.outputs.values())
        assert result == expected_dims(node.op, dims, result)
    assert repr(frozen)
    assert to_dot(frozen)
    assert to_mermaid(frozen)
    try:
        text = g.to_json()
    except FormatError as error:
        assert [p.rule for p in error.problems] == ["JSON-08"]  # noqa: PT017
    else:
        assert Graph.from_json(text).freeze() == frozen


def expected_dims(op: Any, dims: list[tuple[int, ...]], result: tuple[int, ...]) -> Any:
    if isinstance(op, Pointwise):
        shapes = [d for d in dims if math.prod(d) < 2**40]
        return np.broadcast_shapes(*shapes) if len(shapes) == len(dims) else result
    if isinstance(op, Matmul):
        a, b = dims
        return (*map(max, a[:-2], b[:-2]), a[-2], b[-1])
    if isinstance(op, Reduction):
        assert op.axes is not None
        return tuple(1 if i in op.axes else d for i, d in enumerate(dims[0]))
    x, w = dims
    extents = [
        (x[i + 2] + op.pre_padding[i] + op.post_padding[i] - op.dilation[i] * (w[i + 2] - 1) - 1)
        // op.stride[i]
        + 1
        for i in range(len(x) - 2)
    ]
    return (x[0], w[0], *extents)


def test_checking_takes_steps_in_proportion_to_the_nodes(
    steps: Callable[[Callable[[], object]], int],
) -> None:
    def chain(count: int) -> Graph:
        g = Graph(io_data_type="float")
        t = g.tensor(dims=(2, 3))
        for _ in range(count):
            t = g.relu(t)
        t.set_output()
        return g

    def check(g: Graph) -> None:
        assert len(g.freeze().digest) == 64

    check(chain(5))
    few, many = (steps(functools.partial(check, chain(count))) for count in (300, 1500))
    assert many < 5.2 * few  # 4.995 as counted


@pytest.mark.parametrize("count", [2, 30])
def test_the_same_tensor_at_every_port(count: int) -> None:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(4, 4))
    y = x
    for _ in range(count):
        y = g.add(y, y)
    y = g.matmul(y, y)
    y = g.binary_select(y, y, y).set_output()
    frozen = g.freeze()
    assert frozen.inputs == (x.uid,)
    assert len(frozen.nodes) == count + 2
    assert set(frozen.nodes[-1].inputs) == {"in_0", "in_1", "in_2"}


def test_an_output_that_is_also_an_intermediate() -> None:
    g = Graph(io_data_type="float")
    middle = g.relu(g.tensor(dims=(2,))).set_output()
    last = g.exp(middle).set_output()
    frozen = g.freeze()
    assert frozen.outputs == (middle.uid, last.uid)
    assert len(frozen.inputs) == 1
