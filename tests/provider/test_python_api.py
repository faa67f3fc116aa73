# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The conveniences of a script: operators, compositions, plans that are called and verified."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hipdnn_iree
import numpy as np
import pytest
from hipdnn_iree import BindError, Graph, GraphError, Plan, Tensor, errors
from hipdnn_iree.provider.selection.select import _say_once

RNG = np.random.default_rng(17)


def floats(*dims: int) -> Any:
    return RNG.standard_normal(dims).astype(np.float32)


def run(g: Graph, data: dict[Tensor, Any]) -> Any:
    """The one result, by the reference engine, which compiles nothing."""
    (found,) = g.build("cpu", engine="reference").run(data).values()
    return found


# ---------------------------------------------------------------------------- public names


def test_every_error_has_a_public_name() -> None:
    from hipdnn_iree.graph_api import errors as tree

    assert errors.__all__ == tree.__all__
    for name in errors.__all__:
        assert getattr(errors, name) is getattr(tree, name)
        if name != "TriedAttempt":
            assert getattr(hipdnn_iree, name) is getattr(tree, name)


def test_every_enum_is_exported() -> None:
    from hipdnn_iree.graph_api import enums

    assert [n for n in enums.__all__ if n != "ModeEnum" and not hasattr(hipdnn_iree, n)] == []


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: hipdnn_iree.Grpah, "Graph"),
        (lambda: hipdnn_iree.GraphErorr, "GraphError"),
        (lambda: setattr(Graph(), "io_datatype", "half"), "io_data_type"),
        (lambda: Graph(io_data_type="flaot"), "float"),
        (lambda: floor_graph().build("cpu", engine="refrence"), "reference"),
        (lambda: floor_graph().build("cpu", prefer="Torch_CPU_ENGINE"), "TORCH_CPU_ENGINE"),
        (lambda: floor_graph().build("cpu", engine="reference").run({"imput": 0}), "input"),
    ],
)
def test_misspelt_names(call: Callable[[], Any], meant: str) -> None:
    with pytest.raises((AttributeError, ValueError), match=f"did you mean '{meant}'"):
        call()


def floor_graph() -> Graph:
    g = Graph(io_data_type="float")
    g.floor(g.tensor(dims=(3,), name="input")).set_output()
    return g


def grid(call: Callable[[Graph, Tensor], Any]) -> str:
    """Return what is told of a call with a tensor of rank 4."""
    g = Graph(io_data_type="float")
    with pytest.raises((AttributeError, GraphError, TypeError)) as caught:
        call(g, g.tensor(dims=(2, 3, 4, 5), name="x"))
    return str(caught.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda g, x: g.reduction(x, mode="mean", axes=(1,)), "did you mean 'avg'?"),
        (lambda g, x: g.reduction(x, mode="Sum", axes=(1,)), "did you mean 'add'?"),
        (lambda g, x: g.tensor(dims=(2,), data_type="float8"), "did you mean 'fp8_e4m3'?"),
        (lambda g, x: x @ g.tensor(dims=(5, 6)), "linear multiplies any x by a matrix"),
        (lambda g, x: x @ g.tensor(dims=(5,)), "give a vector a second dim of 1"),
        (lambda g, x: g.reduction(x, mode="max").shape, "axes"),
        (lambda g, x: x.T, "has no attribute 'T'; g.transpose"),
        (lambda g, x: x.foo, "has no attribute 'foo'"),
        (lambda g, x: x[0], "g.slice"),
    ],
)
def test_habits_of_other_libraries(call: Callable[[Graph, Tensor], Any], words: str) -> None:
    assert words in grid(call)


def test_no_word_is_meant_where_there_is_none_like_it() -> None:
    """`sum` is a mode of reductions; a pointwise op has none of that name, nor one like it."""
    assert "did you mean" not in grid(lambda g, x: g.pointwise(x, mode="mean"))


def test_a_subclass_may_have_attributes_of_its_own() -> None:
    class Named(Graph):
        def __init__(self, owner: str) -> None:
            super().__init__(io_data_type="float")
            self.owner = owner

    g = Named("me")
    g.relu(g.tensor(dims=(3,))).set_output()
    assert g.owner == "me"
    assert len(g.freeze().nodes) == 1
    with pytest.raises(AttributeError, match=r"Graph has no attribute 'owner'$"):
        Graph().owner = "me"  # type: ignore[attr-defined]


def test_a_preferred_engine_that_declines_says_so(caplog: pytest.LogCaptureFixture) -> None:
    g = Graph(io_data_type="double")
    g.cumsum(g.tensor(dims=(7, 2)), axis=0).set_output()
    _say_once.cache_clear()  # another test may have had it said
    with caplog.at_level(logging.WARNING, "hipdnn_iree.selection"):
        g.build("cpu", prefer="torch", require_precompiled=False, engine=None, policy="order")
    served = any(c.name == "TORCH_CPU_ENGINE" and c.served for c in g.plans("cpu"))
    assert served or "TORCH_CPU_ENGINE was preferred, and declines: " in caplog.text


