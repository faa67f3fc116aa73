# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What emulation costs: CPU time and memory of the process that executes the kernels.

    python benchmarks/emulation.py [--target gfx942] [-k conv] [--json]

The kernels of each graph are executed with all checks (races, waits, bounds) and their results
compared with the float64 reference.  CPU time is that of the launches alone, Python's start, the
compiler and the reference left out; it hardly depends on what else the machine does.  Memory is
how much the process has grown at its peak from when it was ready, with nothing loaded yet, against
the bytes of inputs, outputs and workspace.  The device memory itself, decoded code, registers, the
logs of the checks and the pages of libraries that are first used are all part of it.  What the
process takes before (Python, NumPy and the modules of the emulation, the same for all graphs) is
shown apart.  Each graph has processes of its own, as memory that one leaves behind would hide what
the next needs.  The exit status is 1 for a wrong result, or where a limit is not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # this checkout

from hipdnn_iree import Graph
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.emulated import emulated
from hipdnn_iree.provider.reference import expect
from hipdnn_iree.provider.sweep.machine import machine

MEMORY = 4.0
"""The most bytes that the process may grow by, for each byte of device memory in use."""


class Workload(NamedTuple):
    """A graph, and the CPU seconds that its execution may take."""

    build: Callable[[], Graph]
    seconds: float


def product() -> Graph:
    graph = Graph("product", io_data_type="half", compute_data_type="float")
    a, b = (graph.tensor(dims=(1024, 1024), name=name) for name in "ab")
    graph.matmul(a, b).set_output()
    return graph


def convolution() -> Graph:
    graph = Graph("convolution", io_data_type="half", compute_data_type="float")
    x_dims, w_dims = (16, 64, 56, 56), (64, 64, 3, 3)
    x = graph.tensor(dims=x_dims, strides=channels_last_strides(x_dims), name="x")
    w = graph.tensor(dims=w_dims, strides=channels_last_strides(w_dims), name="w")
    graph.conv_fprop(x, w, padding=1).set_output()
    return graph


def rows() -> Graph:
    graph = Graph("rows", io_data_type="half", compute_data_type="float")
    graph.softmax(graph.tensor(dims=(8192, 4096), name="x"), axis=1).set_output()
    return graph


WORKLOADS = {
    "half product 1024^3": Workload(product, 3.0),
    "half conv 3x3, 16x64x56x56": Workload(convolution, 10.0),
    "half softmax 8192x4096": Workload(rows, float("inf")),  # 128 MiB, for the memory
}


def measured(name: str, workload: Workload, target: str) -> dict[str, Any]:
    """Return the cost of one execution, and whether its result is right."""
    with emulated(target) as library:
        plan = workload.build().build(target)
        inputs = verify.random_inputs(plan.graph)
        worker = library.worker_pid
        library.executed()  # answered when it has started: until then it grows by its imports
        before, at_rest = _cpu_seconds(worker), _peak_bytes(worker, reset=True)
        found = plan.run(inputs)
        seconds, grown = _cpu_seconds(worker) - before, _peak_bytes(worker) - at_rest
    results = {uid: found[uid] for uid in plan.graph.outputs}
    report = verify.compare(plan.graph, results, expect(plan.graph, inputs))
    used = sum(array.nbytes for array in (*inputs.values(), *results.values()))
    used += plan.workspace_bytes
    ratio = grown / used
    return {
        "name": name,
        "target": target,
        "emulated": True,
        "verified": report.ok,
        "cpu_s": round(seconds, 2),
        "limit_s": workload.seconds if workload.seconds < float("inf") else None,
        "start_bytes": at_rest,
        "device_bytes": used,
        "grown_bytes": grown,
        "memory_ratio": round(ratio, 2),
        "ok": report.ok and seconds <= workload.seconds and ratio <= MEMORY,
    }


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, as `proc_pid_stat(5)` has it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_bytes(pid: int, *, reset: bool = False) -> int:
    """Return the most memory that a process had at one time (from now on, with `reset`)."""
    if reset:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", default="gfx942", help="one of the gfx9 targets")
    parser.add_argument("-k", metavar="PART", default="", help="only what has it in its name")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    found = []
    for name, workload in WORKLOADS.items():
        if options.k not in name:
            continue
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            row = process.submit(measured, name, workload, options.target).result()
        found.append(row)
        if not options.json:
            limit = f" (limit {row['limit_s']:g})" if row["limit_s"] else ""
            print(
                f"{name:28} {'right' if row['verified'] else 'WRONG'}  {row['cpu_s']:5.2f} s{limit}"
                f"  {row['memory_ratio']:.2f} times {row['device_bytes'] / 2**20:.0f} MiB"
                f" (limit {MEMORY:g}), {row['start_bytes'] / 2**20:.0f} MiB before"
            )
    if options.json:
        print(json.dumps({"machine": machine(), "workloads": found}, indent=2))
    return 0 if all(row["ok"] for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
