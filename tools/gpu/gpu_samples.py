# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Case problems built, run and verified on a real device, in many processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.errors import CompileError
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.target import Target

from tools.survey.errors import brief
from tools.survey.trials import Trial, cases

__all__ = ["STATUSES", "child", "run_case", "run_samples", "summary"]

STATUSES = ("ok", "wrong", "compile-error", "error", "declined")

_BATCH = 24  # cases a process does before the next: an error of the device may stay with it

Row = dict[str, Any]
Name = tuple[str, str]  # sample, data type


def run_case(case: Trial, seed: int = 1) -> Row:
    """Build, run and verify one case here; return what became of it."""
    from hipdnn_iree.provider.registry import engine
    from hipdnn_iree.provider.verify import compare, expect, random_inputs

    begin = time.perf_counter()

    def row(status: str, note: str = "") -> Row:
        seconds = round(time.perf_counter() - begin, 2)
        name, data_type, _ = case.key
        about = {"case": name, "op": case.op, "data_type": data_type}
        return {**about, "status": status, "note": note, "seconds": seconds}

    if case.declines:
        return row("declined", ", ".join(sorted({p.rule for p in case.declines})))
    try:
        inputs: dict[Any, Any] = {**random_inputs(case.graph, seed=seed)}
        got = engine("iree", settings()).build(case.graph, case.target).run(inputs)
        report = compare(case.graph, got, expect(case.graph, inputs, case.target))
    except CompileError as error:
        return row("compile-error", brief(error))
    except Exception as error:  # a survey reports everything and goes on
        return row("error", brief(error))
    wrong = "; ".join(str(o) for o in report.outputs if not o.ok)
    return row("wrong" if wrong else "ok", wrong)


def run_samples(
    target: Target,
    *,
    data_types: Sequence[DataType] = (),
    pattern: str = "",
    jobs: int = 1,
    limit_s: float = 60,
) -> Iterator[Row]:
    """Yield a row for each sample problem, in no order.

    What failed on the device, or was lost with its process, is done once more in a process of
    its own.

    Parameters
    ----------
    target : Target
    data_types : sequence of DataType
        Those of interest; none given: all.
    pattern : str
        Part of a sample's name.
    jobs : int
        Processes at one time.
    limit_s : float
        Of one compilation, in seconds.
    """
    todo = [(c.sample.name, c.data_type.json) for c in cases((target,), data_types, pattern)]
    # Dealt out in turn, so that the long ones of an op do not meet in one batch.
    count = -(-len(todo) // _BATCH)
    again: list[Name] = []
    with ThreadPoolExecutor(jobs) as pool:
        one = partial(_in_a_process, target, limit_s=limit_s)
        for rows in pool.map(one, [todo[i::count] for i in range(count)]):
            for row in rows:
                if row["status"] == "error":
                    again.append((row["case"], row["data_type"]))
                else:
                    yield row
        for rows in pool.map(one, [[name] for name in again]):
            yield from rows


def _in_a_process(target: Target, names: Sequence[Name], limit_s: float) -> list[Row]:
    """Return a row for each case, of those that the process did not get to, too."""
    words = [str(_ROOT), str(target), str(limit_s), json.dumps(names)]
    command = [sys.executable, "-c", _CHILD, *words]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=60 + limit_s * len(names), check=False
        )
        output, why = ran.stdout, f"its process ended with status {ran.returncode}"
    except subprocess.TimeoutExpired as error:
        output, why = (error.stdout or b"").decode(), "its process took too long"
    rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    done = {(row["case"], row["data_type"]) for row in rows}
    for name, data_type in names:
        if (name, data_type) not in done:
            about = {"case": name, "op": name.partition(".")[0], "data_type": data_type}
            rows.append({**about, "status": "error", "note": why, "seconds": 0.0})
    return rows


_ROOT = Path(__file__).resolve().parents[2]
_CHILD = """
import json, sys
sys.path.insert(0, sys.argv[1])
from tools.gpu.gpu_samples import child
child(sys.argv[2], float(sys.argv[3]), [tuple(name) for name in json.loads(sys.argv[4])])
"""


def child(target: str, limit_s: float, names: Sequence[Name]) -> None:
    """Run cases and print a row of JSON for each: what the processes of `run_samples` do."""
    from hipdnn_iree.jit.settings import scope
    from hipdnn_iree.provider.sweep.samples import sample_problems

    samples = {sample.name: sample for sample in sample_problems()}
    with scope(compiler_jobs=1, compiler_timeout_s=limit_s):
        for name, data_type in names:
            case = Trial(samples[name], DataType.parse(data_type), Target.parse(target))
            print(json.dumps(run_case(case)), flush=True)


def summary(rows: Iterable[Row]) -> dict[str, Any]:
    """Return counts by status, by op and by data type, and every row that is no success."""
    rows = sorted(rows, key=lambda r: (r["case"], r["data_type"]))
    ops: dict[str, Counter[str]] = {}
    types: dict[str, Counter[str]] = {}
    for row in rows:
        ops.setdefault(row["op"], Counter())[row["status"]] += 1
        types.setdefault(row["data_type"], Counter())[row["status"]] += 1
    return {
        "counts": dict(Counter(row["status"] for row in rows)),
        "ops": {name: dict(counts) for name, counts in sorted(ops.items())},
        "data_types": {name: dict(counts) for name, counts in sorted(types.items())},
        "failures": [row for row in rows if row["status"] not in ("ok", "declined")],
    }
