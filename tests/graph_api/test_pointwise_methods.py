# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every forward pointwise mode has a readable method of Graph that makes it."""

from __future__ import annotations

import inspect
import pydoc
from typing import Any

import pytest
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.enums import PointwiseMode
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.graph_api.ops.pointwise import Pointwise
from hipdnn_iree.graph_api.ops.pointwise_methods import PointwiseMethods

FORWARD = [m for m in PointwiseMode if m.result != "backward" and m is not PointwiseMode.UNSET]
# Method names follow the mode, without the ending that tells forward from backward.
METHODS = {m: m.name.lower().removesuffix("_fwd") for m in FORWARD}
OPTIONS: dict[PointwiseMode, dict[str, Any]] = {
    PointwiseMode.RELU_FWD: {"lower_clip": -1.0, "upper_clip": 6.0, "lower_clip_slope": 0.5},
    PointwiseMode.ELU_FWD: {"alpha": 0.5},
    PointwiseMode.SOFTPLUS_FWD: {"beta": 2.0},
    PointwiseMode.SWISH_FWD: {"beta": 2.0},
    PointwiseMode.GEN_INDEX: {"axis": 1},
}


@pytest.mark.parametrize("mode", FORWARD, ids=lambda m: m.name)
def test_a_method_makes_its_mode(mode: PointwiseMode) -> None:
    g = Graph(io_data_type="float")
    operands = [g.tensor(dims=(2, 3)) for _ in range(mode.arity)]
    method = getattr(g, METHODS[mode])
    options = {"axis": 1} if mode is PointwiseMode.GEN_INDEX else {}
    method(*operands, **options).set_output()
    method(*operands, **options, compute_data_type="double", name="second").set_output()
    assert g.problems() == []
    plain, full = g.nodes
    for node in (plain, full):
        assert isinstance(node.op, Pointwise)
        assert node.op.mode is mode
        assert list(node.inputs.values()) == operands
        assert list(node.inputs) == ["in_0", "in_1", "in_2"][: mode.arity]
        assert node.op.given_attributes() == options
    assert (plain.compute_data_type, plain.name) == (DataType.UNSET, "")
    assert (full.compute_data_type, full.name) == (DataType.DOUBLE, "second")


@pytest.mark.parametrize("mode", OPTIONS, ids=lambda m: m.name)
def test_attributes_reach_the_op(mode: PointwiseMode) -> None:
    g = Graph(io_data_type="float")
    getattr(g, METHODS[mode])(g.tensor(dims=(2, 3)), **OPTIONS[mode]).set_output()
    assert g.problems() == []
    found = {
        name.removeprefix(METHODS[mode] + "_"): value
        for name, value in g.nodes[0].op.given_attributes().items()
    }
    assert found == OPTIONS[mode]
    assert set(g.nodes[0].op.given_attributes()) == set(mode.attrs)


@pytest.mark.parametrize("mode", FORWARD, ids=lambda m: m.name)
def test_methods_have_signature_and_documentation(mode: PointwiseMode) -> None:
    method = getattr(PointwiseMethods, METHODS[mode])
    assert method.__doc__
    assert method.__doc__.startswith("Return")
    parameters = list(inspect.signature(method).parameters.values())
    operands = [p for p in parameters[1:] if "Operand" in str(p.annotation)]
    assert len(operands) == mode.arity
    assert all(p.kind is p.POSITIONAL_OR_KEYWORD for p in operands)
    keywords = {p.name for p in parameters[1:] if p not in operands}
    assert keywords - {"compute_data_type", "name"} == set(OPTIONS.get(mode, {}))


def test_there_is_one_method_for_a_mode() -> None:
    methods = {n for n, f in vars(PointwiseMethods).items() if inspect.isfunction(f)} - {"cast"}
    forward = {name for name in methods if not name.endswith("_backward")}
    assert {n for n in forward if not n.endswith("_bwd")} == set(METHODS.values())


