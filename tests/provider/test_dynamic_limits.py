# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What dynamic dims are refused for: sizes, buffers, graphs, targets, files."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dynamic_graphs import (
    Build,
    attention,
    batches,
    batchnorm,
    check,
    convolution,
    graph,
    inner_product,
    layernorm,
    mlp,
    pointwise_nhwc,
    scalars,
    softmax,
    softmax_along,
    sums,
)
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.dynamic import at_sizes
from hipdnn_iree.graph_api.dynamic_dim import DynamicDim
from hipdnn_iree.graph_api.errors import (
    BindError,
    CompileError,
    FormatError,
    GraphError,
    NotSupportedError,
)
from hipdnn_iree.jit import support
from hipdnn_iree.jit.emit.dims import Dim, broadcast
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.engines.iree.iree_dynamic_plan import DynamicIreePlan


@pytest.mark.parametrize(
    ("sizes", "got"),
    [
        ({}, "no size"),
        ({"n": 0}, "0"),
        ({"n": 4097}, "4097"),
        ({"n": 2.0}, "2.0"),
        ({"n": True}, "True"),
        ({"n": 3, "m": 4}, "a size"),
    ],
)
def test_sizes_that_do_not_fit(sizes: dict[str, Any], got: str) -> None:
    plan = graph(mlp).build("cpu", engine="reference")
    with pytest.raises(GraphError) as caught:
        plan.with_sizes(sizes)
    (problem,) = caught.value.problems
    assert (problem.rule, problem.got) == ("DYN-03", got)


def test_buffers_that_disagree() -> None:
    def pair(g: Graph, n: DynamicDim) -> None:
        g.add(g.tensor(dims=(n, 3), name="a"), g.tensor(dims=(n, 3), name="b")).set_output()

    for engine in ("iree", "reference"):
        plan = graph(pair).build("cpu", engine=engine)
        arrays = {"a": np.ones((4, 3), np.float32), "b": np.ones((5, 3), np.float32)}
        with pytest.raises(BindError) as caught:
            plan.run(arrays)
        assert [p.rule for p in caught.value.problems] == ["DYN-04"]
        with pytest.raises(BindError, match="BIND-05"):
            plan.run(
                {name: array[:, :2].copy() for name, array in arrays.items() if name}
                | {"b": np.ones((4, 2), np.float32)}
            )


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("", {}),
        ("a b", {}),
        (3, {}),
        ("taken", {}),
        ("n", {"range": (0, 4)}),
        ("n", {"range": (4, 4)}),
        ("n", {"range": 4}),
        ("n", {"range": (1, 2**40)}),
        ("n", {"range": (1, 64), "example": 65}),
        ("n", {"range": (1, 64), "example": 1}),
        ("n", {"range": (1, 64), "example": 2.5}),
    ],
)
def test_dims_that_make_no_sense(name: Any, options: dict[str, Any]) -> None:
    g = Graph()
    g.dynamic("taken")
    with pytest.raises(GraphError, match="DYN-01"):
        g.dynamic(name, **options)


def test_there_is_no_arithmetic_with_them() -> None:
    n: Any = Graph().dynamic("n")
    with pytest.raises(TypeError):
        n * 2
    g = Graph(io_data_type="float")
    with pytest.raises(GraphError, match="PARAM-01"):
        g.reduction(g.tensor(dims=(2, 3)), mode="add", axes=[g.dynamic("m")])  # type: ignore[list-item]


def _padded(g: Graph, n: DynamicDim) -> None:
    g.relu(g.tensor(dims=(n, 3), strides=(4, 1))).set_output()


def _repeated(g: Graph, n: DynamicDim) -> None:
    g.relu(g.tensor(dims=(n, 3), strides=(0, 1))).set_output()


def _result_with_gaps(g: Graph, n: DynamicDim) -> None:
    g.relu(g.tensor(dims=(n, 3))).set_output().set_stride((4, 1))


def _given_wrongly(g: Graph, n: DynamicDim) -> None:
    g.relu(g.tensor(dims=(3, 8))).set_dim((3, n)).set_output()


def _too_small(g: Graph, n: DynamicDim) -> None:
    x, w = g.tensor(dims=(1, 2, n, 8)), g.tensor(dims=(3, 2, 3, 3))
    g.conv_fprop(x, w).set_output()


@pytest.mark.parametrize(
    ("rule", "build"),
    [
        ("DYN-02", _padded),
        ("DYN-02", _repeated),
        ("DYN-02", _result_with_gaps),
        ("DYN-05", _given_wrongly),
        ("DYN-06", _too_small),
    ],
)
def test_graphs_that_cannot_have_them(rule: str, build: Build) -> None:
    with pytest.raises(GraphError) as caught:
        graph(build).freeze()
    assert caught.value.problems[0].rule == rule


def test_results_may_be_given_as_they_follow() -> None:
    def given(g: Graph, n: DynamicDim) -> None:
        g.relu(g.tensor(dims=(n, 3))).set_dim((n, 3)).set_output()

    frozen = graph(given).freeze()
    assert frozen.tensors[frozen.outputs[0]].dynamic == ("n", "")


