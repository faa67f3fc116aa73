# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scalars that are given at execution: numbers and host memory, on both engines."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.errors import BindError, Problem
from hipdnn_iree.graph_api.tensor import Tensor
from hipdnn_iree.jit.runtime import scalars
from hipdnn_iree.jit.runtime.caller_memory import CallerMemory, Pointer
from hipdnn_iree.jit.signature import ArgSpec
from hipdnn_iree.provider import verify

ENGINES = ("iree", "reference")
DTYPES = {
    "float": (np.float32, "float"),
    "half": (np.float16, "float"),
    "bfloat16": (ml_dtypes.bfloat16, "float"),
    "double": (np.float64, "double"),
    "int32": (np.int32, "int32"),
    "int64": (np.int64, "int64"),
    "int8": (np.int8, "int32"),
    "uint8": (np.uint8, "int32"),
}


def scaled(kind: str = "float", compute: str = "float") -> tuple[Graph, Tensor, Tensor, Tensor]:
    """Return y = x * alpha."""
    g = Graph("scaled", io_data_type=kind, compute_data_type=compute)
    x = g.tensor(dims=(2, 3), name="x")
    alpha = g.runtime_scalar(data_type=kind, name="alpha")
    return g, x, alpha, g.mul(x, alpha).set_output().set_name("y")


def check(graph: Graph, seed: int = 1) -> None:
    """Run on random data, scalars as arrays; every element must be as the reference says."""
    frozen = graph.freeze()
    plan = graph.build("cpu")
    inputs = verify.random_inputs(frozen, seed)
    outputs = verify.poisoned_outputs(frozen)
    plan.execute({**inputs, **outputs})
    report = verify.compare(frozen, outputs, verify.expect(frozen, inputs))
    assert report.ok, report


@pytest.mark.parametrize("kind", DTYPES)
def test_every_type(kind: str) -> None:
    dtype, compute = DTYPES[kind]
    g, x, alpha, y = scaled(kind, compute)
    check(g)
    plan = g.build("cpu")
    data = np.arange(6).reshape(2, 3).astype(dtype)
    memory = np.array([2], dtype)
    for value in (2, np.dtype(dtype).type(2), memory, Pointer(memory.ctypes.data, memory.nbytes)):
        found = plan.run({x: data, alpha: value})[y.uid]
        assert (found == data * np.asarray(2, dtype)).all()


def test_a_large_integer_arrives_whole() -> None:
    g, x, alpha, y = scaled("int64", "int64")
    data = np.array([[1, -1, 0]] * 2, np.int64)
    found = g.build("cpu").run({x: data, alpha: 2**62 + 1})[y.uid]
    assert (found == data * (2**62 + 1)).all()


def test_a_boolean_selects() -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    a, b = g.tensor(dims=(4,)), g.tensor(dims=(4,))
    flag = g.runtime_scalar(data_type="boolean")
    y = g.binary_select(a, b, flag).set_output()
    plan = g.build("cpu")
    ones, zeros = np.ones(4, np.float32), np.zeros(4, np.float32)
    for value in (True, False, np.True_, 0, np.array([True])):
        found = plan.run({a: ones, b: zeros, flag: value})[y.uid]
        assert (found == bool(np.all(value))).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_memory_is_read_at_each_call(engine: str) -> None:
    g, x, alpha, y = scaled()
    plan = g.build("cpu", engine=engine)
    data, out = np.ones((2, 3), np.float32), np.full((2, 3), np.nan, np.float32)
    memory = ctypes.c_float(1.5)
    by_pointer = plan.bind({x: data, alpha: Pointer(ctypes.addressof(memory), 4), y: out})
    array = np.array([0.0], np.float32)
    by_array = plan.bind({x: data, alpha: array, y: out})
    fixed = plan.bind({x: data, alpha: 7, y: out})
    for value in (1.5, -3.0, 0.25):
        memory.value = array[0] = value
        by_pointer()
        assert (out == value).all()
        out[...] = np.nan
        by_array()
        assert (out == value).all()
        fixed()
        assert (out == 7).all()


def test_values_with_equal_numbers_but_other_bits() -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    x = g.tensor(dims=(2,))
    alpha = g.runtime_scalar()
    y = g.div(x, alpha).set_output()
    plan = g.build("cpu")
    data = np.ones(2, np.float32)
    memory, out = np.zeros(1, np.float32), np.empty(2, np.float32)
    call = plan.bind({x: data, alpha: memory, y: out})
    for value, wanted in ((0.0, np.inf), (-0.0, -np.inf), (np.nan, np.nan), (np.inf, 0.0)):
        memory[0] = value
        call()
        assert np.array_equal(out, [wanted] * 2, equal_nan=True)
        again = plan.run({x: data, alpha: value})[y.uid]
        assert np.array_equal(again, [wanted] * 2, equal_nan=True)


def test_other_values_use_what_was_bound() -> None:
    g, x, alpha, y = scaled()
    plan: Any = g.build("cpu")
    data, out = np.ones((2, 3), np.float32), np.empty((2, 3), np.float32)
    for value in range(50):
        plan.execute({x: data, alpha: value, y: out})
        assert (out == value).all()
    assert len(plan.executable._bound) == 1


