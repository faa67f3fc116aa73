# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layer normalisation: statistics in the compute type, which dims are normalised, its rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_rows import check_emulated
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.enums import NormFwdPhase
from hipdnn_iree.graph_api.errors import GraphError
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.jit import support
from hipdnn_iree.jit.code_plan import plan_code
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.reference import expect
from under_settings import compile_source

Run = Callable[..., Any]


def norm(
    dims: tuple[int, ...], scale: tuple[int, ...], data_type: str = "half", **options: Any
) -> tuple[Graph, Any, Any]:
    g = Graph(io_data_type=data_type, compute_data_type="float")
    inputs = x, s, b = g.tensor(dims=dims), g.tensor(dims=scale), g.tensor(dims=scale)
    results = g.layernorm(x, s, b, forward_phase="training", **options)
    results.y.set_output()
    results.mean.set_output().set_data_type("float")
    results.inv_variance.set_output().set_data_type("float")
    return g, inputs, results


def test_rows_of_65536_halves(run: Run) -> None:
    # Summed in half precision the mean is 0 or the squares overflow.
    rng = np.random.default_rng(0)
    g, (x, s, b), _ = norm((2, 65536), (65536,))
    a = (3 + rng.standard_normal((2, 65536))).astype(np.float16)
    one, zero = np.ones(65536, np.float16), np.zeros(65536, np.float16)
    y, mean, inv = run(g, {x: a, s: one, b: zero})
    wide = a.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    assert np.abs(y - expected).max() < 3e-3
    assert np.abs(mean - wide.mean(1, keepdims=True)).max() < 1e-5
    assert np.abs(inv * np.sqrt(wide.var(1, keepdims=True) + 1e-5) - 1).max() < 1e-5


def test_an_offset_does_not_spoil_the_variance(run: Run) -> None:
    # E[x²] - E[x]² has no digit left at 10⁷ + 1 in float32.
    rng = np.random.default_rng(1)
    g, (x, s, b), _ = norm((4, 1000), (1000,), "float")
    a = (1000 + rng.standard_normal((4, 1000))).astype(np.float32)
    y, mean, inv = run(g, {x: a, s: np.ones(1000, np.float32), b: np.zeros(1000, np.float32)})
    wide = a.astype(np.float64)
    deviation = np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    assert np.abs(mean - wide.mean(1, keepdims=True)).max() < 2e-3
    assert np.abs(inv * deviation - 1).max() < 1e-5
    assert np.abs(y - (wide - wide.mean(1, keepdims=True)) / deviation).max() < 3e-3


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
def test_everything_is_computed_in_the_compute_type(target: str, torch_ir: Run) -> None:
    # Torch's own op would sum the squares of bfloat16 in bfloat16 on gfx9.
    g, _, _ = norm((4, 64), (64,), "bfloat16")
    lines = torch_ir(g, target).splitlines()
    assert not any("aten.layer_norm" in line or "native_layer_norm" in line for line in lines)
    computed = [line for line in lines if "aten.mul" in line or "aten.sum" in line]
    assert computed
    assert all(line.endswith("f32>") for line in computed)


def test_gfx9_gets_rows_of_whole_wavefronts(torch_ir: Run) -> None:
    g, _, _ = norm((3, 5, 100), (100,))
    text = torch_ir(g, "gfx942")
    assert "[15,128],f32" in text
    assert "aten.lt.Scalar" in text  # zeros behind the end do not count in the variance
    assert "128]" not in torch_ir(norm((3, 5, 100), (100,))[0], "cpu")


def dims_of(tensor: Any) -> Any:
    return tuple(tensor.dims)


@pytest.mark.parametrize(
    ("scale", "count", "statistics"),
    [
        ((7,), 0, (2, 6, 5, 1)),
        ((1, 1, 1, 7), 0, (2, 6, 5, 1)),
        ((1, 6, 5, 7), 0, (2, 1, 1, 1)),
        ((6, 1, 1), 0, (2, 1, 5, 7)),
        ((7,), 2, (2, 6, 1, 1)),
        ((1,), 3, (2, 1, 1, 1)),
    ],
)
def test_which_dims_are_normalised(
    scale: tuple[int, ...], count: int, statistics: tuple[int, ...]
) -> None:
    g, _, results = norm((2, 6, 5, 7), scale, normalized_dim_count=count)
    g.freeze()
    assert dims_of(results.y) == (2, 6, 5, 7)
    assert dims_of(results.mean) == dims_of(results.inv_variance) == statistics


