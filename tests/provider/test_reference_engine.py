# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference engine as an engine: what it declines, and memory of every kind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from here_and_now import choose, engine, own_engines
from hipdnn_iree import DataType, Graph
from hipdnn_iree.graph_api.errors import BindError, NotSupportedError
from hipdnn_iree.provider.plan import Plan
from hipdnn_iree.provider.sweep.samples import sample_problems
from hipdnn_iree.provider.verify import compare, expect, poisoned_outputs, random_inputs


def small() -> tuple[Graph, Any, Any, Any]:
    """y = relu(x + b), channels last, with a bias that is broadcast in memory."""
    g = Graph("small", io_data_type="float")
    x = g.tensor(dims=(2, 3, 4, 5), strides=(60, 1, 15, 3), name="x")
    b = g.tensor(dims=(2, 3, 4, 5), strides=(0, 1, 0, 0), name="b")
    y = g.output(g.relu(g.add(x, b)), name="y")
    return g, x, b, y


@pytest.fixture
def values() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2, 4, 5, 3)).astype(np.float32).transpose(0, 3, 1, 2)
    b = np.broadcast_to(rng.normal(size=(3, 1, 1)).astype(np.float32), (2, 3, 4, 5))
    return {"x": x, "b": b, "y": np.maximum(x + b, 0)}


@pytest.fixture
def plan() -> Plan:
    return small()[0].build("cpu", engine="reference")


# ---------------------------------------------------------------------------- declines


def rules(graph: Graph, target: str = "cpu") -> list[str]:
    from hipdnn_iree import Target

    found = engine("reference").declines(graph.freeze(), Target.parse(target))
    assert all(d.engine == "REFERENCE_ENGINE" for d in found)
    return [d.problem.rule for d in found]


def test_what_it_declines() -> None:
    assert rules(small()[0]) == []
    assert rules(small()[0], "cpu:x86-64-v3") == []
    assert rules(small()[0], "gfx942") == ["REFERENCE-01"]
    ragged, x, b, _ = small()
    x.ragged_offset_uid = b.uid
    assert rules(ragged) == ["REFERENCE-02"]
    override = small()[0]
    override.is_override_shape_enabled = True
    assert rules(override) == []


def test_it_is_never_chosen_silently() -> None:
    assert not own_engines()["reference"].by_default
    declined = Graph(io_data_type="float")
    x, offsets = declined.tensor(dims=(4,)), declined.tensor(dims=(4,), data_type="int32")
    x.ragged_offset_uid = offsets.uid
    declined.relu(x).set_output()
    with pytest.raises(NotSupportedError) as caught:
        choose(declined.freeze(), "cpu")
    assert {d.engine for d in caught.value.declines} == {"IREE_JIT_ENGINE"}
    assert choose(small()[0].freeze(), "cpu", engine_name="reference").policy == "pinned"


# ---------------------------------------------------------------------------- results


SAMPLES = [s for s in sample_problems() if "long" not in s.tags]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_every_sample_problem(sample: Any) -> None:
    """The first data type of each; the reference itself has its own tests."""
    frozen = sample.graph(sample.dtypes[0]).freeze()
    plan = choose(frozen, "cpu", engine_name="reference").build()
    inputs, outputs = random_inputs(frozen, seed=5), poisoned_outputs(frozen)
    plan.execute({**inputs, **outputs})
    report = compare(frozen, outputs, expect(frozen, inputs))
    assert report.ok, str(report)
    assert (plan.engine, plan.cache, plan.workspace_bytes) == ("REFERENCE_ENGINE", "off", 0)


def test_new_arrays_have_the_layout(plan: Plan, values: dict[str, Any]) -> None:
    found = plan.run({"x": values["x"], "b": values["b"]})
    ((uid, y),) = found.items()
    assert plan.graph.outputs == (uid,)
    assert y.strides == tuple(4 * s for s in plan.graph.tensors[uid].strides) == (240, 4, 60, 12)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, values["y"])