def _derived(g: Graph, n: DynamicDim) -> None:
    x, w = g.tensor(dims=(1, 2, n, 8)), g.tensor(dims=(3, 2, 2, 1))
    g.relu(g.conv_fprop(x, w, padding=(1, 0))).set_output()


def _statistics(g: Graph, n: DynamicDim, channels: int = 4) -> None:
    one = [g.tensor(dims=(1, channels, 1, 1)) for _ in range(2)]
    g.output(g.batchnorm(g.tensor(dims=(n, channels, 3, 3)), *one, epsilon=1e-5)[0])


def _index(g: Graph, n: DynamicDim) -> None:
    g.gen_index(g.tensor(dims=(n, 3)), axis=0).set_output().set_data_type("int32")


def _spatial(g: Graph, n: DynamicDim) -> None:
    g.conv_fprop(g.tensor(dims=(1, 2, n, 8)), g.tensor(dims=(3, 2, 1, 1))).set_output()


def _long_rows(g: Graph, n: DynamicDim) -> None:
    g.output(g.rmsnorm(g.tensor(dims=(3, n)), g.tensor(dims=(1, n)))[0])


def _causal(g: Graph, n: DynamicDim) -> None:
    q, k, v = (g.tensor(dims=(1, 2, n, 8)) for _ in range(3))
    g.output(g.sdpa(q, k, v, causal_mask=True)[0])


def _bottom(g: Graph, n: DynamicDim) -> None:
    k, v = (g.tensor(dims=(1, 2, 8, 8)) for _ in range(2))
    g.output(g.sdpa(g.tensor(dims=(1, 2, n, 8)), k, v, causal_mask_bottom_right=True)[0])


def _heads(g: Graph, n: DynamicDim) -> None:
    q, k, v = (g.tensor(dims=(1, n, 4, 8)) for _ in range(3))
    g.output(g.sdpa(q, k, v)[0])


def _channels(g: Graph, n: DynamicDim) -> None:
    others = [g.tensor(dims=(1, n, 1, 1)) for _ in range(4)]
    g.output(g.batchnorm_inference(g.tensor(dims=(2, n, 3, 3)), *others))


def _windows(g: Graph, n: DynamicDim) -> None:
    x = g.tensor(dims=(1, 2, n, 8))
    g.output(g.resample_fwd(x, resample_mode="maxpool", window=1, padding_mode="neg_inf_pad").y)


def _resized(g: Graph, n: DynamicDim) -> None:
    x = g.tensor(dims=(n, 2, 4, 8))
    g.output(g.resample_fwd(x, resample_mode="nearest", size=(8, 8)).y)


def _past_others(g: Graph, n: DynamicDim) -> None:
    """What stood before the open dim stands behind it: no view has a stride for that."""
    g.output(g.reshape(g.tensor(dims=(4, n)), (-1, 4)))


def _packed(g: Graph, n: DynamicDim) -> None:
    g.identity(g.tensor(dims=(n, 3), data_type="int4")).set_output()


@pytest.mark.parametrize(
    ("rule", "port", "build", "target"),
    [
        ("IREE-DYN-01", "y", _derived, "cpu"),
        ("IREE-DYN-02", "", _statistics, "cpu"),
        ("IREE-DYN-03", "in_0", _index, "cpu"),
        ("IREE-DYN-03", "x", _spatial, "cpu"),
        ("IREE-DYN-03", "scale", _long_rows, "cpu"),
        ("IREE-DYN-03", "q", _causal, "cpu"),
        ("IREE-DYN-03", "q", _bottom, "cpu"),
        ("IREE-DYN-03", "q", _heads, "cpu"),
        ("IREE-DYN-03", "x", _channels, "cpu"),
        ("IREE-DYN-03", "x", _windows, "cpu"),
        ("IREE-DYN-03", "x", _resized, "cpu"),
        ("IREE-DYN-03", "x", _past_others, "cpu"),
        ("IREE-DYN-04", "in_0", _packed, "cpu"),
        ("IREE-DYN-05", "b", mlp, "gfx942"),
        ("IREE-DYN-05", "a", batches, "gfx942"),
        ("IREE-DYN-05", "b", inner_product, "gfx90a"),
        ("IREE-DYN-05", "x", sums, "gfx942"),
        ("IREE-DYN-05", "x", softmax_along, "gfx942"),
        ("IREE-DYN-05", "x", layernorm, "gfx950"),
        ("IREE-DYN-05", "in_1", scalars, "gfx942"),
        ("IREE-DYN-05", "in_0", _packed, "gfx942"),
        ("IREE-DYN-05", "", convolution, "gfx942"),
        ("IREE-DYN-05", "", attention, "gfx942"),
        ("IREE-DYN-06", "", mlp, "cuda:sm_80"),
    ],
)
def test_what_is_declined(rule: str, port: str, build: Build, target: str) -> None:
    frozen = graph(build).freeze()
    found = [(p.rule, p.port) for p in support.problems(frozen, Target.parse(target))]
    assert (rule, port) in found, found
    with pytest.raises(NotSupportedError, match=rule):
        graph(build).build(target, engine="iree")  # where PyTorch is, its engine serves some


