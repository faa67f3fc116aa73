# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What attention is estimated to cost on CPUs, against times that were measured.

``sdpa_*.jsonl``: best times of both strategies in microseconds, with two threads: of the attention
of ``suites/random.yaml`` with seeds 8501 and 8601 to 8604 and of the networks that have some, on an
Intel Xeon (Emerald Rapids), beside PyTorch 2.13; and of code for AVX2 there, the sums of its
kernels' times, of three of these seeds and of decoders.
"""

from __future__ import annotations

import json
from math import exp, log
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.jit.ops.attention_cost import (
    Attention,
    attention_costs,
    attention_product,
)
from hipdnn_iree.jit.ops.matmul_cost import cheapest_tiles
from hipdnn_iree.jit.strategies import choices
from hipdnn_iree.jit.target import Target

AVX2, XEON = Target.parse("cpu:x86-64-v3"), Target.parse("cpu:sapphirerapids")
_FOLDER = Path(__file__).parent.parent / "data" / "strategies"


def measured(target: Target) -> list[dict[str, Any]]:
    lines = (_FOLDER / f"sdpa_{target.arch}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def chosen(row: dict[str, Any], target: Target) -> str:
    """Return the strategy that the rule chooses."""
    g = Graph(io_data_type=row["type"], compute_data_type="float")
    g.sdpa(*(g.tensor(dims=row[port]) for port in "qkv")).o.set_output()
    return choices(g.freeze(), target)["sdpa"].default


@pytest.mark.parametrize(
    ("target", "count", "usual", "near", "most"),
    [(XEON, 162, 1.02, 0.92, 1.35), (AVX2, 102, 1.06, 0.75, 1.7)],
    ids=str,
)
def test_the_choice_is_near_the_best_of_what_was_measured(
    target: Target, count: int, usual: float, near: float, most: float
) -> None:
    regret = []
    for row in measured(target):
        times = {name: us for name, us in row["us"].items() if name != "torch"}
        regret.append(times[chosen(row, target)] / min(times.values()))
    assert len(regret) == count
    assert exp(mean(map(log, regret))) < usual
    assert sum(one <= 1.1 for one in regret) > near * count
    assert max(regret) < most


@pytest.mark.parametrize("kind", [DataType.FLOAT, DataType.BFLOAT16])
def test_tiles_go_by_the_rows(kind: DataType) -> None:
    """Few rows read k along its features and v by rows, as they lie; many rows pack both."""
    narrow = kind is DataType.BFLOAT16

    def ways(rows: int) -> list[str]:
        sizes = ((rows, 64, 1031, True), (rows, 1031, 64, False))
        products = [
            attention_product(8, m, k, n, columns=columns, narrow=narrow)
            for m, k, n, columns in sizes
        ]
        return [cheapest_tiles(XEON, one)[1] for one in products]

    assert ways(1) == ["dots", "rows"]
    assert ways(512) == ["blocked", "blocked"]


def test_heads_that_share_keys_are_rows_of_a_matrix() -> None:
    few = Attention.of((2, 8, 3, 64), (2, 2, 77, 64), (2, 2, 77, 32), DataType.HALF)
    assert few == (4, 12, 77, 64, 32, True)
    assert {*attention_costs(XEON, few)} == {"composite", "blocked"}
