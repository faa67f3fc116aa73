# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results come in the library of the inputs, and hints speak its language."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hipdnn_iree import BindError, Graph, Plan

RNG = np.random.default_rng(5)


def negation(data_type: str, dims: tuple[int, ...] = (3, 5), **given: Any) -> Plan:
    g = Graph(io_data_type=data_type)
    g.output(g.neg(g.tensor(dims=dims, name="x", **given)), name="y")
    return g.build("cpu", engine="reference")


class Array:
    """An array of a library that follows the Python array API, over NumPy's memory."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()

    def __array_namespace__(self) -> Any:
        return SimpleNamespace(asarray=Array)


@pytest.mark.parametrize("data_type", ["float", "half", "bfloat16", "fp8_e4m3", "int32"])
def test_numpy_arrays_stay_so(data_type: str) -> None:
    dtype = {"float": np.float32, "half": np.float16, "int32": np.int32}.get(data_type)
    dtype = dtype or {"bfloat16": ml_dtypes.bfloat16}.get(data_type, ml_dtypes.float8_e4m3fn)
    data = RNG.integers(-4, 5, (3, 5)).astype(dtype)
    found = negation(data_type).run({"x": data})["y"]
    assert type(found) is np.ndarray
    assert found.dtype == data.dtype
    np.testing.assert_array_equal(found.astype(np.float32), -data.astype(np.float32))


def test_a_library_of_the_array_api() -> None:
    data = RNG.standard_normal((3, 5)).astype(np.float32)
    found = negation("float").run({"x": Array(data)})["y"]
    assert type(found) is Array
    np.testing.assert_array_equal(found.values, -data)


def test_memory_without_a_library_gives_numpy_arrays() -> None:
    data = RNG.standard_normal((3, 5)).astype(np.float32)
    found = negation("float").run({"x": data.ctypes.data})
    assert type(found["y"]) is np.ndarray
    np.testing.assert_array_equal(found["y"], -data)


TORCH = ["float32", "float16", "bfloat16", "float64", "int8", "int64", "float8_e4m3fn"]
TORCH += ["float8_e5m2", "float8_e4m3fnuz"]


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize("engine", ["reference", "iree"])
def test_torch_in_torch_out(name: str, engine: str) -> None:
    torch = pytest.importorskip("torch")
    if engine == "iree" and name not in ("bfloat16", "float8_e5m2"):
        pytest.skip("one engine with every type is enough")
    dtype = getattr(torch, name)
    g = Graph(io_data_type=dtype)
    dims = (2, 3, 4, 5)
    x = g.tensor(dims=dims, strides=(60, 1, 15, 3), name="x")
    y = g.output(g.mul(x, 2.0, compute_data_type="float"), name="y")
    data = torch.randint(-4, 5, dims).to(dtype)
    data = data.view(torch.uint8) if data.element_size() == 1 else data
    data = data.contiguous(memory_format=torch.channels_last).view(dtype)
    plan = g.build("cpu", engine=engine)
    found = plan.run({x: data})[y]
    assert isinstance(found, torch.Tensor)
    assert (found.dtype, found.stride()) == (dtype, data.stride())
    assert torch.equal(found.to(torch.float32), data.to(torch.float32) * 2)
    assert plan.verify({x: data}).ok


def test_hints_for_torch() -> None:
    torch = pytest.importorskip("torch")
    plan = negation("half")
    for wrong, hint in (
        (torch.zeros(3, 5), r"BIND-04\].*convert with \.to\(torch\.float16\)"),
        (torch.zeros(5, 3, dtype=torch.half).T, r"BIND-06\].*\.contiguous\(\)"),
        (torch.zeros(3, 5, dtype=torch.half, requires_grad=True), r"BIND-03\].*\.detach\(\)"),
    ):
        with pytest.raises(BindError, match=hint):
            plan.run({"x": wrong})
    eight = negation("fp8_e4m3")
    with pytest.raises(BindError, match=r"give \.view\(torch\.float8_e4m3fn\)"):
        eight.run({"x": torch.zeros(3, 5, dtype=torch.uint8)})


def test_hints_for_numpy() -> None:
    with pytest.raises(BindError, match=r"BIND-04\].*convert with \.astype\(float16\)"):
        negation("half").run({"x": np.zeros((3, 5))})
