# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Quantisation in blocks: by the book, at the ends of the range, and what the bounds catch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.errors import GraphError
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.reference import expect

Run = Callable[..., Any]


def graph(
    dims: tuple[int, ...], block_size: int = 4, element: str = "fp8_e4m3", **options: Any
) -> tuple[Graph, Any]:
    g = Graph(io_data_type="float", compute_data_type="float")
    x = g.tensor(dims=dims, name="x")
    y, scale = g.block_scale_quantize(x, block_size=block_size, **options)
    g.output(y, name="y", data_type=element)
    g.output(scale, name="scale", data_type="fp8_e8m0")
    return g, x


def test_scales_by_the_mx_specification(run: Run) -> None:
    # 2^(floor(log2 amax) - 2) for FP4, whose largest number is 6 = 1.5 · 2^2.
    x = np.float32([[1, -3, 0.5, 2], [7.9, -8, 0, 1], [0.1, 0.2, -0.3, 0.4], [0, 0, 0, 0]])
    g, handle = graph((4, 4), element="fp4_e2m1")
    y, scale = run(g, {handle: x})
    np.testing.assert_array_equal(scale.astype(np.float64)[:3, 0], [0.5, 2, 2.0**-4])
    assert scale.view(np.uint8)[3, 0] == 0
    # 7.9 / 2 rounds to 4; 0.3 / 2^-4 = 4.8 rounds to 4.
    wanted = [[2, -6, 1, 4], [4, -4, 0, 0.5], [1.5, 3, -4, 6], [0, 0, 0, 0]]
    np.testing.assert_array_equal(y.astype(np.float64), wanted)


def test_what_is_too_large_becomes_the_largest_number(run: Run) -> None:
    # 508 has the exponent of 448, so that the scale is 1.
    g, handle = graph((1, 4))
    y, scale = run(g, {handle: np.float32([[508, -511.9, 440, 1]])})
    assert scale.astype(float).item() == 1
    assert y.astype(float).tolist() == [[448, -448, 448, 1]]


@pytest.mark.parametrize("power", [-140, -126, -119, -30, 30, 126])
def test_the_whole_range_of_exponents(power: int, run: Run) -> None:
    g, handle = graph((1, 4))
    x = np.float32([[1, 1.5, -1.25, 0.75]]) * np.float32(2.0**power)
    y, scale = run(g, {handle: x})
    code = max(power - 8 + 127, 0)
    assert scale.view(np.uint8).item() == code
    if power >= -119:
        back = y.astype(np.float64) * 2.0 ** (code - 127)
        np.testing.assert_array_equal(back, x.astype(np.float64))


def test_infinity_makes_the_scale_nan(run: Run) -> None:
    g, handle = graph((2, 4))
    _, scale = run(g, {handle: np.float32([[1, np.inf, 0, 2], [1, 2, 3, 4]])})
    assert scale.view(np.uint8).ravel().tolist() == [255, 127 + 2 - 8]


@pytest.mark.parametrize("element", ["fp8_e4m3", "fp4_e2m1"])
def test_faults_are_caught(element: str, check: Run) -> None:
    g, _ = graph((6, 32), 16, element)
    frozen = g.freeze()
    inputs = verify.random_inputs(frozen, seed=3)
    expected = expect(frozen, inputs)
    x = next(iter(inputs.values())).astype(np.float64).reshape(6, 2, 16)
    kinds = [frozen.spec(uid).data_type.value.numpy for uid in frozen.outputs]
    dtypes = [np.dtype(getattr(ml_dtypes, kind)) for kind in kinds]

    def judged(shift: float, gain: float) -> bool:
        top = {"fp8_e4m3": 8, "fp4_e2m1": 2}[element]
        scale = np.exp2(np.floor(np.log2(np.abs(x).max(-1) * gain)) - top + shift)
        most = DataType.parse(element).largest
        y = np.clip(x / scale[..., None], -most, most).reshape(6, 32)
        values = {"y": y, "scale": scale}
        results = {
            uid: values[frozen.spec(uid).name].astype(np.float32).astype(dtype)
            for uid, dtype in zip(frozen.outputs, dtypes, strict=True)
        }
        return verify.compare(frozen, results, expected).ok

    assert judged(0, 1)
    assert not judged(1, 1)  # scales twice as large
    assert not judged(0, 1.6)  # rounded up instead of down
    check(frozen)


def test_transpose_says_how_results_lie() -> None:
    g, _ = graph((3, 32, 5), 16, axis=1, transpose=True)
    frozen = g.freeze()
    specs = {s.name: s for s in frozen.tensors.values()}
    assert specs["y"].strides == (160, 1, 32)
    assert (specs["scale"].dims, specs["scale"].strides) == ((3, 2, 5), (10, 1, 2))
    # Strides that are given say the same, and the same graph it is.
    plain = Graph(io_data_type="float", compute_data_type="float")
    x = plain.tensor(dims=(3, 32, 5))
    y, scale = plain.block_scale_quantize(x, block_size=16, axis=-2)
    plain.output(y, data_type="fp8_e4m3").set_stride((160, 1, 32))
    plain.output(scale, data_type="fp8_e8m0").set_stride((10, 1, 2))
    assert plain.freeze().digest == frozen.digest


def test_the_scale_is_e8m0_by_default() -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    y, scale = g.block_scale_quantize(g.tensor(dims=(4, 8)), block_size=8)
    y.set_output().set_data_type("fp8_e5m2")
    scale.set_output()
    frozen = g.freeze()
    assert frozen.spec(scale.uid).data_type is DataType.FP8_E8M0


def _broken(**options: Any) -> Graph:
    settings = {"dims": (4, 32), "block_size": 16, "x": "float", "y": "fp8_e4m3"} | options
    g = Graph(io_data_type="float", compute_data_type="float")
    x = g.tensor(dims=settings["dims"], data_type=settings["x"])
    y, scale = g.block_scale_quantize(
        x,
        block_size=settings["block_size"],
        axis=options.get("axis"),
        compute_data_type=options.get("compute", "float"),
    )
    g.output(y, data_type=settings["y"])
    g.output(scale, data_type=options.get("scale", "fp8_e8m0"))
    return g


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(
    ("rule", "port", "options"),
    [
        ("BLOCKQ-01", "axis", {"axis": 2}),
        ("BLOCKQ-01", "axis", {"axis": -3}),
        ("BLOCKQ-02", "block_size", {"block_size": 0}),
        ("BLOCKQ-02", "block_size", {"block_size": 12}),
        ("BLOCKQ-02", "block_size", {"block_size": 16, "axis": 0}),
        ("BLOCKQ-03", "x", {"x": "int8"}),
        ("BLOCKQ-03", "compute_data_type", {"compute": "int32"}),
        ("BLOCKQ-04", "y", {"y": "half"}),
        ("BLOCKQ-04", "y", {"y": "int4"}),
        ("BLOCKQ-04", "y", {"y": "fp8_e8m0"}),
        ("BLOCKQ-05", "scale", {"scale": "int8"}),
    ],
)
def test_rules(rule: str, port: str, options: dict[str, Any]) -> None:
    with pytest.raises(GraphError) as caught:
        _broken(**options).freeze()
    assert (rule, port) in {(p.rule, p.port) for p in caught.value.problems}


def test_a_legal_graph_breaks_no_rule() -> None:
    _broken().freeze()
