# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What data gradients are estimated to cost, against times that were measured.

``conv_dgrad_sapphirerapids.jsonl``: median times of the strategies and of PyTorch 2.11, in
microseconds, of 127 gradients drawn by seed and 82 of the networks, with two threads on two of the
16 cores of an Intel Xeon (Sapphire Rapids or later).
"""

from __future__ import annotations

import json
from math import exp, log
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from hipdnn_iree import DataType, Graph
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.graph_api.ops.conv_dgrad import ConvDgrad
from hipdnn_iree.jit.ops.dgrad_cost import dgrad_costs, dgrad_quantities
from hipdnn_iree.jit.ops.dgrad_geometry import (
    Window,
    flipped_windows,
    pads_columns,
    turns_columns,
)
from hipdnn_iree.jit.ops.multiply_types import multiply_type
from hipdnn_iree.jit.strategies import choices
from hipdnn_iree.jit.target import Target

ZEN3, XEON = (Target.parse(f"cpu:{name}") for name in ("znver3", "sapphirerapids"))
MEASURED = Path(__file__).parent.parent / "data" / "strategies"


def op_of(row: dict[str, Any]) -> ConvDgrad:
    return ConvDgrad(
        pre_padding=tuple(row["padding"]),
        post_padding=tuple(row["padding"]),
        stride=tuple(row["stride"]),
        dilation=tuple(row["dilation"]),
        dx_dims=tuple(row["dx"]),
    )


def costs(row: dict[str, Any], target: Target) -> dict[str, float]:
    kind = DataType.parse(row["type"])
    multiplied = multiply_type(target, DataType.FLOAT, kind, kind)
    dims = tuple(row["dy"]), tuple(row["w"])
    return dgrad_costs(target, *dims, op_of(row), multiplied, last=row["last"])


def gradient(
    dy: tuple[int, ...],
    w: tuple[int, ...],
    dx: tuple[int, ...],
    *,
    stride: int = 1,
    kind: str = "float",
    compute: str = "float",
    last: bool = False,
) -> Graph:
    """Return a data gradient with padding for filters of its size."""
    graph = Graph(io_data_type=kind, compute_data_type=compute, intermediate_data_type=compute)
    given = graph.tensor(dims=dy, **({"strides": channels_last_strides(dy)} if last else {}))
    padding = w[2] // 2
    graph.conv_dgrad(
        given, graph.tensor(dims=w), dx_dims=dx, padding=padding, stride=stride
    ).set_output()
    return graph


def test_the_choice_is_near_the_best_of_what_was_measured() -> None:
    """By the rule before, ``gemm_col2im`` for large strided ones only, 1.46 and 1.53."""
    regret, ratios = [], []
    lines = (MEASURED / f"conv_dgrad_{XEON.arch}.jsonl").read_text().splitlines()
    for row in map(json.loads, lines):
        found = costs(row, XEON)
        times = {name: us for name, us in row["us"].items() if name in found}
        chosen = times[min(found, key=found.__getitem__)]
        regret.append(chosen / min(times.values()))
        ratios.append(chosen / row["us"]["torch"])
    assert len(regret) >= 200
    assert exp(mean(map(log, regret))) < 1.07
    assert sum(r <= 2 for r in regret) > 0.98 * len(regret)
    assert exp(mean(map(log, ratios))) < 0.57


@pytest.mark.parametrize("kind", ["float", "bfloat16", "half"])
@pytest.mark.parametrize("last", [False, True])
def test_what_is_chosen_is_the_cheaper_one(kind: str, last: bool) -> None:
    many = gradient((1, 213, 4, 4), (213, 8, 3, 3), (1, 8, 7, 7), stride=2, kind=kind, last=last)
    one = gradient((8, 64, 20, 20), (64, 64, 3, 3), (8, 64, 20, 20), kind=kind, last=last)
    for target in (ZEN3, XEON):
        for graph, chosen in ((many, "gemm_col2im"), (one, "flipped")):
            found = choices(graph.freeze(), target)["conv_dgrad"]
            assert found.default == chosen


def test_doubles_stay_with_one_convolution() -> None:
    graph = gradient((1, 213, 4, 4), (213, 8, 3, 3), (1, 8, 4, 4), kind="double", compute="double")
    assert choices(graph.freeze(), ZEN3)["conv_dgrad"].default == "flipped"


def test_windows_of_the_flipped_filter() -> None:
    op = ConvDgrad(
        pre_padding=(1, 4),
        post_padding=(1, 0),
        stride=(1, 1),
        dilation=(1, 1),
        dx_dims=(1, 2, 7, 2),
    )
    # Of the second dim, what lies in the padding alone is left out.
    assert flipped_windows((7, 4), (3, 2, 3, 3), op) == [Window(0, 7, 1, 1), Window(2, 4, 0, 2)]


def test_a_gradient_that_no_filter_meets_costs_no_convolution() -> None:
    op = ConvDgrad(
        pre_padding=(9,), post_padding=(0,), stride=(1,), dilation=(1,), dx_dims=(1, 2, 3)
    )
    found = dgrad_quantities(ZEN3, (1, 4, 5), (4, 2, 3), op, DataType.FLOAT, last=False)
    assert found["flipped"]["forward"] == 0


@pytest.mark.parametrize(
    ("samples", "size", "filters", "padded", "turned"),
    [
        (1, 7, 512, True, True),
        (1, 14, 256, True, True),
        (8, 14, 256, True, False),
        (1, 28, 128, False, False),
        (1, 56, 64, False, False),
        (1, 3, 30, False, True),
    ],
)
def test_what_is_moved_are_the_fewer(
    samples: int, size: int, filters: int, *, padded: bool, turned: bool
) -> None:
    """Of 3x3, as in ResNet: columns where images are small, else dy and the filters."""
    rows, wide = samples * size**2, samples * (size + 2) ** 2
    assert pads_columns(rows, wide, filters) == padded
    assert turns_columns(rows if padded else wide, filters) == turned