def test_a_count_that_says_what_scale_says_is_the_same_graph() -> None:
    first, second = (norm((4, 6), (6,), normalized_dim_count=n)[0].digest for n in (0, 1))
    assert first == second
    assert norm((4, 6), (1,), normalized_dim_count=1)[0].digest != first


def test_json_has_the_phase_as_a_number() -> None:
    g, _, _ = norm((4, 6), (6,))
    (node,) = json.loads(g.to_json())["nodes"]
    assert node["type"] == "LayernormAttributes"
    assert node["forward_phase"] == 2
    assert node["normalized_dim_count"] == 0
    assert set(node["inputs"]) == {f"{p}_tensor_uid" for p in ("x", "scale", "bias", "epsilon")}
    again = Graph.from_json(g.to_json())
    assert again.digest == g.digest
    inference = Graph(io_data_type="float")
    s = inference.tensor(dims=(6,))
    inference.layernorm(inference.tensor(dims=(4, 6)), s, s).y.set_output()
    (node,) = json.loads(inference.to_json())["nodes"]
    assert node["forward_phase"] == 1
    assert node["outputs"]["mean_tensor_uid"] is None


def test_no_phase_is_told_from_the_outputs() -> None:
    g, _, _ = norm((4, 6), (6,))
    text = g.to_json().replace('"forward_phase": 2', '"forward_phase": 0')
    text = text.replace('"forward_phase":2', '"forward_phase":0')
    assert Graph.from_json(text).digest == g.digest


def test_a_fault_in_the_result_is_found() -> None:
    g, _, results = norm((3, 64), (64,))
    frozen = g.freeze()
    inputs = verify.random_inputs(frozen)
    expected = expect(frozen, inputs)
    y, mean, inv = (t.uid for t in results)
    good = {
        u: expected.values[u].astype(verify.poisoned_outputs(frozen)[u].dtype)
        for u in (y, mean, inv)
    }
    assert verify.compare(frozen, good, expected).ok
    x = inputs[frozen.inputs[0]].astype(np.float64)
    unbiased = 1 / np.sqrt(x.var(1, ddof=1, keepdims=True) + 1e-5)
    in_half = np.add.accumulate(x.astype(np.float16), axis=1, dtype=np.float16)[:, -1:] / 64
    faults: list[tuple[int, Any]] = [
        (inv, unbiased),
        (mean, in_half),
        (y, good[y].astype(np.float64) * 1.004),
        (inv, good[inv].astype(np.float64) + 5e-6 * 2),
    ]
    for uid, value in faults:
        bad = {**good, uid: np.asarray(value).astype(good[uid].dtype)}
        assert not verify.compare(frozen, bad, expected).ok, uid


Build = Callable[[Graph], Any]


def plain(g: Graph, *scale: int, x: tuple[int, ...] = (4, 6), **options: Any) -> None:
    s = g.tensor(dims=scale or (6,), name="scale")
    g.layernorm(g.tensor(dims=x, name="x"), s, s, **options).y.set_output()


def phased(g: Graph, phase: NormFwdPhase, *outputs: str) -> None:
    from hipdnn_iree.graph_api.ops.layernorm import Layernorm

    s = g.tensor(dims=(6,))
    inputs = {"x": g.tensor(dims=(4, 6)), "scale": s, "bias": s, "epsilon": 1e-5}
    for t in g.add_node(Layernorm(forward_phase=phase), inputs, outputs=outputs).values():
        t.set_output()


def short_bias(g: Graph) -> None:
    x, s, b = g.tensor(dims=(4, 6)), g.tensor(dims=(6,)), g.tensor(dims=(5,))
    g.layernorm(x, s, b).y.set_output()