# ------------------------------------------------------------------------------- operators


def test_operators() -> None:
    a, b, c = floats(5, 3), floats(3, 7), floats(7)
    g = Graph(io_data_type="float")
    x, w, bias = g.tensor(dims=(5, 3)), g.tensor(dims=(3, 7)), g.tensor(dims=(7,))
    y = -(x @ w + bias) * 2 - 1 / (abs(bias) + np.float32(1)) ** 2
    y = 3 - y + (2**bias) / 4 - (0.5 + bias * np.float64(2))
    y.set_output()
    expected = -(a @ b + c) * 2 - 1 / (abs(c) + 1) ** 2
    expected = 3 - expected + (2**c) / 4 - (0.5 + c * 2)
    np.testing.assert_allclose(run(g, {x: a, w: b, bias: c}), expected, rtol=1e-5, atol=1e-5)
    assert {node.op.NAME for node in g.nodes} == {"matmul", "pointwise"}
    assert x != w
    assert len({x, w, x}) == 2


def test_operators_refuse_what_no_graph_holds() -> None:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(2, 3))
    for call in (lambda: x + floats(2, 3), lambda: floats(2, 3) + x, lambda: np.ones(3) * x):
        with pytest.raises(GraphError, match=r"(?s)PARAM-03\] got array.*tensor\(dims=\.\.\.\)"):
            call()
    with pytest.raises(GraphError, match="PARAM-03"):
        x * "2"  # type: ignore[operator]
    with pytest.raises(GraphError, match="MATMUL-02"):
        x @ x
    assert g.nodes == []
    assert g.tensors == [x]


@pytest.mark.parametrize("axis", [-1, 0, 1, -3])
def test_softmax(axis: int) -> None:
    a = floats(3, 5, 7)
    g = Graph(io_data_type="float")
    x = g.tensor(dims=a.shape, strides=(1, 21, 3))
    g.softmax(g.relu(x), axis=axis, name="soft").set_output()
    assert [n.name for n in g.nodes[1:]] == [
        f"soft.{part}" for part in ("max", "shift", "exp", "sum", "divide")
    ]
    powers = np.exp(np.maximum(a, 0).astype(np.float64))
    data = laid_out(x, a)
    np.testing.assert_allclose(run(g, {x: data}), powers / powers.sum(axis, keepdims=True), 1e-5)


def laid_out(x: Tensor, values: Any) -> Any:
    """An array of the values with the tensor's strides."""
    assert x.strides is not None
    array = np.ndarray(
        values.shape,
        np.float32,
        np.zeros(values.size, np.float32).data,
        strides=[4 * s for s in x.strides],
    )
    array[...] = values
    return array


