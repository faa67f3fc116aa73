# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions: accumulation in the compute type, and dims of extent 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hipdnn_iree import Graph, ReductionMode

Run = Callable[..., Any]


def test_8192_half_precision_ones(run: Run) -> None:
    # Summed in half precision this is 2048: from there on, adding 1 changes nothing.
    graph = Graph(io_data_type="half", compute_data_type="float")
    expected = {"add": 8192.0, "avg": 1.0, "norm1": 8192.0, "norm2": 90.5}
    given = {graph.tensor(dims=(1, 8192)): mode for mode in expected}
    for x, mode in given.items():
        graph.reduction(x, mode=mode, axes=1).set_output()
    found = run(graph, dict.fromkeys(given, np.ones((1, 8192), np.float16)))
    assert dict(zip(expected, [y.item() for y in found], strict=True)) == expected


def test_norm2_does_not_overflow_in_between(run: Run) -> None:
    graph = Graph(io_data_type="half", compute_data_type="float")
    x = graph.tensor(dims=(4,))
    graph.reduction(x, mode="norm2", axes=0).set_output()
    (y,) = run(graph, {x: np.full(4, 300, np.float16)})
    assert y.item() == 600


def test_every_mode_over_dims_of_extent_1(check: Run) -> None:
    # The sum folds to its input there, and IREE cannot return an input.
    graph = Graph(io_data_type="float")
    for mode in ReductionMode:
        if mode.wire:
            x = graph.tensor(dims=(3, 1, 5))
            graph.output(graph.reduction(x, mode=mode, axes=1), name=mode.name)
    check(graph.freeze())


def test_the_input_is_converted_before_the_sum(torch_ir: Callable[..., str]) -> None:
    graph = Graph(io_data_type="half", compute_data_type="float")
    graph.reduction(graph.tensor(dims=(4, 9)), mode="add", axes=1).set_output()
    lines = torch_ir(graph).splitlines()
    converted = next(i for i, line in enumerate(lines) if "convert_element_type" in line)
    summed = next(i for i, line in enumerate(lines) if "aten.sum" in line)
    assert converted < summed
    assert lines[summed].endswith("[4,1],f32>")