@pytest.mark.parametrize("kind", ["numpy", "dlpack", "address", "misaligned"])
def test_memory_of_every_kind(plan: Plan, values: dict[str, Any], kind: str) -> None:
    class Exporter:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __dlpack__(self, **more: Any) -> Any:
            return self.array.__dlpack__(**more)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    raw = np.full(120 * 4 + 64, 0xA5, np.uint8)
    start = -raw.ctypes.data % 64 + (4 if kind == "misaligned" else 0)
    y = np.ndarray((2, 4, 5, 3), np.float32, raw.data, start).transpose(0, 3, 1, 2)
    x = np.ascontiguousarray(values["x"].transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    give: Callable[[Any], Any] = {
        "dlpack": Exporter,
        "address": lambda a: a.ctypes.data,
    }.get(kind, lambda a: a)
    plan.execute({"x": give(x), "b": values["b"], "y": give(y)})
    np.testing.assert_array_equal(y, values["y"])
    assert (raw[:start] == 0xA5).all()
    assert (raw[start + 480 :] == 0xA5).all()


def test_a_bound_call_reads_anew_and_keeps_its_memory(values: dict[str, Any]) -> None:
    g, x, b, _ = small()
    plan = g.build("cpu", engine="reference")
    given = values["x"].copy(order="K")
    result = np.empty((2, 4, 5, 3), np.float32).transpose(0, 3, 1, 2)
    call = plan.bind({x: given, b.uid: values["b"], "y": result}, copy=True)
    call()
    np.testing.assert_array_equal(result, values["y"])
    given[...] = -given
    call()
    np.testing.assert_array_equal(result, np.maximum(values["b"] - values["x"], 0))


def test_other_strides_when_allowed(plan: Plan, values: dict[str, Any]) -> None:
    """Every other row, backwards, and an output inside a bigger array."""
    x = np.repeat(values["x"][:, :, ::-1], 2, axis=2)[:, :, ::-2]
    whole = np.full((2, 3, 4, 8), np.nan, np.float32)
    buffers = {"x": x, "b": values["b"], "y": whole[..., 1:6]}
    with pytest.raises(BindError) as caught:
        plan.bind(buffers)
    assert {(p.rule, p.port) for p in caught.value.problems} == {("BIND-06", "x"), ("BIND-06", "y")}
    plan.bind(buffers, copy=True)()
    np.testing.assert_array_equal(whole[..., 1:6], values["y"])
    assert np.isnan(whole[..., 0]).all()
    assert np.isnan(whole[..., 6:]).all()
    x = np.ascontiguousarray(values["x"])
    (y,) = plan.run({"x": x, "b": values["b"]}, copy=True).values()
    np.testing.assert_array_equal(y, values["y"])


def test_broadcast_dims_may_have_extent_1(plan: Plan, values: dict[str, Any]) -> None:
    b = np.ascontiguousarray(values["b"][:1, :, :1, :1])
    (y,) = plan.run({"x": values["x"], "b": b}).values()
    np.testing.assert_array_equal(y, values["y"])


def test_types_and_rounding() -> None:
    g = Graph(io_data_type="bfloat16", compute_data_type="float")
    x = g.tensor(dims=(4,))
    y = g.add(x, 2.0**-9).set_output()
    mask = g.cmp_gt(x, g.scalar(0.0)).set_output().set_data_type("boolean")
    plan = g.build("cpu", engine="reference")
    found = plan.run({x: np.array([1, -1, 256, 0], dtype=ml_dtypes.bfloat16)})
    assert found[y.uid].dtype == ml_dtypes.bfloat16
    # 1 + 2^-9 is half way or less: it rounds to 1; near 0 the sum is exact.
    assert found[y.uid].astype(float).tolist() == [1.0, -1.0, 256.0, 2.0**-9]
    assert found[mask.uid].dtype == bool
    assert found[mask.uid].tolist() == [True, False, True, False]
    assert g.freeze().spec(mask.uid).data_type is DataType.BOOLEAN


def test_many_threads(plan: Plan) -> None:
    rng = np.random.default_rng(0)
    wrong: list[int] = []

    def work(seed: int) -> None:
        inputs = random_inputs(plan.graph, seed)
        for _ in range(20):
            (y,) = plan.run({**inputs}).values()
            x, b = (inputs[u] for u in plan.graph.inputs)
            if not np.array_equal(y, np.maximum(x + b, 0)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(int(s),)) for s in rng.integers(0, 99, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---------------------------------------------------------------------------- misfits


def problems_of(call: Callable[[], Any]) -> set[tuple[str, str]]:
    with pytest.raises(BindError) as caught:
        call()
    return {(p.rule, p.port) for p in caught.value.problems}


def test_buffers_that_do_not_fit(plan: Plan, values: dict[str, Any]) -> None:
    x, b = values["x"], values["b"]
    y = np.zeros((2, 4, 5, 3), np.float32).transpose(0, 3, 1, 2)
    uid = plan.graph.outputs[0]
    assert problems_of(lambda: plan.run({"x": x})) == {("BIND-01", "b")}
    assert problems_of(lambda: plan.run({"x": x, "b": b, 99: x})) == {("BIND-02", "uid 99")}
    assert problems_of(lambda: plan.run({"x": x, "b": b, "y": y})) == {("BIND-02", f"uid {uid}")}
    assert problems_of(lambda: plan.run({"x": [1.0], "b": b})) == {("BIND-03", "x")}
    wide = x.astype(np.float64)
    assert problems_of(lambda: plan.run({"x": wide, "b": b[0]})) == {
        ("BIND-04", "x"),
        ("BIND-05", "b"),
    }
    y.setflags(write=False)
    assert problems_of(lambda: plan.execute({"x": x, "b": b, "y": y})) == {("BIND-07", "y")}
    assert problems_of(lambda: plan.execute({"x": 0, "b": b, "y": y.copy(order="K")})) == {
        ("BIND-08", "x")
    }
    assert problems_of(lambda: plan.execute({"x": x, "b": b, "y": x})) == {("BIND-10", "y")}
    assert not y.any()


def test_names_that_are_not_clear() -> None:
    g = Graph(io_data_type="float")
    x, y = g.tensor(dims=(3,), name="same"), g.tensor(dims=(3,), name="same")
    g.output(g.add(x, y), name="z")
    plan = g.build("cpu", engine="reference")
    one = np.ones(3, np.float32)
    with pytest.raises(BindError) as caught:
        plan.run({"same": one, "nobody": one})
    assert [(p.rule, p.port, p.got) for p in caught.value.problems] == [
        ("PLAN-01", "same", "2 inputs and outputs of this name"),
        ("PLAN-01", "nobody", "0 inputs and outputs of this name"),
    ]
    assert "names: same, z" in caught.value.problems[0].hint
    (z,) = plan.run({x: one, y.uid: one}).values()
    assert z.tolist() == [2, 2, 2]
