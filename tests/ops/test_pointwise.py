# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pointwise modes: attributes, aliasing, conversions, IR."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import DataType, Graph, PointwiseMode, load
from hipdnn_iree.graph_api.ops.pointwise import Pointwise
from hipdnn_iree.jit.runtime.elements import value_dtype
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.provider.verify import expect

Run = Callable[..., Any]


CLIPS: list[tuple[dict[str, float], Any]] = [
    ({}, lambda x: np.maximum(x, 0)),
    ({"lower_clip": -1.0}, lambda x: np.maximum(x, -1)),
    ({"upper_clip": 2.0}, lambda x: np.clip(x, 0, 2)),
    ({"lower_clip_slope": 0.25}, lambda x: np.where(x > 0, x, 0.25 * x)),
    (
        {"lower_clip": -1.0, "upper_clip": 2.0, "lower_clip_slope": 0.5},
        lambda x: np.minimum(np.where(x > -1, x, -1 + 0.5 * (x + 1)), 2),
    ),
]


def test_relu_clips_and_slope(run: Run) -> None:
    graph = Graph(io_data_type="float")
    given = [graph.tensor(dims=(17,)) for _ in CLIPS]
    for t, (options, _) in zip(given, CLIPS, strict=True):
        graph.relu(t, **options).set_output()  # type: ignore[arg-type]
    x = np.linspace(-4, 4, 17, dtype=np.float32)
    for y, (options, function) in zip(run(graph, dict.fromkeys(given, x)), CLIPS, strict=True):
        np.testing.assert_array_equal(y, function(x).astype(np.float32), str(options))


def test_the_same_tensor_twice(check: Run) -> None:
    graph = Graph(io_data_type="float")
    x = graph.tensor(dims=(5, 7))
    graph.mul(x, x).set_output()
    check(graph.freeze())


def test_results_that_fold_to_an_operand(check: Run) -> None:
    graph = Graph(io_data_type="float", compute_data_type="float")
    x = graph.tensor(dims=(5, 7))
    graph.binary_select(x, x, x).set_output()
    for y in (graph.add(x, 0.0), graph.sub(x, 0.0), graph.mul(x, 1.0), graph.div(x, 1.0)):
        y.set_output()
    for y in (graph.max(x, x), graph.min(x, x), graph.relu(graph.relu(x))):
        y.set_output()
    check(graph.freeze())


def test_truth_values_that_fold_to_an_operand(check: Run) -> None:
    graph = Graph(io_data_type="boolean")
    x = graph.tensor(dims=(5, 7))
    graph.logical_and(x, x).set_output()
    graph.logical_or(x, x).set_output()
    graph.logical_not(graph.logical_not(x)).set_output()
    check(graph.freeze())


@pytest.mark.parametrize(
    "data_type",
    ["float", "half", "bfloat16", "double", "int8", "uint8", "int32", "int64", "boolean"],
)
def test_identity_as_the_only_op(data_type: str, check: Run) -> None:
    # IREE's compiler ends by SIGSEGV when an output is an input unchanged.
    graph = Graph(io_data_type=data_type)
    x = graph.tensor(dims=(5, 7))
    graph.identity(x).set_output()
    transposed = graph.identity(x).set_output()
    transposed.set_stride((1, 5))
    check(graph.freeze())


def test_an_output_that_is_also_an_intermediate(check: Run) -> None:
    graph = Graph(io_data_type="half", compute_data_type="float")
    x = graph.tensor(dims=(5, 7))
    y = graph.relu(x).set_output()
    graph.add(y, 1.5).set_output()
    check(graph.freeze())


@pytest.mark.parametrize("name", ["a b", "日本語", "1st", 'quo"te', "%0", "", "x.y::z", "\n"])
def test_any_text_is_a_name(name: str, check: Run) -> None:
    graph = Graph(name, io_data_type="float")
    x = graph.tensor(dims=(3,), name=name)
    graph.add(graph.relu(x, name=name), x, name=name).set_output().set_name(name)
    check(graph.freeze())


def test_a_graph_of_scalars_only(run: Run) -> None:
    graph = Graph(io_data_type="float", compute_data_type="float")
    graph.mul(graph.scalar(1.5), graph.scalar(-2.0)).set_output()
    (y,) = run(graph, {})
    assert y.tolist() == [-3.0]


