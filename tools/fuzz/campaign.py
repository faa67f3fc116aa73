# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many random graphs on the CPU, in parts, in processes that may crash: counts and reproducers.

`run` is for programs, such as the soak; ``scripts/fuzz_graphs --folder`` is for people.  Each
graph is built, executed and compared with the reference.  A folder keeps one line of
``findings.jsonl`` for each graph, and a graph file for each that is not good; what stands there
already is not done again, so a run that was ended goes on where it was.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from hipdnn_iree.graph_api.formats.json.json_form import dumps
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.provider.sweep.fuzz.random_graphs import random_graph
from hipdnn_iree.provider.sweep.process_pool import Ended, Limits, ProcessPool, Result
from hipdnn_iree.provider.sweep.process_worker import Tell, serve

from tools.fuzz.graph_checks import GOOD, Check, check_on_cpu

__all__ = ["CampaignResult", "run"]

_PART = 20  # graphs for which a process is asked at a time
_TOLERANCE_S = 60.0  # beyond the time limits, after which a process is ended


@dataclass(frozen=True)
class SeedTask:
    """Seeds that a process is asked for at a time."""

    seeds: tuple[int, ...]
    folder: Path
    compile_timeout_s: float

    @property
    def parts(self) -> int:
        """How many answers there are."""
        return len(self.seeds)


@dataclass
class CampaignResult:
    """What came of a range of seeds.

    Attributes
    ----------
    counts : Counter
        Graphs by status: ``ok``, ``declined``, ``wrong``, ``compile-error``, ``error``, ``crash``
        (of the process that built or executed the graph) or ``hang``.
    attempts : Counter
        Graphs that compiled by an attempt other than the planned one, by its name.
    findings : list of dict
        Of each graph that is not good: ``seed``, ``status``, ``note``, ``file``.
    seconds : float
        Wall time of this call.
    stages : dict of str to float
        Seconds of all graphs together, by what took them.
    """

    counts: Counter[str] = field(default_factory=Counter)
    attempts: Counter[str] = field(default_factory=Counter)
    findings: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    stages: Counter[str] = field(default_factory=Counter)

    @property
    def graphs(self) -> int:
        """How many graphs were looked at."""
        return sum(self.counts.values())

    def add(self, row: dict[str, Any]) -> None:
        """Count one line of ``findings.jsonl``."""
        self.counts[row["status"]] += 1
        if row.get("attempt"):
            self.attempts[row["attempt"]] += 1
        if row["status"] not in GOOD:
            self.findings.append(row)
        self.stages.update(row.get("stages", {}))

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "graphs": self.graphs,
            "counts": dict(self.counts),
            "attempts": dict(self.attempts),
            "findings": self.findings,
            "seconds": round(self.seconds, 1),
            "stages": {name: round(s, 1) for name, s in self.stages.items()},
        }


def run(
    count: int,
    seed: int,
    jobs: int,
    *,
    folder: Path,
    limit_s: float = 1e9,
    compile_timeout_s: float = 60.0,
) -> CampaignResult:
    """Check graphs of ``count`` seeds that begin with ``seed``, and return what came of them.

    Parameters
    ----------
    count, seed : int
        Which graphs; equal seeds give equal graphs.
    jobs : int
        Processes at a time; each has one compiler worker.
    folder : Path
        Of the findings; seeds that stand in it already are counted, not done again.
    limit_s : float
        Seconds after which no further graph is begun; the same call goes on later.
    compile_timeout_s : float
        Time limit of a compilation; all attempts together have twice that.
    """
    begin, result = time.monotonic(), CampaignResult()
    folder.mkdir(parents=True, exist_ok=True)
    wanted = range(seed, seed + count)
    rows = {row["seed"]: row for row in _kept(folder) if row["seed"] in wanted}
    for row in rows.values():
        result.add(row)
    missing = [number for number in wanted if number not in rows]
    end = begin + limit_s
    # Two ways to compile, all attempts of each, and an execution.
    limits = Limits(timeout_s=2 * compile_timeout_s + _TOLERANCE_S)
    tasks = (
        SeedTask(tuple(missing[at : at + _PART]), folder, compile_timeout_s)
        for at in range(0, len(missing), _PART)
        if time.monotonic() < end
    )
    with (
        ProcessPool(__name__, jobs, limits) as pool,
        (folder / "findings.jsonl").open("a", encoding="utf-8", buffering=1) as file,
    ):
        for found in pool.results(tasks):
            row = _row(found)
            # A line that was cut off, when a run was ended, does not spoil the next one.
            file.write(f"\n{json.dumps(row)}\n")
            file.flush()
            result.add(row)
            if time.monotonic() > end:
                break
    result.seconds = time.monotonic() - begin
    return result


def _kept(folder: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = (folder / "findings.jsonl").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue  # cut off, as the run was ended


def _row(found: Result[SeedTask]) -> dict[str, Any]:
    """Return the row of a seed; a process that ends costs the seed that it was at."""
    if not isinstance(found.answer, Ended):
        return found.answer
    seed = found.task.seeds[found.part]
    what = "hang" if found.answer.reason == "timeout" else "crash"
    file = _saved(seed, what, found.task.folder)
    return {"seed": seed, "status": what, "note": found.answer.detail, "file": file}


def _saved(seed: int, status: str, folder: Path) -> str:
    path = folder / f"{status}-{seed}.json"
    path.write_text(dumps(random_graph(seed).freeze()) + "\n", encoding="utf-8")
    return str(path)


def main(descriptor: str, host: str, memory: str, slot: str) -> NoReturn:
    """Serve seeds; a process of its own runs this."""
    serve(descriptor, host, memory, _check)


def _check(task: SeedTask, part: int, tell: Tell) -> Iterator[dict[str, Any]]:
    """Yield a row for each seed."""
    options: dict[str, Any] = {
        "cache_mode": "off",
        "compiler_timeout_s": task.compile_timeout_s,
        "compiler_jobs": 1,
        "reproducers_dir": task.folder / "reproducers",
        "reproducers_keep": 1000,
    }
    for seed in task.seeds[part:]:
        begin = time.perf_counter()
        graph = random_graph(seed).freeze()
        made = time.perf_counter() - begin
        with scope(**options):
            found: Check = next(iter(check_on_cpu(graph, seed, variants=0)))
        row = {"seed": seed, "status": found.status, "note": found.note, "attempt": found.attempt}
        if not found.good:
            row["file"] = _saved(seed, found.status, task.folder)
        stages = {"generate": made, **found.stages}
        stages["check"] = found.seconds - sum(found.stages.values())
        row["stages"] = {name: round(s, 4) for name, s in stages.items()}
        yield row
