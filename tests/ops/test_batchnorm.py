# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch normalisation in training: sound statistics, running ones, rules, faults that must show."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import FormatError, GraphError, NotSupportedError
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.hipdnn_plugin import serving
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.cli.app import app
from hipdnn_iree.provider.graph_files import loads
from hipdnn_iree.provider.reference import expect, to_dtype
from under_settings import dump

Run = Callable[..., Any]
OVER = (0, 2, 3)


def per_channel(g: Graph, dims: tuple[int, ...], name: str, **options: Any) -> Any:
    shape = (1, dims[1], *(1 for _ in dims[2:]))
    return g.tensor(dims=shape, name=name, **{"data_type": "float", **options})


def training(
    dims: tuple[int, ...], kind: str = "float", nhwc: bool = False, **options: Any
) -> tuple[Graph, Any, Any]:
    """A graph with all results, statistics in float32; returns x and the results, too."""
    g = Graph(io_data_type=kind, compute_data_type="float")
    x = g.tensor(dims=dims, strides=channels_last_strides(dims) if nhwc else None, name="x")
    running = {
        "prev_running_mean": per_channel(g, dims, "prev_mean"),
        "prev_running_variance": per_channel(g, dims, "prev_variance"),
        "momentum": 0.25,
    }
    scale, bias = per_channel(g, dims, "scale"), per_channel(g, dims, "bias")
    r = g.batchnorm(x, scale, bias, epsilon=1e-3, name="bn", **(running | options))
    r.y.set_output()
    for tensor in r[1:]:
        if tensor is not None:
            tensor.set_output().set_data_type("float")
    return g, x, r


@pytest.mark.parametrize("nhwc", [False, True])
def test_mean_1000_deviation_1(nhwc: bool) -> None:
    # E[x²] - E[x]² in float32 has no digit left here, and a plain sum of the 65,536 elements of a
    # channel makes y wrong by 2.5e-3.
    dims = (64, 3, 32, 32)
    g, x, r = training(dims, nhwc=nhwc)
    plan = g.build("cpu")
    frozen = g.freeze()
    inputs, outputs = verify.random_inputs(frozen), verify.poisoned_outputs(frozen)
    rng = np.random.default_rng(1)
    inputs[x.uid][...] = rng.standard_normal(dims) + 1000
    node = frozen.nodes[0]
    inputs[node.inputs["scale"]][...] = 1
    inputs[node.inputs["bias"]][...] = 0
    plan.execute({**inputs, **outputs})
    wide = inputs[x.uid].astype(np.float64)
    mean, variance = wide.mean(OVER, keepdims=True), wide.var(OVER, keepdims=True)
    inverse = 1 / np.sqrt(variance + 1e-3)
    assert abs(outputs[r.mean.uid] - mean).max() < 6.2e-5  # a unit in the last place of 1000
    assert abs(outputs[r.inv_variance.uid] / inverse - 1).max() < 2e-5
    assert abs(outputs[r.y.uid] - (wide - mean) * inverse).max() < 1e-4


@pytest.mark.parametrize("nhwc", [False, True])
def test_half_precision_counts_to_65536(nhwc: bool) -> None:
    # Statistics in half precision give a mean of 0 here: the count is not even a number of it.
    dims = (64, 3, 32, 32)
    g, x, r = training(dims, "half", nhwc)
    plan = g.build("cpu")
    frozen = g.freeze()
    inputs, outputs = verify.random_inputs(frozen), verify.poisoned_outputs(frozen)
    inputs[x.uid][...] = np.random.default_rng(2).standard_normal(dims) + 1
    plan.execute({**inputs, **outputs})
    wide = inputs[x.uid].astype(np.float64)
    assert abs(outputs[r.mean.uid] - wide.mean(OVER, keepdims=True)).max() < 1e-5
    expected = 1 / np.sqrt(wide.var(OVER, keepdims=True) + 1e-3)
    assert abs(outputs[r.inv_variance.uid] - expected).max() < 2e-5
    assert verify.compare(frozen, outputs, expect(frozen, inputs)).ok


def test_the_input_is_converted_before_the_statistics(torch_ir: Callable[..., str]) -> None:
    lines = torch_ir(training((2, 3, 4, 4), "half")[0]).splitlines()
    sums = [line for line in lines if "aten.sum" in line]
    assert sums
    assert all(line.endswith("[1,3,1,1],f32>") for line in sums)