def _even_mlp(g: Graph, n: DynamicDim) -> None:
    hidden = g.gelu(g.matmul(g.tensor(dims=(n, 64)), g.tensor(dims=(64, 32))))
    g.add(g.matmul(hidden, g.tensor(dims=(32, 16))), g.tensor(dims=(1, 16))).set_output()


def _attention_block(g: Graph, n: DynamicDim) -> None:
    x = g.add(g.tensor(dims=(n, 64)), g.tensor(dims=(n, 64)))
    y = g.layernorm(x, g.tensor(dims=(1, 64)), g.tensor(dims=(1, 64)), epsilon=1e-5).y
    g.add(g.matmul(y, g.tensor(dims=(64, 64))), x).set_output()


@pytest.mark.parametrize("build", [_even_mlp, _attention_block, softmax, pointwise_nhwc, batchnorm])
def test_forms_that_were_emulated_are_served_on_gfx9(build: Build) -> None:
    frozen = graph(build, "half").freeze()
    for target in ("gfx90a", "gfx942", "gfx950"):
        assert not list(support.problems(frozen, Target.parse(target)))
    if build is _even_mlp:  # compiled once for all sizes
        plan = graph(build, "half").build("gfx942")
        assert isinstance(plan, DynamicIreePlan)
        assert plan.statistics["dispatches"] > 0


def test_code_that_depends_on_the_example_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # What the rules let slip is caught where the code is made: never a wrong number.
    monkeypatch.setattr(support, "_dynamic_problems", lambda *_: iter(()))
    # A graph of its own: choices are remembered, and other tests want it declined.
    g = Graph(io_data_type="float")
    _statistics(g, g.dynamic("n", range=(1, 4096), example=8), channels=5)
    with pytest.raises(CompileError, match="depends on the sizes") as caught:
        g.build("cpu")
    assert caught.value.stage == "lower"


def test_extents_are_products() -> None:
    n, m = Dim(8, ("n",)), Dim(5, ("m",))
    assert [str(d) for d in (n, n * 3, 2 * n, n + 0, n * m, n // 1)] == ["?"] * 6
    assert (3 * n // 3).__dict__ == n.__dict__
    assert (n * m // m).__dict__ == n.__dict__
    assert type(n * 4 // n) is int
    assert n * 4 // n == 4
    assert type(n - 1) is type(n + 1) is type(n // 3) is int
    assert (n * 6) % 3 == 0
    assert n % 3 == 2
    assert [type(d) for d in broadcast((n, 1), (1, m), (8, 1))] == [Dim, Dim]
    assert broadcast((3, 1), (4,)) == (3, 4)


def test_they_survive_a_file() -> None:
    g = graph(mlp)
    data = json.loads(g.to_json())
    assert data["dynamic_dims"] == {"n": {"range": [1, 4096], "example": 8}}
    marks = {t["uid"]: t["dynamic_dims"] for t in data["tensors"] if "dynamic_dims" in t}
    assert list(marks.values()) == [{"0": "n"}]
    back = Graph.from_json(g.to_json())
    assert back.freeze() == g.freeze()
    assert back.freeze().symbols == g.freeze().symbols
    check(back.build("cpu"), {"n": 5})
    # Without our extension the file is the graph at the examples.
    for part in (data, *data["tensors"]):
        part.pop("dynamic_dims", None)
    fixed = Graph.from_json(json.dumps(data)).freeze()
    assert fixed == at_sizes(g.freeze(), {"n": 8})


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("JSON-04", lambda d: d.update(dynamic_dims=["n"])),
        ("JSON-04", lambda d: d.update(dynamic_dims={"n": 8})),
        ("JSON-04", lambda d: d.update(dynamic_dims={"n": {"range": "1-9", "example": 8}})),
        ("JSON-04", lambda d: d.update(dynamic_dims={"n": {"range": [1, 9], "example": 1.5}})),
        ("JSON-04", lambda d: d.update(dynamic_dims={"n": {"range": [9, 1], "example": 8}})),
        ("JSON-04", lambda d: d.update(dynamic_dims={"n": {"range": [1, 9], "example": 7}})),
        ("JSON-06", lambda d: d.update(dynamic_dims={})),
        ("JSON-04", lambda d: d["tensors"][0].update(dynamic_dims=[0])),
        ("JSON-04", lambda d: d["tensors"][0].update(dynamic_dims={"7": "n"})),
        ("JSON-04", lambda d: d["tensors"][0].update(dynamic_dims={"x": "n"})),
        ("JSON-06", lambda d: d["tensors"][0].update(dynamic_dims={"0": 3})),
    ],
)
def test_files_with_bad_dynamic_dims(rule: str, change: Callable[[Any], None]) -> None:
    data = json.loads(graph(mlp).to_json())
    change(data)
    with pytest.raises(FormatError) as caught:
        Graph.from_json(json.dumps(data))
    assert rule in {p.rule for p in caught.value.problems}
