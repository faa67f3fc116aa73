# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What weight gradients are estimated to cost, against times that were measured; blocks are right.

``conv_wgrad_znver5.jsonl``: median times of three strategies and of PyTorch 2.13, in microseconds,
of 108 gradients drawn by seed, with two threads on an AMD EPYC (Zen 5).  Those in float32 also on
one of Zen 3, and on an Intel Xeon (Sapphire Rapids or later; PyTorch 2.11).
"""

from __future__ import annotations

import json
from math import exp, log
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.graph_api.ops.conv_fprop import ConvFprop
from hipdnn_iree.jit.code_plan import plan_code
from hipdnn_iree.jit.ops.wgrad_cost import wgrad_blocks, wgrad_costs
from hipdnn_iree.jit.strategies import choices
from hipdnn_iree.jit.target import Target

ZEN5, ZEN3, GPU = (Target.parse(name) for name in ("cpu:znver5", "cpu:znver3", "gfx942"))
XEON = Target.parse("cpu:sapphirerapids")
MEASURED = Path(__file__).parent.parent / "data" / "strategies"


def measured(target: Target) -> list[dict[str, Any]]:
    lines = (MEASURED / f"conv_wgrad_{target.arch}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


ROWS = measured(ZEN5)


def costs(row: dict[str, Any], target: Target = ZEN5) -> dict[str, float]:
    op = ConvFprop(
        pre_padding=tuple(row["padding"]),
        post_padding=tuple(row["padding"]),
        stride=tuple(row["stride"]),
        dilation=tuple(row["dilation"]),
    )
    x, dy, w = (tuple(row[port]) for port in ("x", "dy", "w"))
    return wgrad_costs(target, x, dy, w, op, last=row["last"], narrow=row["type"] != "float")


def gradient(
    x: tuple[int, ...],
    w: tuple[int, ...],
    *,
    stride: int = 1,
    kind: str = "float",
    last: bool = False,
) -> Graph:
    """Return the weight gradient of a convolution with padding for filters of its size."""
    graph = Graph(io_data_type=kind, compute_data_type="float", intermediate_data_type="float")
    padding = w[2] // 2
    extents = [(d + 2 * padding - k) // stride + 1 for d, k in zip(x[2:], w[2:], strict=True)]
    dims = ((x[0], w[0], *extents), x)
    strides = [channels_last_strides(d) if last else None for d in dims]
    dy, image = (
        graph.tensor(dims=d, **({"strides": s} if s else {}))
        for d, s in zip(dims, strides, strict=True)
    )
    graph.conv_wgrad(dy, image, dw_dims=w, padding=padding, stride=stride).set_output()
    return graph


def test_elements_of_few_channels_are_copied_singly() -> None:
    """Of 8x7x14x14, 61 filters of 5x5: 788 us by a matmul each, 373 in blocks, on one of Zen 4."""
    row = {"x": (8, 7, 14, 14), "dy": (8, 61, 14, 14), "w": (61, 7, 5, 5), "padding": (2, 2)}
    last = {**row, "stride": (1, 1), "dilation": (1, 1), "last": True, "type": "float"}
    for target in (ZEN3, ZEN5, XEON, Target.parse("cpu:znver4")):
        found = costs(last, target)
        assert found["blocked"] < 0.9 * found["gemm"]


@pytest.mark.parametrize(("target", "share"), [(ZEN5, 0.97), (ZEN3, 0.95), (XEON, 1.0)], ids=str)
def test_the_choice_is_near_the_best_of_what_was_measured(target: Target, share: float) -> None:
    regret, ratios = [], []
    for row in measured(target):
        times = dict(row["us"])
        torch = times.pop("torch")
        found = costs(row, target)
        chosen = times[min(found, key=found.__getitem__)]
        regret.append(chosen / min(times.values()))
        ratios.append(chosen / torch)
    assert exp(mean(map(log, regret))) < 1.1
    assert sum(r <= 2 for r in regret) >= share * len(regret)
    assert exp(mean(map(log, ratios))) < 0.8  # by filter positions alone: 1.24


def test_blocks_are_chosen_where_something_is_known_of_them() -> None:
    assert "blocked" in costs(ROWS[0])
    assert set(costs(ROWS[0], ZEN3)) == {"gemm", "correlated", "blocked"}
    wide = gradient((2, 64, 14, 14), (64, 64, 3, 3)).freeze()
    assert choices(wide, ZEN5)["conv_wgrad"].default == "blocked"
    assert choices(wide, GPU)["conv_wgrad"].default == "correlated"
    groups = gradient((2, 64, 14, 14), (64, 16, 3, 3)).freeze()
    assert choices(groups, ZEN5)["conv_wgrad"].default == "gemm"
    double = gradient((2, 64, 14, 14), (64, 64, 3, 3), kind="double").freeze()
    assert "blocked" not in choices(double, ZEN5)["conv_wgrad"].names
    (node,) = plan_code(wide, ZEN5).nodes
    assert node.strategy == "blocked"


def test_what_is_packed_goes_by_what_fills_vectors() -> None:
    assert wgrad_blocks(ZEN5, 32, 463, 9, 288, 1).turned  # dy, of 32 filters
    assert not wgrad_blocks(ZEN5, 160, 16, 9, 4096, 1).turned  # patches, of fewer channels
    assert not wgrad_blocks(ZEN5, 64, 3, 9, 4096, 1).apart  # few channels: one matmul
    assert not wgrad_blocks(ZEN5, 8, 64, 9, 4096, 4).apart  # groups


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("x", "w", "stride", "kind"),
    [
        ((2, 13, 9, 7), (31, 13, 3, 3), 1, "float"),  # dy packed
        ((1, 16, 6, 5), (160, 16, 3, 3), 2, "bfloat16"),  # patches packed, one matmul each
        ((3, 3, 8, 8), (17, 3, 3, 3), 1, "half"),  # one matmul
        ((2, 12, 16, 8), (5, 12, 1, 1), 2, "float"),
        ((2, 24, 5, 5), (36, 4, 3, 3), 1, "float"),  # groups
        ((1, 1, 4, 4), (1, 1, 3, 3), 1, "float"),
    ],
)
def test_blocks_are_right(
    x: tuple[int, ...], w: tuple[int, ...], stride: int, kind: str, *, last: bool
) -> None:
    graph = gradient(x, w, stride=stride, kind=kind, last=last)
    plan = graph.build("cpu", knobs={"conv_wgrad.strategy": "blocked"})
    assert plan.verify(seed=1).ok