@pytest.mark.parametrize("elements", [1, 2, 5])
def test_running_variance_is_unbiased(elements: int, run: Run) -> None:
    dims = (elements, 2)
    g = Graph(io_data_type="float")
    x = g.tensor(dims=dims)
    one, zero = g.tensor(dims=(1, 2)), g.tensor(dims=(1, 2))
    r = g.batchnorm(x, one, zero, prev_running_variance=one, momentum=0.5)
    assert r.next_running_mean is None
    assert r.next_running_variance is not None
    r.next_running_variance.set_output()
    values = np.random.default_rng(3).standard_normal(dims).astype(np.float32)
    previous = np.ones((1, 2), np.float32)
    (found,) = run(g, {x: values, one: previous, zero: previous})
    now = values.astype(np.float64).var(0, ddof=min(1, elements - 1))
    assert found == pytest.approx(0.5 * 1 + 0.5 * now[None], rel=1e-6)


def test_previous_statistics_that_nothing_asks_for(check: Run) -> None:
    g, _, r = training((3, 4, 5, 5))
    for tensor in r[1:]:
        tensor.virtual = True
    check(g.freeze())


def test_epsilon_and_momentum_in_tensors(check: Run) -> None:
    g = Graph(io_data_type="half", compute_data_type="float")
    x = g.tensor(dims=(3, 4, 5, 5))
    p = per_channel(g, (3, 4, 5, 5), "p")
    r = g.batchnorm(
        x,
        p,
        p,
        epsilon=g.tensor(dims=(1,), data_type="float"),
        prev_running_mean=p,
        momentum=g.tensor(dims=(1, 1, 1, 1, 1), data_type="double"),
    )
    assert r.next_running_mean is not None
    r.y.set_output()
    r.next_running_mean.set_output()
    check(g.freeze())


def test_as_hipdnn_sends_it(check: Run) -> None:
    # Dims, strides and scalars of a graph that hipDNN's frontend made.
    g = Graph(io_data_type="float", intermediate_data_type="float", compute_data_type="float")
    dims = (3, 5, 6, 4)
    x = g.tensor(dims=dims, strides=(120, 24, 4, 1), name="x", uid=5)
    parameters = {n: per_channel(g, dims, n) for n in ("prev_mean", "prev_var", "scale", "bias")}
    r = g.batchnorm(
        x,
        parameters["scale"],
        parameters["bias"],
        epsilon=g.scalar(1e-3),
        prev_running_mean=parameters["prev_mean"],
        prev_running_variance=parameters["prev_var"],
        momentum=g.scalar(0.25),
        name="bn",
    )
    for tensor in r:
        assert tensor is not None
        tensor.set_output()
    for tensor in r[1:]:
        assert tensor is not None
        tensor.set_dim((1, 5, 1, 1)).set_stride((5, 1, 5, 5))
    check(g.freeze())
    assert Graph.from_json(g.to_json()).freeze() == g.freeze()


@pytest.mark.parametrize(("nhwc", "most"), [(False, 2), (True, 2)])
def test_few_dispatches_with_the_relu_inside(nhwc: bool, most: int, tmp_path: Path) -> None:
    g = Graph(io_data_type="half", compute_data_type="float")
    dims = (4, 16, 8, 8)
    x = g.tensor(dims=dims, strides=channels_last_strides(dims) if nhwc else None)
    r = g.batchnorm(x, per_channel(g, dims, "s"), per_channel(g, dims, "b"))
    g.relu(r.y).set_output()
    r.mean.set_output()
    statistics = dump(g.freeze(), Target.parse("cpu"), tmp_path).statistics
    assert 0 < statistics["dispatches"] <= most


FAULTS: dict[str, Callable[[np.ndarray[Any, Any]], dict[str, Any]]] = {
    "unbiased variance in y": lambda x: {"inverse": 1 / np.sqrt(x.var(OVER, ddof=1) + 1e-3)},
    "no epsilon": lambda x: {"inverse": 1 / np.sqrt(x.var(OVER))},
    "biased running variance": lambda x: {"current": x.var(OVER)},
    "momentum the other way round": lambda x: {"momentum": 0.75},
    "statistics summed in half": lambda x: {"mean": _half_mean(x)},
    "mean of the squares as variance": lambda x: {"inverse": ((x**2).mean(OVER) + 1e-3) ** -0.5},
    "no bias": lambda x: {"bias": 0.0},
}


