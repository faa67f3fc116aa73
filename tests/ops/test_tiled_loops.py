# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers of kernels with tiles of `jit.compiler.loop_tiles`: elementwise, and sums of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hipdnn_iree import Graph


def bias_of(g: Graph, rows: int, columns: int) -> None:
    g.relu(g.add(g.tensor(dims=(rows, columns)), g.tensor(dims=(1, columns)))).set_output()


def scale_of(g: Graph, rows: int, columns: int) -> None:
    g.mul(g.tensor(dims=(3, rows, columns)), g.tensor(dims=(1, rows, 1))).set_output()


def transposed(g: Graph, rows: int, columns: int) -> None:
    x = g.tensor(dims=(2, rows, columns))
    g.neg(g.transpose(x, permutation=(0, 2, 1))).set_output()


def transposed_two_ways(g: Graph, rows: int, columns: int) -> None:
    x, y = g.tensor(dims=(rows, columns, 19)), g.tensor(dims=(columns, 19, rows))
    z = g.add(g.transpose(x, permutation=(2, 0, 1)), g.transpose(y, permutation=(1, 2, 0)))
    g.neg(z).set_output()


def channels_last(g: Graph, rows: int, columns: int) -> None:
    x = g.tensor(dims=(2, rows, 3, columns))
    y = g.tensor(dims=(2, rows, 3, columns), strides=(3 * rows * columns, 1, rows * columns, rows))
    g.add(x, y).set_output()


def sums(*axes: int) -> Callable[..., None]:
    def build(g: Graph, rows: int, columns: int) -> None:
        x = g.tensor(dims=(3, rows, columns))
        for mode in ("add", "max"):
            g.reduction(x, mode=mode, axes=axes).set_output()

    return build


def softmax_of(g: Graph, rows: int, columns: int) -> None:
    x = g.tensor(dims=(rows, columns))
    e = g.exp(g.sub(x, g.reduction(x, mode="max", axes=1)))
    g.div(e, g.reduction(e, mode="add", axes=1)).set_output()


def layernorm_of(g: Graph, rows: int, columns: int) -> None:
    x, scale, bias = (g.tensor(dims=(n, columns)) for n in (rows, 1, 1))
    found = g.layernorm(x, scale, bias, forward_phase="training")
    for one in (found.y, found.mean, found.inv_variance):
        one.set_output()


def batchnorm_of(g: Graph, rows: int, columns: int) -> None:
    x = g.tensor(dims=(3, rows, columns, 1))
    scale, bias = (g.tensor(dims=(1, rows, 1, 1)) for _ in range(2))
    found = g.batchnorm(x, scale, bias)
    for one in (found.y, found.mean, found.inv_variance):
        one.set_output()


BUILDS = [
    bias_of, scale_of, transposed, transposed_two_ways, channels_last,
    sums(0), sums(1), sums(2), sums(0, 2), sums(0, 1), softmax_of, layernorm_of, batchnorm_of,
]  # fmt: skip
SHAPES = [(1, 8), (13, 127), (61, 257), (129, 33)]


@pytest.mark.parametrize("rows_columns", SHAPES, ids=str)
@pytest.mark.parametrize("build", BUILDS, ids=lambda b: b.__qualname__.partition(".")[0])
def test_numbers(
    build: Callable[..., None], rows_columns: tuple[int, int], check: Callable[..., Any]
) -> None:
    """Against the float64 reference, from poisoned outputs: rows of one vector, odd, and tile+1."""
    for data_type in ("float", "bfloat16"):
        g = Graph(io_data_type=data_type, compute_data_type="float")
        build(g, *rows_columns)
        check(g.freeze())