STORED: dict[str, tuple[list[float], list[int]]] = {
    "int8": ([1.9, -1.9, 300.0, -300.0, np.inf, -np.inf], [1, -1, 127, -128, 127, -128]),
    "uint8": ([1.9, -1.9, 300.0], [1, 0, 255]),
    "int32": ([2.0**31, -(2.0**31), 3e9, 16777217.0], [2**31 - 1, -(2**31), 2**31 - 1, 2**24]),
    "int64": ([2.0**63, -1e30, 2.0**40], [2**63 - 1, -(2**63), 2**40]),
    "boolean": ([0.0, -0.0, 0.5, np.inf], [False, False, True, True]),
}


def test_stores_truncate_and_saturate(run: Run) -> None:
    graph = Graph(io_data_type="float")
    given = {}
    for target, (values, _) in STORED.items():
        x = graph.tensor(dims=(len(values),))
        graph.identity(x).set_output().set_data_type(target)
        given[x] = np.array(values, np.float32)
    found = dict(zip(STORED, [y.tolist() for y in run(graph, given)], strict=True))
    assert found == {target: stored for target, (_, stored) in STORED.items()}


@pytest.mark.parametrize("data_type", ["float", "bfloat16", "double"])
@pytest.mark.parametrize("dims", [(5, 8), (5, 9), (16, 16), (3, 7)])
def test_stores_of_transposed_uint8(run: Run, data_type: str, dims: tuple[int, int]) -> None:
    # W-105: in scalar code all values from 128 on became 127.
    graph = Graph(io_data_type=data_type)
    x = graph.tensor(dims=dims, strides=(1, dims[0]))
    graph.identity(x).set_output().set_data_type("uint8").set_stride((dims[1], 1))
    values = np.linspace(-3, 260, dims[0] * dims[1]).reshape(dims[::-1]).T
    values = values.astype(value_dtype(DataType.parse(data_type)))
    (y,) = run(graph, {x: values})
    np.testing.assert_array_equal(y, np.clip(values.astype(np.float64), 0, 255).astype(np.uint8))


def test_comparisons_write_the_type_that_is_asked_for(run: Run) -> None:
    graph = Graph(io_data_type="float")
    a, b = graph.tensor(dims=(4,)), graph.tensor(dims=(4,))
    for data_type in ("float", "int8", "boolean"):
        graph.cmp_gt(a, b).set_output().set_data_type(data_type)
    x, y = np.array([1, 2, 3, 4], np.float32), np.array([4, 3, 2, 1], np.float32)
    for result in run(graph, {a: x, b: y}):
        np.testing.assert_array_equal(result, x > y)


def test_every_mode_has_a_lowering() -> None:
    from hipdnn_iree.jit.lowering import pointwise

    tables = (pointwise.MATH, pointwise.COMPARISONS, pointwise._LOGICAL, pointwise.BACKWARD)
    covered = {mode for table in tables for mode in table}
    special = {"IDENTITY", "GEN_INDEX", "LOGICAL_NOT", "BINARY_SELECT"}
    assert {m for m in PointwiseMode if m.arity} == covered | {PointwiseMode[n] for n in special}


def test_every_mode_has_a_sample_and_is_known_to_pytorchs_engine() -> None:
    from hipdnn_iree.provider.engines.torch import pointwise as engine
    from hipdnn_iree.provider.sweep.samples import sample_problems

    modes = {m for m in PointwiseMode if m.arity}
    graphs = [s.graph(s.dtypes[0]) for s in sample_problems("pointwise")]
    ops = [node.op for graph in graphs for node in graph.nodes]
    assert {op.mode for op in ops if isinstance(op, Pointwise)} == modes
    assert {*engine.MODES, *engine._AS_THEY_ARE} == modes