@pytest.mark.parametrize("mode", [m for m in FORWARD if m.arity >= 2], ids=lambda m: m.name)
def test_numbers_are_operands(mode: PointwiseMode) -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    x = g.tensor(dims=(2, 3))
    numbers = [0.5, True][: mode.arity - 1]
    getattr(g, METHODS[mode])(x, *numbers).set_output()
    getattr(g, METHODS[mode])(2, *numbers[:-1], x).set_output()
    frozen = g.freeze()
    assert frozen.inputs == (x.uid,)
    values = [[frozen.tensors[u].value for u in n.inputs.values()] for n in frozen.nodes]
    assert sorted(values, key=lambda v: v[0] is not None) == [
        [None, *numbers],
        [2.0, *numbers[:-1], None],
    ]


def test_every_mode_is_one_row_with_sound_facts() -> None:
    assert sorted(m.wire for m in PointwiseMode) == list(range(len(PointwiseMode)))
    assert len({m.json for m in PointwiseMode}) == len(PointwiseMode)
    for mode in PointwiseMode:
        assert mode.arity in ((0,) if mode is PointwiseMode.UNSET else (1, 2, 3))
        assert mode.result in ("math", "float", "bool", "select", "index", "backward")
        assert mode.name.endswith("_BWD") == (mode.result == "backward")
        for spelling in (mode.json, mode.json.upper(), mode.name, mode.name.lower(), mode.wire):
            assert PointwiseMode.parse(spelling) is mode


SHORTHANDS = [name for name in vars(PointwiseMethods) if not name.startswith("_")]


@pytest.mark.parametrize("name", SHORTHANDS)
def test_help_tells_every_parameter(name: str) -> None:
    """Not ``**options``, which says nothing of ``name``."""
    found = inspect.signature(getattr(Graph, name)).parameters
    assert not [p for p in found.values() if p.kind is p.VAR_KEYWORD]
    assert found["name"].default == ""
    if name != "cast":  # which computes nothing
        assert found["compute_data_type"].default is DataType.UNSET
    assert "options" not in pydoc.render_doc(getattr(Graph, name))


def test_a_call_with_too_many_arguments_names_the_method() -> None:
    g = Graph(io_data_type="float")
    with pytest.raises(TypeError, match=r"^Graph\.relu\(\) takes 2 positional arguments"):
        g.relu(g.tensor(dims=(2,)), 0.1)  # type: ignore[misc]


def test_one_parameter_beside_the_tensors_needs_no_keyword() -> None:
    """As in PyTorch and NumPy: swish(x, beta), softmax(x, axis), reduction(x, mode)."""

    def made(*calls: Any) -> str:
        g = Graph("g", io_data_type="float")
        x, dy = (g.tensor(dims=(2, 3)) for _ in "xy")
        for call in calls:
            call(g, x, dy).set_output()
        return g.freeze().digest

    assert made(
        lambda g, x, dy: g.swish(x, 1.5),
        lambda g, x, dy: g.elu(x, 1.5),
        lambda g, x, dy: g.softplus(x, 1.5),
        lambda g, x, dy: g.swish_backward(dy, x, 1.5),
        lambda g, x, dy: g.elu_backward(dy, x, 1.5),
        lambda g, x, dy: g.softplus_backward(dy, x, 1.5),
        lambda g, x, dy: g.gen_index(x, 1),
        lambda g, x, dy: g.softmax(x, 0),
        lambda g, x, dy: g.cumsum(x, 0),
        lambda g, x, dy: g.concatenate([x, dy], 1),
        lambda g, x, dy: g.reduction(x, "max", axes=0),
    ) == made(
        lambda g, x, dy: g.swish(x, beta=1.5),
        lambda g, x, dy: g.elu(x, alpha=1.5),
        lambda g, x, dy: g.softplus(x, beta=1.5),
        lambda g, x, dy: g.swish_backward(dy, x, beta=1.5),
        lambda g, x, dy: g.elu_backward(dy, x, alpha=1.5),
        lambda g, x, dy: g.softplus_backward(dy, x, beta=1.5),
        lambda g, x, dy: g.gen_index(x, axis=1),
        lambda g, x, dy: g.softmax(x, axis=0),
        lambda g, x, dy: g.cumsum(x, axis=0),
        lambda g, x, dy: g.concatenate([x, dy], axis=1),
        lambda g, x, dy: g.reduction(x, mode="max", axes=0),
    )