def gradient(g: Graph, *ports: str, dy: tuple[int, ...] = (4, 6), **dims: tuple[int, ...]) -> None:
    x, s = g.tensor(dims=(4, 6)), g.tensor(dims=(6,))
    more: dict[str, Any] = {p: g.tensor(dims=dims.get(p, (4, 1))) for p in ports}
    g.layernorm_backward(g.tensor(dims=dy), x, s, **more).dx.set_output()


MISTAKES: list[tuple[str, str, Build]] = [
    ("ROWNORM-01", "compute_data_type", lambda g: plain(g, compute_data_type="int32", epsilon=1)),
    ("ROWNORM-02", "scale", lambda g: plain(g, 1)),
    ("ROWNORM-02", "normalized_dim_count", lambda g: plain(g, normalized_dim_count=3)),
    ("ROWNORM-02", "normalized_dim_count", lambda g: plain(g, normalized_dim_count=-1)),
    ("ROWNORM-03", "scale", lambda g: plain(g, 5)),
    ("ROWNORM-03", "scale", lambda g: plain(g, 1, 4, 6)),
    ("ROWNORM-03", "scale", lambda g: plain(g, 4, 6, normalized_dim_count=1)),
    ("ROWNORM-03", "bias", short_bias),
    ("ROWNORM-05", "epsilon", lambda g: plain(g, epsilon=-1e-5)),
    ("ROWNORM-05", "epsilon", lambda g: plain(g, epsilon=g.tensor(dims=(6,)))),
    ("ROWNORM-06", "mean", lambda g: phased(g, NormFwdPhase.INFERENCE, "y", "mean")),
    ("ROWNORM-06", "inv_variance", lambda g: phased(g, NormFwdPhase.NOT_SET, "y", "mean")),
    ("ROWNORM-06", "mean", lambda g: phased(g, NormFwdPhase.TRAINING, "y", "inv_variance")),
    ("ROWNORM-04", "mean", lambda g: gradient(g, "mean", "inv_variance", mean=(4, 6))),
    ("ROWNORM-07", "dy", lambda g: gradient(g, "mean", "inv_variance", dy=(4, 1))),
    ("ROWNORM-08", "mean", lambda g: gradient(g, "mean")),
    ("ROWNORM-08", "epsilon", gradient),
]


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(("rule", "port", "build"), MISTAKES)
def test_mistakes_are_told(rule: str, port: str, build: Build) -> None:
    g = Graph(io_data_type="float")
    build(g)
    with pytest.raises(GraphError) as caught:
        g.freeze()
    assert (rule, port) in {(p.rule, p.port) for p in caught.value.problems}


LONG = (4, 20, 7, 9)  # rows of 1260


def test_long_rows_in_pieces_are_copied_on_gfx9() -> None:
    # W-076: the compiler unrolls such a row for one thread, for minutes.
    graph = Graph(io_data_type="half", compute_data_type="float")
    x, dy = (graph.tensor(dims=LONG, strides=channels_last_strides(LONG)) for _ in range(2))
    scale, bias = (graph.tensor(dims=(1, *LONG[1:])) for _ in range(2))
    graph.layernorm(x, scale, bias)[0].set_output()
    for result in graph.layernorm_backward(dy, x, scale, epsilon=1e-5):
        result.set_output()
    check_emulated(graph)
    materialised = [
        node.materialised for node in plan_code(graph.freeze(), Target.parse("gfx942")).nodes
    ]
    assert materialised == [("x",), ("x",)]
    assert "W-076" not in plan_code(graph.freeze(), Target.parse("cpu")).workarounds


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_long_rows_over_other_dims_are_declined_on_gfx9(target: str) -> None:
    graph = Graph(io_data_type="half", compute_data_type="float")
    x = graph.tensor(dims=(4, 300, 7))
    scale, bias = (graph.tensor(dims=(1, 300, 1)) for _ in range(2))
    graph.layernorm(x, scale, bias)[0].set_output()
    (problem,) = support.problems(graph.freeze(), Target.parse(target))
    assert (problem.rule, problem.port) == ("IREE-NORM-01", "x")
    assert "300" in problem.got
    assert not list(support.problems(graph.freeze(), Target.parse("cpu")))


