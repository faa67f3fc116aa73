# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types of 8 bits and less: every code decoded, every rounding, packed memory, values and bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.jit.inspect.isa import read_kernels
from hipdnn_iree.jit.lowering.module import lower_graph
from hipdnn_iree.jit.runtime.arrays import pack, unpack
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.reference import numpy_dtype, to_dtype
from under_settings import dump

Array = np.ndarray[Any, Any]
SCALE = DataType.FP8_E8M0
FLOATS = tuple(t for t in DataType if t.is_float and t.bits <= 8)
SOURCES = (DataType.FLOAT, DataType.DOUBLE, DataType.INT32)
PACKED = tuple(t for t in DataType if 0 < t.bits < 8)
RNG = np.random.default_rng(7)


def codes_of(data_type: DataType) -> Array:
    return np.arange(2**data_type.bits, dtype=np.uint8).view(numpy_dtype(data_type))


def edges_of(data_type: DataType) -> Array:
    """All numbers of a type, all ties with their neighbours in float64, and what is too large."""
    numbers = np.unique(codes_of(data_type).astype(np.float64))
    numbers = numbers[np.isfinite(numbers) & (np.abs(numbers) > 1e-38)]
    ties = (numbers[1:] + numbers[:-1]) / 2
    top, least = numbers[-1], np.abs(numbers).min()
    sides = [np.nextafter(ties, s * np.inf) for s in (-1, 1)]
    near = [np.float64(np.nextafter(np.float32(ties), np.float32(s * np.inf))) for s in (-1, 1)]
    beyond = [top * np.linspace(1, 1.3, 31), -top * np.linspace(1, 1.3, 31)]
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, 3.3e38, -1e30, 1e-30, -1e-30]
    random = [RNG.normal(0, top / 4, 300), RNG.normal(0, 3 * least, 300)]
    values = np.concatenate([numbers, ties, *sides, *near, *beyond, special, *random])
    # Subnormals of float32 are flushed to 0 by some processors; E8M0 tells 0 from them.
    return values if data_type is not SCALE else values[~((values > 0) & (values < 2.0**-126))]


Pair = tuple[Array, Array]


@pytest.fixture(scope="module")
def converted() -> dict[tuple[DataType, str], Pair]:
    """All codes converted to floats and all edges to codes, of all types, by one graph."""
    graph = Graph(io_data_type="float")
    inputs: dict[Any, Array] = {}
    results: dict[tuple[DataType, str], tuple[Any, int]] = {}
    for t in FLOATS:
        inputs[x := graph.tensor(dims=(2**t.bits,), data_type=t)] = codes_of(t)
        for wide in ("float", "double"):
            results[t, f"to {wide}"] = x, graph.output(graph.identity(x), data_type=wide).uid
        for kind in SOURCES:
            values = to_dtype(edges_of(t), kind)
            inputs[y := graph.tensor(dims=values.shape, data_type=kind)] = values
            results[t, f"from {kind.json}"] = y, graph.output(graph.identity(y), data_type=t).uid
    made = graph.build("cpu").run(inputs)
    return {what: (inputs[x], made[uid]) for what, (x, uid) in results.items()}


@pytest.mark.parametrize("wide", ["float", "double"])
@pytest.mark.parametrize("data_type", FLOATS)
def test_every_code_is_decoded(
    data_type: DataType, wide: str, converted: dict[tuple[DataType, str], Pair]
) -> None:
    codes, got = converted[data_type, f"to {wide}"]
    with np.errstate(invalid="ignore"):
        wanted = codes.astype(got.dtype)
    if data_type is SCALE:
        got, wanted = got[1:], wanted[1:]  # 2^-127 is a subnormal of float32
    np.testing.assert_array_equal(got, wanted)
    number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(wanted[number]))


@pytest.mark.parametrize("wide", [t.json for t in SOURCES])
@pytest.mark.parametrize("data_type", FLOATS)
def test_every_rounding(
    data_type: DataType, wide: str, converted: dict[tuple[DataType, str], Pair]
) -> None:
    values, got = converted[data_type, f"from {wide}"]
    wanted = to_dtype(values.astype(np.float64), data_type)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got.astype(np.float64), wanted.astype(np.float64))