@pytest.mark.parametrize("dims", [(3,), (5, 3), (2, 5, 3), (1, 2, 5, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(dims: tuple[int, ...], bias: bool) -> None:
    a, b, c = floats(*dims), floats(3, 7), floats(7)
    g = Graph(io_data_type="float")
    x, w, v = g.tensor(dims=dims), g.tensor(dims=(3, 7)), g.tensor(dims=(7,))
    y = g.linear(x, w, v) if bias else g.linear(x, w)
    assert y.set_output().dims == (*dims[:-1], 7)
    expected = a.astype(np.float64) @ b + (c if bias else 0)
    found = run(g, {x: a, w: b, **({v: c} if bias else {})})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("rule", "call"),
    [
        ("COMPOSE-01", lambda g: g.softmax(g.tensor())),
        ("COMPOSE-01", lambda g: g.linear(g.tensor(name="x"), g.tensor(dims=(3, 7)))),
        ("COMPOSE-02", lambda g: g.linear(g.tensor(dims=(2, 3)), g.tensor())),
        ("COMPOSE-02", lambda g: g.linear(g.tensor(dims=(2, 3)), g.tensor(dims=(1, 3, 7)))),
        ("COMPOSE-03", lambda g: g.softmax(g.tensor(dims=(2, 3)), axis=2)),
        ("COMPOSE-03", lambda g: g.softmax(g.tensor(dims=(2, 3)), axis=-3)),
        ("PARAM-01", lambda g: g.softmax(g.tensor(dims=(2, 3)), axis=0.5)),
        ("MATMUL-02", lambda g: g.linear(g.tensor(dims=(2, 4)), g.tensor(dims=(3, 7)))),
    ],
)
def test_compositions_that_do_not_fit(rule: str, call: Callable[[Graph], Any]) -> None:
    g = Graph(io_data_type="float")
    with pytest.raises(GraphError, match=rule):
        call(g)
    assert g.nodes == []


def test_positional_dims_and_permutations() -> None:
    g = Graph(io_data_type="float")
    y = g.transpose(g.reshape(g.tensor(dims=(2, 3, 5)), (6, -1)), (1, 0))
    assert y.dims == (5, 6)


def test_several_results_hint_at_one() -> None:
    g = Graph(io_data_type="float")
    x, scale = g.tensor(dims=(2, 3)), g.tensor(dims=(1, 3))
    found = g.layernorm(x, scale, scale)
    hint = r"LayernormResult \(y, mean, inv_variance\).*take one of its results, \.y for example"
    for call in (
        lambda: g.relu(found),
        lambda: found + x,
        lambda: x + found,
        lambda: g.output(found),
    ):
        with pytest.raises(GraphError, match=hint):
            call()
    with pytest.raises(AttributeError, match=r"'set_output': it is a tuple of y, mean, inv_var"):
        found.set_output()
    with pytest.raises(AttributeError, match=r"'LayernormResult' has no attribute 'z'$"):
        found.z  # noqa: B018
    with pytest.raises(GraphError, match="take one of its elements"):
        g.relu((x, x))
    assert g.relu(found.y).dims == (2, 3)


# ----------------------------------------------------------------------------------- plans


@pytest.fixture
def made() -> tuple[Plan, Tensor, Tensor]:
    g = Graph("plan", io_data_type="half", compute_data_type="float")
    x = g.tensor(dims=(3, 5), name="x")
    y = g.output(g.exp(x * 0.5), name="y")
    return g.build("cpu", engine="reference"), x, y


def test_a_plan_is_called(made: tuple[Plan, Tensor, Tensor]) -> None:
    plan, x, y = made
    data = floats(3, 5).astype(np.float16)
    expected = plan.run({x: data})[y]
    for found in (plan({x: data}), plan({"x": data}), plan({x.uid: data}), plan(x=data)):
        np.testing.assert_array_equal(found["y"], expected)
    with pytest.raises(BindError, match="PLAN-01"):
        plan(z=data)


def test_random_inputs_by_seed(made: tuple[Plan, Tensor, Tensor]) -> None:
    plan, x, _ = made
    one, same, other = (plan.random_inputs(seed)[x.uid] for seed in (1, 1, 2))
    assert (one.shape, one.dtype) == ((3, 5), np.float16)
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_verify(made: tuple[Plan, Tensor, Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    plan, x, _ = made
    for inputs in (None, {x: floats(3, 5).astype(np.float16)}, {"x": np.zeros((3, 5), np.half)}):
        report = plan.verify(inputs)
        assert report.ok
        assert [o.name for o in report.outputs] == ["y"]
    strided = np.asfortranarray(floats(3, 5).astype(np.float16))
    assert plan.verify({x: strided}, seed=3).ok
    for wrong in ({}, {x: np.zeros((3, 5))}, {x: np.zeros((5, 3), np.half)}):
        with pytest.raises(BindError):
            plan.verify(wrong)
    real = plan._bind

    def off_by_one(buffers: Any, *more: Any) -> Callable[[], None]:
        call = real(buffers, *more)

        def then() -> None:
            call()
            buffers[plan.graph.outputs[0]][1, 2] += 1

        return then

    monkeypatch.setattr(plan, "_bind", off_by_one)
    report = plan.verify()
    assert not report.ok
    assert (report.outputs[0].wrong, report.outputs[0].worst) == (1, (1, 2))


def test_verify_with_scalars_and_dynamic_dims() -> None:
    g = Graph(io_data_type="float")
    n = g.dynamic("n", range=(1, 64))
    x, alpha = g.tensor(dims=(n, 3), name="x"), g.runtime_scalar(name="alpha")
    g.output(g.mul(x, alpha), name="y")
    plan = g.build("cpu", engine="reference")
    assert plan.verify().ok
    report = plan.verify({x: floats(17, 3), "alpha": 0.3})
    assert report.ok
    assert report.outputs[0].elements == 51
    with pytest.raises(GraphError, match="DYN-03"):
        plan.verify({x: floats(65, 3), alpha: 0.3})


def test_verify_of_a_compiled_plan() -> None:
    g = Graph("linear", io_data_type="bfloat16", compute_data_type="float")
    x, w, b = (g.tensor(dims=d) for d in ((2, 5, 17), (17, 3), (3,)))
    y = g.softmax(g.linear(x, w, b)).set_output()
    plan = g.build("cpu", engine="iree")
    assert plan.verify().ok
    assert plan(plan.random_inputs())[y].shape == (2, 5, 3)


def test_a_page_lists_every_public_name(checkout: Path) -> None:
    page = (checkout / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    assert [n for n in hipdnn_iree.__all__ if f"`{n}`" not in page] == []


@pytest.fixture
def checkout() -> Path:
    return Path(__file__).resolve().parents[2]
