"""Many random graphs on the CPU, in parts, in processes that may crash: counts and reproducers.

`run` is for programs, such as the soak; ``scripts/fuzz_graphs --folder`` is for people.  Each
graph is built, executed and compared with the reference.  A folder keeps one line of
``findings.jsonl`` for each graph, and a graph file for each that is not good; what stands there
already is not done again, so a run that was ended goes on where it was.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from hipdnn_iree.graph_api.formats.json.json_form import dumps
from hipdnn_iree.jit.settings import scope

from tools.fuzz.graph_checks import GOOD, Check, check_on_cpu
from tools.fuzz.random_graphs import random_graph

__all__ = ["CampaignResult", "run"]

ROOT = Path(__file__).resolve().parents[2]
_PART = 20  # graphs for which a process is asked at a time
_TOLERANCE_S = 60.0  # beyond the time limits, after which a process is ended


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
    todo: SimpleQueue[list[int]] = SimpleQueue()
    missing = [number for number in wanted if number not in rows]
    for at in range(0, len(missing), _PART):
        todo.put(missing[at : at + _PART])
    lock = threading.Lock()

    def serve() -> None:
        while time.monotonic() - begin < limit_s:
            try:
                part = todo.get_nowait()
            except Empty:
                return
            for row in _part(part, folder, compile_timeout_s, begin + limit_s):
                # A line that was cut off, when a run was ended, does not spoil the next one.
                with lock, (folder / "findings.jsonl").open("a", encoding="utf-8") as file:
                    file.write(f"\n{json.dumps(row)}\n")
                    result.add(row)

    threads = [threading.Thread(target=serve) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
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


def _part(
    seeds: list[int], folder: Path, compile_timeout_s: float, end: float
) -> Iterator[dict[str, Any]]:
    """Yield the row of each seed; a process that ends costs the seed that it was at."""
    left = list(seeds)
    while left and time.monotonic() < end:
        command = [sys.executable, "-m", __name__, str(folder), str(compile_timeout_s)]
        with subprocess.Popen(
            [*command, *map(str, left)], stdout=subprocess.PIPE, text=True, cwd=ROOT
        ) as child:
            assert child.stdout is not None
            state = {"hang": False}

            def stop(child: subprocess.Popen[str] = child, state: dict[str, bool] = state) -> None:
                state["hang"] = True
                child.kill()

            while left:
                # Two ways to compile, all attempts of each, and an execution.
                watch = threading.Timer(2 * compile_timeout_s + _TOLERANCE_S, stop)
                watch.start()
                line = child.stdout.readline()
                watch.cancel()
                if not line.endswith("\n"):
                    break
                yield json.loads(line)
                left.pop(0)
                if time.monotonic() > end:
                    child.kill()
                    return
            child.stdout.close()
            status = child.wait()
        if left:
            what = "hang" if state["hang"] else "crash"
            seed = left.pop(0)
            yield {"seed": seed, "status": what, "note": f"exit status {status}",
                   "file": _saved(seed, what, folder)}  # fmt: skip


def _saved(seed: int, status: str, folder: Path) -> str:
    path = folder / f"{status}-{seed}.json"
    path.write_text(dumps(random_graph(seed).freeze()) + "\n", encoding="utf-8")
    return str(path)


def main(folder: Path, compile_timeout_s: float, seeds: list[int]) -> None:
    """Print a row for each seed."""
    options: dict[str, Any] = {
        "cache_mode": "off",
        "compiler_timeout_s": compile_timeout_s,
        "compiler_jobs": 1,
        "reproducers_dir": folder / "reproducers",
        "reproducers_keep": 1000,
    }
    for seed in seeds:
        begin = time.perf_counter()
        graph = random_graph(seed).freeze()
        made = time.perf_counter() - begin
        with scope(**options):
            found: Check = next(iter(check_on_cpu(graph, seed, variants=0)))
        row = {"seed": seed, "status": found.status, "note": found.note, "attempt": found.attempt}
        if not found.good:
            row["file"] = _saved(seed, found.status, folder)
        stages = {"generate": made, **found.stages}
        stages["check"] = found.seconds - sum(found.stages.values())
        row["stages"] = {name: round(s, 4) for name, s in stages.items()}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), list(map(int, sys.argv[3:])))