def _half_mean(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    rows = np.moveaxis(x, 1, 0).reshape(x.shape[1], -1).astype(np.float16)
    total = np.zeros(len(rows), np.float16)
    for column in rows.T:
        total += column
    return total.astype(np.float64) / rows.shape[1]


@pytest.mark.parametrize("fault", [None, *FAULTS])
@pytest.mark.parametrize("kind", ["float", "half"])
def test_wrong_results_are_caught(fault: str | None, kind: str) -> None:
    g, _, r = training((2, 5, 6, 7), kind)
    frozen = g.freeze()
    inputs = verify.random_inputs(frozen, seed=4)
    v = {p: inputs[u].astype(np.float64) for p, u in frozen.nodes[0].inputs.items() if u in inputs}
    wide = v["x"]
    use: dict[str, Any] = {
        "mean": wide.mean(OVER),
        "inverse": 1 / np.sqrt(wide.var(OVER) + 1e-3),
        "current": wide.var(OVER, ddof=1),
        "momentum": 0.25,
        "bias": v["bias"],
    }
    use |= FAULTS[fault](wide) if fault else {}
    mean, inverse, current = (use[k].reshape(1, -1, 1, 1) for k in ("mean", "inverse", "current"))
    m = use["momentum"]
    results = {
        r.y: (wide - mean) * inverse * v["scale"] + use["bias"],
        r.mean: mean,
        r.inv_variance: inverse,
        r.next_running_mean: (1 - m) * v["prev_running_mean"] + m * mean,
        r.next_running_variance: (1 - m) * v["prev_running_variance"] + m * current,
    }
    found = {t.uid: to_dtype(a, frozen.spec(t.uid).data_type) for t, a in results.items()}
    assert verify.compare(frozen, found, expect(frozen, inputs)).ok is (fault is None)


def batchnorm(g: Graph, dims: tuple[int, ...] = (2, 3, 4), **options: Any) -> Any:
    """A training node with some inputs replaced; dims by port."""
    shapes = options.pop("shapes", {})
    usual = (1, *dims[1:2], *(1 for _ in dims[2:]))
    ports = {p: g.tensor(dims=shapes.get(p, usual), name=p) for p in ("scale", "bias")}
    r = g.batchnorm(g.tensor(dims=dims, name="x"), **ports, name="bn", **options)
    for tensor in r:
        if tensor is not None:
            tensor.set_output()
    return r


def tensor(g: Graph, *dims: int) -> Any:
    return g.tensor(dims=dims)


MISTAKES: list[tuple[str, str, Callable[[Graph], Any]]] = [
    ("BN-01", "x", lambda g: batchnorm(g, (5,), shapes={"scale": (1,), "bias": (1,)})),
    ("BN-01", "x", lambda g: batchnorm(g, (1, 2, 1, 1, 1, 1))),
    ("BN-02", "scale", lambda g: batchnorm(g, shapes={"scale": (3,)})),
    ("BN-02", "bias", lambda g: batchnorm(g, shapes={"bias": (1, 4, 1)})),
    (
        "BN-02",
        "prev_running_mean",
        lambda g: batchnorm(g, prev_running_mean=tensor(g, 1, 1, 1), momentum=0.5),
    ),
    ("BN-03", "epsilon", lambda g: batchnorm(g, epsilon=tensor(g, 3))),
    ("BN-03", "momentum", lambda g: batchnorm(g, momentum=tensor(g, 1, 2))),
    ("BN-04", "epsilon", lambda g: batchnorm(g, epsilon=-1e-5)),
    ("BN-04", "epsilon", lambda g: batchnorm(g, epsilon=float("nan"))),
    ("BN-05", "momentum", lambda g: batchnorm(g, momentum=1.5)),
    ("BN-05", "momentum", lambda g: batchnorm(g, momentum=-0.1)),
    (
        "BN-06",
        "next_running_mean",
        lambda g: batchnorm(g, prev_running_mean=tensor(g, 1, 3, 1)),
    ),
    (
        "BN-10",
        "compute_data_type",
        lambda g: batchnorm(g, epsilon=tensor(g, 1), compute_data_type="int32"),
    ),
    ("NODE-02", "mean", lambda g: batchnorm(g).mean.set_dim((3,))),
]


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(("rule", "port", "build"), MISTAKES)
def test_mistakes(rule: str, port: str, build: Callable[[Graph], Any]) -> None:
    g = Graph(io_data_type="float")
    build(g)
    assert [(p.rule, p.node, p.port) for p in g.problems()] == [(rule, "bn", port)]
    with pytest.raises(GraphError, match=rule):
        g.freeze()


def graph_json(change: Callable[[dict[str, Any]], Any]) -> str:
    g, _, _ = training((2, 3, 4, 4))
    data = json.loads(g.to_json())
    change(data["nodes"][0]["inputs"])
    return json.dumps(data)


def test_peer_stats_are_an_array_in_json() -> None:
    g, _, r = training((2, 3, 4, 4))
    node = json.loads(g.to_json())["nodes"][0]
    assert node["type"] == "BatchnormAttributes"
    assert node["inputs"]["peer_stats_tensor_uid"] == []
    assert node["outputs"]["next_running_variance_tensor_uid"] == r.next_running_variance.uid
    for change in (
        lambda i: None,
        lambda i: i.pop("peer_stats_tensor_uid"),
        lambda i: i.update(peer_stats_tensor_uid=None),
    ):
        assert Graph.from_json(graph_json(change)).freeze() == g.freeze()


@pytest.mark.parametrize(
    ("value", "rule"), [(7, "JSON-04"), ("[]", "JSON-04"), (["1"], "JSON-04"), ([999], "JSON-06")]
)
def test_peer_stats_that_are_no_array_of_uids(value: object, rule: str) -> None:
    text = graph_json(lambda i: i.update(peer_stats_tensor_uid=value))
    with pytest.raises(FormatError) as caught:
        Graph.from_json(text)
    assert [p.rule for p in caught.value.problems] == [rule]


def with_peers() -> Graph:
    def twice(inputs: dict[str, Any]) -> None:
        inputs["peer_stats_tensor_uid"] = [inputs["scale_tensor_uid"]] * 2

    return Graph.from_json(graph_json(twice))


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
@pytest.mark.parametrize("engine", ["iree", "reference"])
def test_peer_stats_are_declined_by_every_engine(engine: str, target: str) -> None:
    with pytest.raises(NotSupportedError) as caught:
        with_peers().build(target, engine=engine)
    found = {(d.problem.rule, d.problem.port) for d in caught.value.declines}
    assert ("BN-07", "peer_stats[0]") in found


def test_a_graph_with_peer_stats_can_be_shown_and_is_declined_at_applicability(
    tmp_path: Path,
) -> None:
    frozen = with_peers().freeze()
    data = encode(frozen)
    (reason,) = serving.reasons(data, Target.parse("cpu"), settings())
    assert (reason.rule, reason.node, reason.port) == ("BN-07", "bn", "peer_stats[0]")
    assert "peer_stats[0]" in loads(data).freeze().nodes[0].inputs
    file = tmp_path / "peers.bin"
    file.write_bytes(data)
    for form in ("text", "json"):
        done = CliRunner().invoke(app, ["show", str(file), "--format", form])
        assert (done.exit_code, "peer_stats" in done.output) == (0, True), done.output


def test_absent_results_are_null_in_json() -> None:
    g, _, _ = training((2, 3, 4, 4), prev_running_mean=None, prev_running_variance=None)
    node = json.loads(g.to_json())["nodes"][0]
    assert node["inputs"]["prev_running_mean_tensor_uid"] is None
    assert node["outputs"]["next_running_mean_tensor_uid"] is None


@pytest.mark.parametrize("nhwc", [False, True], ids=["nchw", "nhwc"])
def test_short_channels_compile_for_gfx9(nhwc: bool, tmp_path: Path) -> None:
    """As one kernel with a channel unrolled, this takes more than half a minute to compile."""
    g, _, _ = training((4, 16, 14, 14), "half", nhwc)
    found = dump(g.freeze(), Target.parse("gfx942"), tmp_path)
    assert found.statistics["dispatches"] <= 4
    # A channel is 784 elements of 14 x 14: unrolled, each takes several lines.
    (code,) = (tmp_path / "dispatches").glob("*.rocmasm")
    assert len(code.read_text().splitlines()) < 2500  # 1018 as counted


def test_only_short_channels_are_copied_for_gfx9(torch_ir: Run) -> None:
    for extent, target, copies in ((14, "gfx942", True), (14, "cpu", False), (28, "gfx942", False)):
        text = torch_ir(training((4, 16, extent, extent))[0], target)
        assert ("aten.cat" in text) is copies


def test_long_channels_are_not_stored_as_differences_on_gfx9(torch_ir: Run) -> None:
    # x - mean, summed and used for y, took 12.9 MB for 16x64x56x56 in half precision; made twice,
    # once with the other sign, the statistics are all that lies between the kernels (58 KB).
    for extent, target, expected in ((32, "gfx942", 1), (8, "gfx942", 0), (32, "cpu", 0)):
        text = torch_ir(training((4, 16, extent, extent), "half")[0], target)
        assert text.count("aten.neg") == expected, (extent, target)


@pytest.mark.parametrize("compute", ["half", "float"])
def test_a_variance_that_half_cannot_hold(compute: str) -> None:
    """Random graph 157024: 360,000 is infinite in half, and its inverse root 0."""
    dims = (4, 2, 5, 5)
    g = Graph(io_data_type="half", compute_data_type=compute)
    x = g.mul(g.tensor(dims=dims), 600.0)
    scale, bias = (g.tensor(dims=(1, 2, 1, 1)) for _ in range(2))
    r = g.batchnorm(x, scale, bias, epsilon=1e-3)
    r.y.set_output()
    r.inv_variance.set_output()
    found = g.build("cpu", engine="iree").verify(seed=1)
    assert found.ok
    assert all(one.unbounded == (one.elements if compute == "half" else 0) for one in found.outputs)
