# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random valid graphs, built and executed on the CPU and compared with the float64 reference."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from hipdnn_iree.provider.sweep.case_task import CaseTask, SweepOptions
from hipdnn_iree.provider.sweep.fuzz.cases import Draw, drawn_cases
from hipdnn_iree.provider.sweep.process_pool import Limits
from hipdnn_iree.provider.sweep.row import FAILED, Row, read_run
from hipdnn_iree.provider.sweep.run_file import RunFile
from hipdnn_iree.provider.sweep.runner import header, sweep

from tools.soak.attack import Budget, Result

__all__ = ["replay", "run"]

_NOT_COMPILED = ("compile-error", "timeout")  # by the compiler's own limit
_NO_END = "no end within"  # of a process, which is another limit
_PART = 20  # graphs between two looks at the time
COMPILED_IN_NO_STRATEGY = 2 / 1000  # at most
_OPTIONS = SweepOptions(settings={"cache_mode": "off", "compiler_timeout_s": "60"})
_LIMITS = Limits(timeout_s=180)  # two ways to compile, all attempts of each, and an execution


def _part(found: Result, budget: Budget, draw: Draw) -> None:
    path = budget.scratch / f"graphs{draw.seed}.jsonl"
    with RunFile(path, header([], _OPTIONS.as_dict()), resume=True) as file:
        sweep(_tasks(draw, budget), file, jobs=1, limits=_LIMITS)
    for row in read_run(path).rows:
        status = "hang" if _NO_END in row.detail else row.status
        found.counts[status] += 1
        if row.status in FAILED and status not in _NOT_COMPILED:
            _tell(found, row)


def _tasks(draw: Draw, budget: Budget) -> Iterator[CaseTask]:
    """Yield a task for each graph while there is time; one at least."""
    end = time.monotonic() + max(1.0, budget.left)
    for case in drawn_cases(draw):
        if time.monotonic() < end:
            yield CaseTask(case=case, engines=("iree",), target="cpu", threads=0, options=_OPTIONS)


def _tell(found: Result, row: Row) -> None:
    seed = int(row.source.split()[2])  # fuzz --seed N
    text = f"{row.status} with seed {seed}: {row.detail:.200}"
    detail = f"{row.log or row.detail}\n\nhipdnn-iree fuzz --seed {seed} --count 1 repeats it"
    found.fail(text, json.dumps(seed).encode(), detail)


def run(budget: Budget, seed: int) -> Result:
    """Try graphs until the time is over."""
    found = Result()
    for index in budget.rounds(found):
        first = 1_000_000 * (seed % 1000) + index * _PART
        _part(found, budget, Draw(seed=first, count=_PART))
    errors = sum(found.counts[status] for status in _NOT_COMPILED)
    graphs = found.counts.total()
    if errors > max(1, COMPILED_IN_NO_STRATEGY * graphs):
        found.fail(f"{errors} of {graphs} graphs compile in no strategy")
    return found


def replay(budget: Budget, case: bytes) -> Result:
    """Try the graph of one seed."""
    found = Result()
    _part(found, budget, Draw(seed=json.loads(case)))
    return found
