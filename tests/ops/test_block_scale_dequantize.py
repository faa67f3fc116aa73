# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Block-scaled numbers: blocks of any shape, shorthands, and the inverse of quantisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import GraphError, NotSupportedError
from hipdnn_iree.jit import support
from hipdnn_iree.jit.target import Target

Run = Callable[..., Any]


def graph(
    x: tuple[int, ...], scale: tuple[int, ...], block_size: Any = None, **options: Any
) -> tuple[Graph, list[Any]]:
    g = Graph(io_data_type="fp8_e4m3", compute_data_type="float")
    handles = [g.tensor(dims=x), g.tensor(dims=scale, data_type=options.pop("kind", "fp8_e8m0"))]
    y = g.block_scale_dequantize(*handles, block_size=block_size, **options)
    g.output(y, data_type="float")
    return g, handles


def test_each_block_has_its_own_scale(run: Run) -> None:
    g, (x, scale) = graph((2, 4), (2, 2), 2)
    values = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], ml_dtypes.float8_e4m3fn)
    scales = np.array([[1, 2], [4, 0.5]], ml_dtypes.float8_e8m0fnu)
    (y,) = run(g, {x: values, scale: scales})
    assert y.tolist() == [[1, 2, 6, 8], [20, 24, 3.5, 4]]


def test_a_scale_that_is_nan_spoils_its_block_only(run: Run) -> None:
    g, (x, scale) = graph((1, 4), (1, 2), 2)
    scales = np.array([[0xFF, 127]], np.uint8).view(ml_dtypes.float8_e8m0fnu)
    (y,) = run(g, {x: np.ones((1, 4), ml_dtypes.float8_e4m3fn), scale: scales})
    np.testing.assert_array_equal(y, [[np.nan, np.nan, 1, 1]])


def test_what_was_quantised_comes_back(run: Run) -> None:
    # Numbers with 3 digits after the leading one, up to 1.75 times a power of two, are exact in
    # FP8 E4M3, as far as they lie within its exponents.
    rng = np.random.default_rng(5)
    mantissas = rng.integers(8, 15, (7, 64)) * np.exp2(rng.integers(-3, 3, (7, 64)))
    x = (mantissas * rng.choice([-1, 1], (7, 64)) * np.exp2(rng.integers(-9, 9, (7, 1)))).astype(
        np.float32
    )
    g = Graph(io_data_type="float", compute_data_type="float")
    handle = g.tensor(dims=x.shape)
    y, scale = g.block_scale_quantize(handle, block_size=32)
    y.set_data_type("fp8_e4m3")
    g.output(g.block_scale_dequantize(y, scale, block_size=[1, 32]), name="z")
    (z,) = run(g, {handle: x})
    np.testing.assert_array_equal(z, x)


def test_shorthands_are_the_same_graph() -> None:
    digests = {
        graph((4, 32), (4, 2), size)[0].freeze().digest for size in (None, 16, [16], [1, 16])
    }
    assert len(digests) == 1
    assert digests != {graph((4, 32), (4, 4), 8)[0].freeze().digest}


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(
    ("rule", "port", "arguments", "options"),
    [
        ("BLOCKD-01", "scale", ((4, 32), (4,)), {}),
        ("BLOCKD-01", "scale", ((4, 32), (4, 3)), {}),
        ("BLOCKD-02", "block_size", ((4, 32), (4, 2), 8), {}),
        ("BLOCKD-02", "block_size", ((4, 32), (2, 2), 16), {}),
        ("BLOCKD-02", "block_size", ((4, 32), (4, 2), [16, 1]), {}),
        ("BLOCKD-03", "scale", ((4, 32), (4, 2)), {"kind": "int8"}),
        ("BLOCKD-03", "compute_data_type", ((4, 32), (4, 2)), {"compute_data_type": "int32"}),
    ],
)
def test_rules(rule: str, port: str, arguments: Any, options: dict[str, Any]) -> None:
    with pytest.raises(GraphError) as caught:
        graph(*arguments, **options)[0].freeze()
    assert (rule, port) in {(p.rule, p.port) for p in caught.value.problems}


def test_negative_scales_are_declined() -> None:
    g, _ = graph((4, 32), (4, 2), 16, is_negative_scale=True)
    (problem,) = support.problems(g.freeze(), Target.parse("cpu"))
    assert (problem.rule, problem.port) == ("IREE-BLOCK-01", "is_negative_scale")
    with pytest.raises(NotSupportedError, match="IREE-BLOCK-01"):
        g.build("cpu")