def test_threads_with_values_of_their_own() -> None:
    g, x, alpha, y = scaled()
    plan = g.build("cpu")
    data, wrong = np.ones((2, 3), np.float32), []

    def work(value: float) -> None:
        out = np.empty((2, 3), np.float32)
        for _ in range(200):
            out[...] = np.nan
            plan.execute({x: data, alpha: value, y: out})
            if not (out == value).all():
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(v,)) for v in (1.0, 2.0, -5.0, 0.5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _epsilon(g: Graph) -> None:
    x, scale = g.tensor(dims=(4, 6)), g.tensor(dims=(1, 6))
    g.output(g.rmsnorm(x, scale, epsilon=g.runtime_scalar(data_type="float"))[0])


def _attention(g: Graph) -> None:
    q, k, v = (g.tensor(dims=(2, 3, 5, 4)) for _ in range(3))
    g.output(g.sdpa(q, k, v, scale=g.runtime_scalar(data_type="float"))[0])


def _twice(g: Graph) -> None:
    alpha = g.runtime_scalar(data_type="float")
    x = g.tensor(dims=(3, 5))
    g.add(g.mul(x, alpha), alpha).set_output()


def _several(g: Graph) -> None:
    x = g.tensor(dims=(3, 5))
    y = g.mul(x, g.runtime_scalar(data_type="double"))
    g.add(y, g.runtime_scalar(data_type="int32")).set_output()


@pytest.mark.parametrize("make", [_epsilon, _attention, _twice, _several])
def test_where_scalars_go(make: Callable[[Graph], None]) -> None:
    g = Graph(make.__name__, io_data_type="float", compute_data_type="float")
    make(g)
    check(g)


def test_it_survives_a_file() -> None:
    g, _, _, y = scaled()
    back = Graph.from_json(g.to_json())
    assert back.digest == g.digest
    data = np.ones((2, 3), np.float32)
    assert (back.build("cpu").run({"x": data, "alpha": 3})[y.uid] == 3).all()


def test_a_value_in_the_graph_counts_as_compiled_in() -> None:
    # hipDNN's "runtime scalar with a default" uses what is stored; no buffer is looked at.
    g = Graph(io_data_type="float", compute_data_type="float")
    x, alpha = g.tensor(dims=(3,)), g.scalar(2.0)
    alpha.runtime_scalar = True
    y = g.mul(x, alpha).set_output()
    assert (g.build("cpu").run({x: np.ones(3, np.float32)})[y.uid] == 2).all()


_SHORT = np.zeros(1, np.float32)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("kind", "value", "rule"),
    [
        ("float", None, "BIND-03"),
        ("float", "2", "BIND-03"),
        ("float", np.zeros(1, np.float64), "BIND-04"),
        ("float", np.zeros(2, np.float32), "BIND-05"),
        ("float", Pointer(0), "BIND-08"),
        ("float", Pointer(_SHORT.ctypes.data, 3), "BIND-09"),
        ("int8", 128, "BIND-14"),
        ("int8", 0.5, "BIND-14"),
        ("half", 1e6, "BIND-14"),
    ],
)
def test_what_is_no_value(kind: str, value: Any, rule: str, engine: str) -> None:
    g, x, alpha, _ = scaled(kind, DTYPES[kind][1])
    plan = g.build("cpu", engine=engine)
    data = np.ones((2, 3), DTYPES[kind][0])
    with pytest.raises(BindError) as caught:
        plan.run({x: data, alpha: value})
    assert [(p.rule, p.port) for p in caught.value.problems] == [(rule, "alpha")]


def test_memory_of_a_gpu_is_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    one: dict[str, Any] = {"dims": (1,), "strides": (1,)}
    there = CallerMemory(64, type=DataType.FLOAT, itemsize=4, device=(10, 0), **one)
    monkeypatch.setattr(scalars, "describe", lambda buffer, port: (there, buffer))
    spec = ArgSpec(output=False, data_type=DataType.FLOAT, shape=(1,), scalar=True, **one)
    found = scalars.describe_scalar(np.zeros(1, np.float32), spec, "alpha")
    assert isinstance(found, list)
    (problem,) = found
    assert isinstance(problem, Problem)
    assert (problem.rule, problem.port) == ("BIND-12", "alpha")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_missing_value(engine: str) -> None:
    g, x, _, _ = scaled()
    with pytest.raises(BindError, match="BIND-01") as caught:
        g.build("cpu", engine=engine).run({x: np.ones((2, 3), np.float32)})
    assert caught.value.problems[0].wanted.startswith("a number")


@pytest.mark.parametrize("target", ["gfx908", "gfx90a", "gfx942", "gfx950"])
def test_it_compiles_for_gpus_without_an_upload(target: str) -> None:
    g, *_ = scaled("half")
    plan = g.build(target)
    counts = {k: plan.statistics[k] for k in ("dispatches", "fills", "copies")}
    assert counts == {"dispatches": 1, "fills": 0, "copies": 0}
