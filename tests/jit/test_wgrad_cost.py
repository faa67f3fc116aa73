# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What weight gradients are estimated to cost, against times that were measured; blocks are right.

``conv_wgrad_sapphirerapids.jsonl``: median times of the strategies and of PyTorch 2.11, in
microseconds, with two threads on an Intel Xeon (Sapphire Rapids or later), of 88 gradients drawn by
seed and 72 of the networks, in float32.
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
from hipdnn_iree.jit.ops.wgrad_cost import exchanges, wgrad_blocks, wgrad_costs
from hipdnn_iree.jit.strategies import choices
from hipdnn_iree.jit.target import Target

ZEN5, ZEN3, GPU = (Target.parse(name) for name in ("cpu:znver5", "cpu:znver3", "gfx942"))
XEON = Target.parse("cpu:sapphirerapids")
MEASURED = Path(__file__).parent.parent / "data" / "strategies"


ROWS = [
    json.loads(line)
    for line in (MEASURED / f"conv_wgrad_{XEON.arch}.jsonl").read_text().splitlines()
]


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


def test_the_choice_is_near_the_best_of_what_was_measured() -> None:
    regret, ratios = [], []
    for row in ROWS:
        times = dict(row["us"])
        torch = times.pop("torch")
        found = costs(row, XEON)
        chosen = times[min(found.keys() & times, key=found.__getitem__)]
        regret.append(chosen / min(times.values()))
        ratios.append(chosen / torch)
    assert len(regret) >= 150
    assert exp(mean(map(log, regret))) < 1.06
    assert sum(r <= 2 for r in regret) >= 0.98 * len(regret)
    assert exp(mean(map(log, ratios))) < 0.8  # by filter positions alone: 1.24


def test_blocks_are_chosen_where_something_is_known_of_them() -> None:
    assert "blocked" in costs(ROWS[0])
    known = {"gemm", "correlated", "blocked"}
    assert set(costs(ROWS[0], ZEN3)) - {"exchanged"} == known
    wide = gradient((2, 64, 14, 14), (64, 64, 3, 3)).freeze()
    assert choices(wide, ZEN5)["conv_wgrad"].default == "blocked"
    assert choices(wide, GPU)["conv_wgrad"].default == "correlated"
    groups = gradient((2, 64, 14, 14), (64, 16, 3, 3)).freeze()
    assert choices(groups, ZEN5)["conv_wgrad"].default == "gemm"
    double = gradient((2, 64, 14, 14), (64, 64, 3, 3), kind="double").freeze()
    assert "blocked" not in choices(double, ZEN5)["conv_wgrad"].names
    (node,) = plan_code(wide, ZEN5).nodes
    assert node.strategy == "blocked"


def test_patches_of_fewer_channels() -> None:
    """Two filters of 189 channels, 5x5: patches of x 13 ms, of dy 1.1, on one of Zen 3."""
    few = gradient((8, 189, 14, 14), (2, 189, 5, 5)).freeze()
    many = gradient((8, 2, 14, 14), (189, 2, 5, 5)).freeze()
    for target in (ZEN3, ZEN5, XEON):
        assert choices(few, target)["conv_wgrad"].default == "exchanged"
        assert choices(many, target)["conv_wgrad"].default != "exchanged"
    assert "exchanged" not in choices(few, GPU)["conv_wgrad"].names


@pytest.mark.parametrize(
    ("pre", "post", "stride", "size", "groups", "fits"),
    [
        ((1, 1), (1, 1), (1, 1), (3, 3), 1, True),
        ((4, 0), (0, 2), (1, 1), (3, 3), 1, True),  # as far as dilated filters reach
        ((5, 0), (0, 0), (1, 1), (3, 3), 1, False),
        ((-1, 0), (0, 0), (1, 1), (3, 3), 1, False),
        ((0, 0), (0, 0), (1, 2), (3, 3), 1, False),
        ((0, 0), (0, 0), (1, 1), (3, 3), 2, False),
        ((0, 0), (0, 0), (1, 1), (1, 1), 1, False),
    ],
)
def test_what_can_be_exchanged(
    pre: tuple[int, int],
    post: tuple[int, int],
    stride: tuple[int, int],
    size: tuple[int, int],
    groups: int,
    *,
    fits: bool,
) -> None:
    op = ConvFprop(pre_padding=pre, post_padding=post, stride=stride, dilation=(2, 1))
    assert exchanges(op, size, groups) is fits


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", ["float", "bfloat16"])
@pytest.mark.parametrize(
    ("x", "w", "pre", "post", "dilation", "mode"),
    [
        ((2, 31, 9, 7), (3, 31, 3, 3), (1, 1), (1, 1), (1, 1), "CROSS_CORRELATION"),
        ((1, 17, 8, 11), (13, 17, 2, 5), (0, 3), (1, 0), (1, 1), "CONVOLUTION"),
        ((3, 8, 13, 6), (1, 8, 3, 1), (4, 0), (0, 0), (2, 1), "CROSS_CORRELATION"),
        ((1, 2, 5, 5), (5, 2, 5, 5), (2, 2), (2, 2), (1, 1), "CROSS_CORRELATION"),
        ((2, 5, 16), (2, 5, 4), (1,), (2,), (1,), "CROSS_CORRELATION"),
        ((1, 4, 4, 5, 6), (2, 4, 2, 3, 2), (1, 0, 1), (0, 2, 0), (1, 1, 1), "CONVOLUTION"),
    ],
)
def test_patches_of_dy_are_right(
    x: tuple[int, ...],
    w: tuple[int, ...],
    pre: tuple[int, ...],
    post: tuple[int, ...],
    dilation: tuple[int, ...],
    mode: str,
    kind: str,
    *,
    last: bool,
) -> None:
    rank = len(pre)
    extents = (x[2 + i] + pre[i] + post[i] - dilation[i] * (w[2 + i] - 1) for i in range(rank))
    graph = Graph(io_data_type=kind, compute_data_type="float", intermediate_data_type="float")
    dims = (x[0], w[0], *extents), x
    dy, image = (
        graph.tensor(dims=d, **({"strides": channels_last_strides(d)} if last else {}))
        for d in dims
    )
    graph.conv_wgrad(
        dy, image, dw_dims=w, pre_padding=pre, post_padding=post, dilation=dilation, conv_mode=mode
    ).set_output()
    plan = graph.build("cpu", knobs={"conv_wgrad.strategy": "exchanged"})
    assert plan.verify(seed=1).ok


def test_what_is_packed_goes_by_what_fills_vectors() -> None:
    assert not wgrad_blocks(ZEN5, (32, 463, 3, 3), 2, 144, 1).swapped  # dy, of 32 filters
    assert wgrad_blocks(ZEN5, (463, 3, 3, 3), 2, 144, 1).swapped  # patches, of 3 channels


def test_results_of_samples_are_added_up_where_they_are_few() -> None:
    assert wgrad_blocks(ZEN5, (64, 64, 3, 3), 8, 3136, 1).by_sample
    assert not wgrad_blocks(ZEN5, (64, 64, 3, 3), 1, 3136, 1).by_sample
    assert not wgrad_blocks(ZEN5, (512, 512, 3, 3), 8, 49, 1).by_sample  # 512 filters, 49 places
    assert not wgrad_blocks(ZEN5, (8, 64, 3, 3), 1, 4096, 4).by_sample  # groups


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
