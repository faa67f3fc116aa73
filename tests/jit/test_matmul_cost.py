# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What matmuls are estimated to cost on a CPU with short vectors, against times that were measured.

``matmul_znver3.jsonl``: best times of every strategy and of PyTorch 2.13, in microseconds, of the
60 matmuls of ``suites/random.yaml`` with seed 5, with two threads on an AMD EPYC (Zen 3).
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

ZEN3 = Target.parse("cpu:znver3")
_FILE = Path(__file__).parent.parent / "data" / "strategies" / "matmul_znver3.jsonl"
MEASURED = [json.loads(line) for line in _FILE.read_text().splitlines()]


def chosen(row: dict[str, Any]) -> str:
    """Return the strategy that the rule chooses."""
    g = Graph(io_data_type=row["type"], compute_data_type="float", intermediate_data_type="float")
    a, b = (g.tensor(dims=row[port], strides=row[f"{port}_strides"]) for port in "ab")
    c = g.matmul(a, b)
    (g.relu(c) if row["followed"] else c).set_output()
    return choices(g.freeze(), ZEN3)["matmul"].default


def test_the_choice_is_near_the_best_of_what_was_measured() -> None:
    regret = []
    for row in MEASURED:
        times = {name: us for name, us in row["us"].items() if name != "torch"}
        regret.append(times[chosen(row)] / min(times.values()))
    assert len(regret) == 60
    assert exp(mean(map(log, regret))) < 1.05
    assert max(regret) < 1.5


def product(m: int, k: int, n: int, *, rows: bool = True, columns: bool = False) -> Product:
    return Product(1, m, k, n, (rows, columns), (False, False), virtual=False)


@pytest.mark.parametrize("n", [4, 6, 17])
def test_blocks_of_a_left_operand_by_columns(n: int) -> None:
    """They read it by rows: 673x2743x6 took 8 ms, untiled 0.9."""
    lies, across = (product_costs(ZEN3, product(673, 2743, n, rows=rows)) for rows in (True, False))
    assert lies[BLOCKED] < across[BLOCKED]
    assert (lies[GEMM], lies[UNTILED]) == (across[GEMM], across[UNTILED])
    assert across[UNTILED] < across[BLOCKED]