@pytest.mark.parametrize("data_type", PACKED)
def test_any_count_of_packed_elements(data_type: DataType) -> None:
    graph = Graph(io_data_type=data_type)
    compute = "int32" if data_type.is_integer else "float"
    xs = [graph.tensor(dims=(n,)) for n in (1, 2, 3, 4, 5, 8, 13)]
    ys = [graph.output(graph.neg(x, compute_data_type=compute)) for x in xs]
    plan = graph.build("cpu")
    values = [to_dtype(RNG.integers(-7, 8, x.dims or ()) / 2, data_type) for x in xs]
    wanted = [to_dtype(0.0 - v.astype(np.float64), data_type) for v in values]  # without -0
    results = plan.run(dict(zip(xs, values, strict=True)))
    for y, numbers in zip(ys, wanted, strict=True):
        np.testing.assert_array_equal(results[y.uid].astype(float), numbers.astype(float))
    # The same on packed bytes; bits after the last element are 0.
    about = dict(zip(plan.executable.uids, plan.executable.signature.args, strict=True))  # type: ignore[attr-defined]
    raw = {y: np.full(about[y.uid].nbytes, 0xFF, np.uint8) for y in ys}
    given = {x: pack(about[x.uid], v) for x, v in zip(xs, values, strict=True)}
    plan.execute({**given, **raw})
    for y, numbers in zip(ys, wanted, strict=True):
        spec = about[y.uid]
        np.testing.assert_array_equal(unpack(spec, raw[y]).astype(float), numbers.astype(float))
        np.testing.assert_array_equal(raw[y], pack(spec, numbers))


def test_the_reference_engine_takes_the_same_buffers() -> None:
    graph = Graph(io_data_type="fp4_e2m1", compute_data_type="float")
    x = graph.tensor(dims=(3, 5))
    y = graph.output(graph.abs(x))
    plan = graph.build("cpu", engine="reference")
    values = to_dtype(RNG.uniform(-6, 6, (3, 5)), DataType.FP4_E2M1)
    result = plan.run({x: values})[y.uid]
    assert result.dtype == values.dtype
    np.testing.assert_array_equal(result.astype(float), np.abs(values.astype(float)))
    raw = np.empty(8, np.uint8)
    about = graph.build("cpu").executable.signature.args[1]  # type: ignore[attr-defined]
    plan.execute({x: pack(about, values), y: raw})
    np.testing.assert_array_equal(unpack(about, raw).astype(float), result.astype(float))


def test_a_scalar_read_at_execution() -> None:
    graph = Graph(io_data_type="float")
    x = graph.tensor(dims=(3,))
    factor = graph.tensor(dims=(1,), data_type="fp8_e4m3")
    factor.runtime_scalar = True
    y = graph.output(graph.mul(x, factor))
    plan = graph.build("cpu")
    for value in (2.0, 0.01953125):
        result = plan.run({x: np.float32([1, 2, -4]), factor: ml_dtypes.float8_e4m3fn(value)})
        assert result[y.uid].tolist() == [value, 2 * value, -4 * value]


def test_nothing_but_bytes_enters_and_leaves() -> None:
    graph = Graph(io_data_type="fp6_e3m2", compute_data_type="float")
    x = graph.tensor(dims=(5, 3))
    graph.relu(x).set_output()
    text = lower_graph(graph.freeze(), Target.parse("gfx90a"))
    head = next(line for line in text.splitlines() if "func.func @main" in line)
    assert "!torch.tensor<[12],ui8>" in head  # 15 times 6 bits are 12 bytes
    assert "!torch.vtensor<[12],ui8>" in head
    assert "f8E" not in text


@pytest.mark.parametrize(
    ("target", "data_type", "rows", "kind"),
    [
        ("gfx942", "fp8_e4m3_fnuz", 64, "f8E4M3FNUZ"),
        ("gfx950", "fp8_e5m2", 64, "f8E5M2"),
        ("gfx942", "fp8_e4m3_fnuz", 60, "f16"),  # does not fill a matrix instruction
        ("gfx942", "fp8_e4m3", 64, "f16"),  # of the other kind
        ("gfx90a", "fp8_e4m3_fnuz", 64, "f16"),
    ],
)
def test_matrix_instructions_get_8_bit_floats_where_they_take_them(
    target: str, data_type: str, rows: int, kind: str
) -> None:
    graph = Graph(io_data_type=data_type, compute_data_type="float")
    graph.matmul(graph.tensor(dims=(rows, 32)), graph.tensor(dims=(32, 96))).set_output()
    text = lower_graph(graph.freeze(), Target.parse(target))
    product = next(line for line in text.splitlines() if "torch.aten.mm " in line)
    assert f"[{rows},32],{kind}>" in product
    assert f"[{rows},96],f32>" in product


@pytest.mark.parametrize(
    ("target", "data_type"), [("gfx942", "fp8_e5m2_fnuz"), ("gfx90a", "fp8_e4m3")]
)
def test_a_product_of_8_bit_floats_is_one_kernel(
    target: str, data_type: str, tmp_path: Path
) -> None:
    graph = Graph(io_data_type=data_type, compute_data_type="float")
    a, b = graph.tensor(dims=(64, 128)), graph.tensor(dims=(128, 64))
    graph.output(graph.relu(graph.matmul(a, b)), data_type="half")
    compiled = dump(graph.freeze(), Target.parse(target), tmp_path)
    (kernel,) = read_kernels(tmp_path / "dispatches")
    assert compiled.statistics["dispatches"] == 1
    assert kernel.mfma_count > 0
