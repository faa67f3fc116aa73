# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What matmuls are estimated to cost on CPUs, against times that were measured.

``matmul_*.jsonl``: best times of every strategy and of PyTorch 2.13, in microseconds, of the
matmuls of ``suites/random.yaml``, with two threads: 60 of seed 5 on an AMD EPYC (Zen 3), 240 of
seeds 1, 2, 3 and 21 and 94 of ordinary sizes on an Intel Xeon with AMX, 76 of BERT, ViT and Whisper
and others on one without.  There blocks of float32 were measured again when panels came to stay in
the second cache, and scaled by what the other strategies of the same matmul took both times; so
were `rows` and `dots` of 95 in bfloat16, of up to 64 rows or columns, when they came to convert
where they read.
``followed``: a bias and an activation follow, and are in the times.
"""

from __future__ import annotations

import json
from math import exp, log
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.jit.ops.matmul_cost import BLOCKED, GEMM, UNTILED, Product, product_costs
from hipdnn_iree.jit.strategies import choices
from hipdnn_iree.jit.target import Target

ZEN3, XEON = Target.parse("cpu:znver3"), Target.parse("cpu:sapphirerapids")
_FOLDER = Path(__file__).parent.parent / "data" / "strategies"


def measured(target: Target) -> list[dict[str, Any]]:
    lines = (_FOLDER / f"matmul_{target.arch}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def chosen(row: dict[str, Any], target: Target) -> str:
    """Return the strategy that the rule chooses."""
    g = Graph(io_data_type=row["type"], compute_data_type="float", intermediate_data_type="float")
    a, b = (g.tensor(dims=row[port], strides=row[f"{port}_strides"]) for port in "ab")
    c = g.matmul(a, b)
    (g.relu(c) if row["followed"] else c).set_output()
    return choices(g.freeze(), target)["matmul"].default


@pytest.mark.parametrize(
    ("target", "count", "usual", "most"), [(ZEN3, 60, 1.05, 1.5), (XEON, 486, 1.1, 3)], ids=str
)
def test_the_choice_is_near_the_best_of_what_was_measured(
    target: Target, count: int, usual: float, most: float
) -> None:
    regret = []
    for row in measured(target):
        times = {name: us for name, us in row["us"].items() if name != "torch"}
        regret.append(times[chosen(row, target)] / min(times.values()))
    assert len(regret) == count
    assert exp(mean(map(log, regret))) < usual
    assert max(regret) < most


def product(m: int, k: int, n: int, *, rows: bool = True, columns: bool = False) -> Product:
    return Product(1, m, k, n, (rows, columns), (False, False), virtual=False)


@pytest.mark.parametrize("n", [4, 6, 17])
def test_blocks_of_a_left_operand_by_columns(n: int) -> None:
    """They read it by rows: 673x2743x6 took 8 ms, untiled 0.9."""
    lies, across = (product_costs(ZEN3, product(673, 2743, n, rows=rows)) for rows in (True, False))
    assert lies[BLOCKED] < across[BLOCKED]
    assert (lies[GEMM], lies[UNTILED]) == (across[GEMM], across[UNTILED])
    assert across[UNTILED] < across[BLOCKED]
