# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Start-up: how long until the first result, and how many graphs are compiled in a second.

    python benchmarks/latency.py [--rounds N] [--graphs N] [--json]

One graph (conv + bias + relu, f32) in new processes, the ways in turn within each round:

===============  ====================================================================
floor            importing NumPy and the IREE runtime; no such process can be quicker
cold             nothing cached: lower, compile, load, run
cached           the code is in the cache
artifact         ``load_artifact``
again, cached    a graph that this process has built before: load it, build it, run it
again, artifact  the same with the artifact; what a program pays that has loaded all modules
===============  ====================================================================

Times are from the start of the process to the first result, but for the last two, which a process
measures itself.  On a busy machine the CPU time says more than the wall time.

Then some graphs of different ops are compiled with one worker and with two, in turn, the workers
warm and the cache off; ``serial`` is this process's own CPU time, which more workers do not share.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

WAYS = ("floor", "cold", "cached", "artifact", "again, cached", "again, artifact")

# Told on stdout: seconds since the start that the parent saw, and CPU seconds of this process.
_CHILD = """
import sys, time, resource
way, started, path, repeat = sys.argv[1], float(sys.argv[2]), sys.argv[3], int(sys.argv[4])
import numpy as np, iree.runtime
if way != "floor":
    import hipdnn_iree

def first():
    if way.endswith("artifact"):
        plan = hipdnn_iree.load_artifact(path).plan("cpu")
    else:
        plan = hipdnn_iree.load(path).build("cpu")
    wanted = {"cold": "miss"}.get(way, "artifact" if way.endswith("artifact") else "hit")
    assert plan.cache == wanted, plan.cache
    tensors = plan.graph.tensors
    plan.run({u: np.ones(tensors[u].dims, np.float32) for u in plan.graph.inputs})

if way.startswith("again"):
    first()
    times = []
    for _ in range(repeat):
        begin, cpu = time.perf_counter(), time.process_time()
        first()
        times.append((time.perf_counter() - begin, time.process_time() - cpu))
    print(*min(times))
else:
    if way != "floor":
        first()
    print(time.clock_gettime(time.CLOCK_MONOTONIC) - started, time.process_time())
loaded = [m for m in ("iree.compiler", "torch_mlir") if m in sys.modules]
assert way == "cold" or not loaded, loaded
"""