def test_the_order_of_backward_operands_can_be_chosen(run: Run) -> None:
    dy, x = np.array([2, 3], np.float32), np.array([-1, 1], np.float32)
    for operands in ("dy_x", "x_dy"):
        graph = Graph(io_data_type="float")
        tensors = {"dy": graph.tensor(dims=(2,)), "x": graph.tensor(dims=(2,))}
        order = [tensors[name] for name in operands.split("_")]
        graph.pointwise(*order, mode="relu_bwd", operands=operands).set_output()
        (dx,) = run(graph, {tensors["dy"]: dy, tensors["x"]: x})
        assert dx.tolist() == [0.0, 3.0]


@pytest.mark.parametrize(("order", "expected"), [("dy_x", [0.0, 3.0]), ("x_dy", [-1.0, 1.0])])
def test_the_order_in_a_graph_file_is_a_setting(
    order: str, expected: list[float], tmp_path: Path
) -> None:
    graph = Graph(io_data_type="float")
    in_0, in_1 = graph.tensor(dims=(2,), name="in_0"), graph.tensor(dims=(2,), name="in_1")
    graph.output(graph.pointwise(in_0, in_1, mode="relu_bwd"), name="dx")
    graph.save(tmp_path / "graph.json")
    with scope(graph_backward_operands=order):
        plan = load(tmp_path / "graph.json").build("cpu")
    values = {"in_0": np.array([2, 3], np.float32), "in_1": np.array([-1, 1], np.float32)}
    (dx,) = plan.run(values).values()
    assert dx.tolist() == expected


def test_cpus_do_not_divide_for_gelu(torch_ir: Callable[..., str]) -> None:
    """Torch's own op divides by the root of 2."""
    graph = Graph("gelu", io_data_type="float", compute_data_type="float")
    graph.gelu(graph.tensor(dims=(4, 33), name="x")).set_output()
    for cpu in ("x86-64", "znver3", "sapphirerapids"):
        text = torch_ir(graph, f"cpu:{cpu}")
        assert "aten.gelu" not in text
        assert "aten.erf" in text
    assert "aten.gelu" in torch_ir(graph, "gfx942")


def test_constants_are_made_once(torch_ir: Callable[..., str]) -> None:
    graph = Graph(io_data_type="float")
    x = graph.tensor(dims=(3, 4), strides=(1, 3))
    y = graph.tensor(dims=(3, 4), strides=(1, 3))
    graph.add(x, y).set_output()
    ir = torch_ir(graph)
    assert ir.count("torch.constant.int 0") == 1
    assert ir.count("prim.ListConstruct") == 1  # one order for both operands and the result


@pytest.mark.parametrize("mode", ["identity", "mul"])
def test_doubles_become_halves_below_the_smallest_normal_one(mode: str, run: Run) -> None:
    # The CPU's own conversion makes them 0; ties and both sides of 2^-14 are among them.
    rng = np.random.default_rng(0)
    steps = np.arange(-2050, 2051) / 2.0**25
    x = np.concatenate([steps, rng.uniform(-1e-4, 1e-4, 500), [70000.0, np.inf, np.nan, -0.0]])
    g = Graph(io_data_type="double", compute_data_type="double")
    tx = g.tensor(dims=x.shape)
    y = g.identity(tx) if mode == "identity" else g.mul(tx, 3.0)
    y.set_output().set_data_type("half")
    (got,) = run(g, {tx: x})
    with np.errstate(over="ignore"):
        expected = (x if mode == "identity" else x * 3).astype(np.float16)
    np.testing.assert_array_equal(got, expected)


def test_a_remainder_is_open_where_its_quotient_is() -> None:
    # The dot product is 1 but for rounding, so that its ceiling is 1 or 2, and 1.75 mod 1.5 or 2.5.
    g = Graph(io_data_type="half", intermediate_data_type="float", compute_data_type="float")
    a, b, c = g.tensor(dims=(1, 3)), g.tensor(dims=(3, 1)), g.tensor(dims=(1, 1))
    y = g.mod(c, g.add(g.ceil(g.matmul(a, b)), 0.5)).set_output()
    values = {a: [[0.25, 0.25, 0.5]], b: [[1], [1], [1]], c: [[1.75]]}
    arrays = {t.uid: np.array(v, np.float16) for t, v in values.items()}
    found = expect(g.freeze(), arrays)
    assert found.values[y.uid] == 0.25
    assert found.low[y.uid] <= 0.25
    assert found.high[y.uid] >= 1.75
