# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random valid graphs, built and executed on the CPU and compared with the float64 reference."""

from __future__ import annotations

import json
from pathlib import Path

from tools.fuzz import campaign
from tools.soak.attack import Budget, Result

__all__ = ["replay", "run"]

_PART = 20  # graphs between two looks at the time
COMPILED_IN_NO_STRATEGY = 2 / 1000  # at most


def _part(found: Result, budget: Budget, seed: int, count: int) -> None:
    folder = budget.scratch / f"graphs{seed}"
    part = campaign.run(count, seed, 1, folder=folder, limit_s=max(1.0, budget.left))
    found.counts += part.counts
    for row in part.findings:
        graph = row.get("file") and Path(row["file"]).read_text(encoding="utf-8")
        detail = f"{row['note']}\n\n{graph}"
        text = f"{row['status']} with seed {row['seed']}: {row['note']:.200}"
        if row["status"] != "compile-error":
            found.fail(text, json.dumps(row["seed"]).encode(), detail)


def run(budget: Budget, seed: int) -> Result:
    """Try graphs until the time is over."""
    found = Result()
    for index in budget.rounds(found):
        _part(found, budget, 1_000_000 * (seed % 1000) + index * _PART, _PART)
    errors, graphs = found.counts["compile-error"], found.counts.total()
    if errors > max(1, COMPILED_IN_NO_STRATEGY * graphs):
        found.fail(f"{errors} of {graphs} graphs compile in no strategy")
    return found


def replay(budget: Budget, case: bytes) -> Result:
    """Try the graph of one seed."""
    found = Result()
    _part(found, budget, json.loads(case), 1)
    return found