@pytest.mark.parametrize(("op", "dispatches"), [("layernorm", 2), ("rmsnorm", 1)])
def test_gfx9_completes_rows_while_it_reads_them(
    op: str, dispatches: int, torch_ir: Callable[..., str]
) -> None:
    # 4096 rows of 1000 did not compile: "failed to distribute", behind a copy with padding.
    def graph(n: int) -> Graph:
        g = Graph(io_data_type="half", compute_data_type="float")
        x, s = g.tensor(dims=(4096, n)), g.tensor(dims=(1, n))
        made = g.layernorm(x, s, s) if op == "layernorm" else g.rmsnorm(x, s)
        made.y.set_output()
        return g

    compiled = compile_source(graph(1000).freeze(), Target.parse("gfx942"))
    found = compiled.statistics
    assert (found["dispatches"], found["fills"], found["copies"]) == (dispatches, 0, 0)
    assert found["transient_bytes"] == (8 * 1024 if op == "layernorm" else 0)
    assert "--iree-opt-const-expr-hoisting=false" in compiled.key.ingredients["flags"]
    assert "index_select" in torch_ir(graph(1000), "gfx942")
    for n, target in ((1024, "gfx942"), (1000, "cpu")):
        assert "index_select" not in torch_ir(graph(n), target)


def test_rows_over_two_dims_in_another_order_beside_their_sum() -> None:
    """W-128, emulated: of the sums of three subgroups one was read (random graph 21014)."""
    g = Graph(io_data_type="half", compute_data_type="float")
    by_columns = (192, 1, 32)
    x, s, b = g.tensor(dims=(2, 32, 6)), g.tensor(dims=(32, 6)), g.tensor(dims=(32, 6))
    g.layernorm(x, s, b).y.set_output().set_stride(by_columns)
    other = g.relu(g.tensor(dims=(2, 32, 6)))
    g.sub(other, g.reduction(other, mode="add", axes=(1, 2))).set_output().set_stride(by_columns)
    check_emulated(g)


@pytest.mark.parametrize(
    ("dims", "strides"), [((1, 32, 6), (192, 1, 32)), ((1, 8, 4, 6), (192, 24, 1, 4))]
)
def test_one_row_over_several_dims_in_another_order(
    dims: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    """W-128, emulated (random graph 320730): what materialises it left its dims apart."""
    g = Graph(io_data_type="float")
    x, scale = g.tensor(dims=dims, strides=strides), g.tensor(dims=dims)
    y = g.layernorm(x, scale, scale, epsilon=1e-5).y.set_output()
    y.set_stride(strides)
    dy = g.tensor(dims=dims, strides=strides)
    back = g.layernorm_backward(dy, x, scale, epsilon=1e-5)
    for value in (back.dx, back.dscale, back.dbias):
        value.set_output()
    check_emulated(g)


def test_what_is_added_up_is_materialised_where_sums_would_be_lost(
    torch_ir: Callable[..., str],
) -> None:
    """W-128: before each of the two sums, and not for rows that stay in one piece."""
    for strides, copies in (((192, 1, 32), 2), ((192, 6, 1), 0)):
        g, _, results = norm((2, 32, 6), (32, 6))
        results.y.set_stride(strides)
        assert torch_ir(g, "gfx942").count("aten.cat") == copies


def test_sums_of_subgroups_are_lost_where_the_dims_of_a_row_stay_apart() -> None:
    """W-128, where some value is in another order, or is given two dims."""

    def added_up(g: Graph, *, by_columns: bool) -> None:
        x = g.relu(g.tensor(dims=(2, 32, 6)))
        y = g.sub(x, g.reduction(x, mode="add", axes=(1, 2))).set_output()
        y.strides = (192, 1, 32) if by_columns else (192, 6, 1)

    def split(g: Graph, *, by_columns: bool) -> None:
        y = g.rmsnorm(g.tensor(dims=(2, 192)), g.tensor(dims=(1, 192))).y
        y = g.reshape(y, dim=(2, 32, 6)).set_output()
        y.strides = (192, 1, 32) if by_columns else (192, 6, 1)

    for build in (added_up, split):
        for by_columns in (True, False):
            graph = Graph(io_data_type="half", compute_data_type="float")
            build(graph, by_columns=by_columns)
            assert (
                "W-128" in plan_code(graph.freeze(), Target.parse("gfx942")).workarounds
            ) is by_columns