def child(way: str, path: Path, environ: dict[str, str]) -> tuple[float, float]:
    """Return wall and CPU seconds of one way, in a process of its own."""
    started = time.clock_gettime(time.CLOCK_MONOTONIC)
    words = [sys.executable, "-c", _CHILD, way, repr(started), str(path), "5"]
    done = subprocess.run(words, check=False, env=environ, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    wall, cpu = map(float, done.stdout.split())
    return wall, cpu


def conv_bias_relu() -> Any:
    """Return the graph whose first result is waited for."""
    from hipdnn_iree import Graph

    graph = Graph("conv_bias_relu", io_data_type="float")
    x = graph.tensor(dims=(1, 64, 56, 56), name="x")
    w = graph.tensor(dims=(64, 64, 3, 3), name="w")
    bias = graph.tensor(dims=(1, 64, 1, 1), name="bias")
    graph.relu(graph.add(graph.conv_fprop(x, w, padding=1), bias)).set_output()
    return graph


def first_results(rounds: int, folder: Path) -> dict[str, dict[str, Any]]:
    """Measure every way in each round."""
    from hipdnn_iree import save_artifact

    graph = conv_bias_relu()
    files = {"graph": folder / "graph.json", "artifact": folder / "graph.hipdnn-iree"}
    graph.save(str(files["graph"]))
    os.environ["HIPDNN_IREE_CACHE_DIR"] = str(folder / "cache")
    save_artifact(files["artifact"], graph.build("cpu"))
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environ |= {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for turn in range(-1, rounds):  # the first turn writes bytecode and does not count
        for way in WAYS:
            path = files["artifact" if way.endswith("artifact") else "graph"]
            own = environ
            if way == "cold":
                own = {**environ, "HIPDNN_IREE_CACHE_DIR": str(folder / f"cold{turn}")}
            measured = child(way, path, own)
            if turn >= 0:
                found[way].append(measured)
    return {
        way: {"wall": summary(w for w, _ in times), "cpu": summary(c for _, c in times)}
        for way, times in found.items()
    }


def summary(seconds: Iterable[float], scale: float = 1e3) -> dict[str, float]:
    """Return best, median and quartiles, in milliseconds."""
    values = sorted(s * scale for s in seconds)
    low, _, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return {
        "best": values[0],
        "median": statistics.median(values),
        "quartile_1": low,
        "quartile_3": high,
    }


def mixed(count: int) -> list[Any]:
    """Return graphs of different ops: the first sample problem of each that the CPU serves."""
    from hipdnn_iree.jit import support
    from hipdnn_iree.jit.target import Target
    from hipdnn_iree.provider.sweep.samples import op_of, sample_problems

    found: dict[str, Any] = {}
    for sample in sample_problems():
        op = op_of(sample)
        if op in found or op == "custom_op":
            continue
        graph = sample.graph(sample.dtypes[0]).freeze()
        if not list(support.problems(graph, Target.parse("cpu"))):
            found[op] = graph
        if len(found) == count:
            break
    return list(found.values())


def throughput(rounds: int, count: int) -> dict[str, Any]:
    """Compile the same graphs with one and with two workers, in turn."""
    from hipdnn_iree import precompile
    from hipdnn_iree.jit.compiler.client import default_compiler
    from hipdnn_iree.jit.options import WorkerOptions
    from hipdnn_iree.jit.settings import scope

    graphs = mixed(count)
    walls: dict[int, list[float]] = {1: [], 2: []}
    cpus: dict[int, list[tuple[float, float]]] = {1: [], 2: []}

    def once(jobs: int) -> None:
        with scope(compiler_jobs=jobs, cache_mode="off") as now:
            crew = default_compiler(WorkerOptions.of(now)).pool
            before, own = crew.cpu_seconds(), time.process_time()
            begin = time.perf_counter()
            made = precompile(graphs)
            walls[jobs].append(time.perf_counter() - begin)
            cpus[jobs].append((crew.cpu_seconds() - before, time.process_time() - own))
            failed = [f"{one.name}: {one.error}" for one in made if one.error]
            if failed:
                raise SystemExit("\n".join(failed))

    for jobs in (1, 2):  # start the workers, import torch-mlir
        with scope(compiler_jobs=jobs, cache_mode="off"):
            precompile(graphs[:4])
    for _ in range(rounds):
        once(1)
        once(2)
    ratios = [one / two for one, two in zip(walls[1], walls[2], strict=True)]
    workers, own = (statistics.median(c[i] for c in cpus[1]) for i in (0, 1))
    return {
        "graphs": len(graphs),
        "one_worker_s": summary(walls[1], 1),
        "two_workers_s": summary(walls[2], 1),
        "ratio": {"median": statistics.median(ratios), "each": ratios},
        "cpu_s": {"workers": workers, "serial": own},
        # What two idle CPUs give at best: one worker keeps one CPU busy, and all that there is to
        # do, this process's part too, is spread over both.
        "ratio_at_best": 2 * workers / (workers + own),
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--graphs", type=int, default=20, help="to compile; 0: leave that out")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    from hipdnn_iree.provider.sweep.machine import machine

    about: dict[str, Any] = {"machine": machine(), "rounds": options.rounds}
    with tempfile.TemporaryDirectory(prefix="hipdnn-iree-latency-") as folder:
        about["first_result_ms"] = first_results(options.rounds, Path(folder))
        if options.graphs:
            about["throughput"] = throughput(max(1, options.rounds // 2), options.graphs)
    about["machine"]["load_after"] = round(os.getloadavg()[0], 2)
    if options.json:
        print(json.dumps(about, indent=2))
        return
    print_tables(about)


def print_tables(about: dict[str, Any]) -> None:
    """Print the figures for people."""
    cells = ("best", "median", "quartile_1", "quartile_3")
    print(
        f"{'ms':18}{'wall: best':>12}{'median':>9}{'quartiles':>16}{'CPU: best':>12}{'median':>9}"
    )
    for way, row in about["first_result_ms"].items():
        best, median, low, high = (row["wall"][c] for c in cells)
        cpu = row["cpu"]
        print(
            f"{way:18}{best:12.1f}{median:9.1f}{f'{low:.1f} - {high:.1f}':>16}"
            f"{cpu['best']:12.1f}{cpu['median']:9.1f}"
        )
    found = about.get("throughput")
    if found:
        one, two = found["one_worker_s"], found["two_workers_s"]
        print(
            f"{found['graphs']} graphs: one worker {one['median']:.2f} s, "
            f"two {two['median']:.2f} s; ratio {found['ratio']['median']:.2f} "
            f"({min(found['ratio']['each']):.2f} - {max(found['ratio']['each']):.2f}); "
            f"CPU seconds: workers {found['cpu_s']['workers']:.2f}, "
            f"this process {found['cpu_s']['serial']:.2f}"
        )


if __name__ == "__main__":
    main()
