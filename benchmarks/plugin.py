# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the plugin costs a host in C: the first result of a process, and each call after it.

    python benchmarks/plugin.py [--rounds 7] [--calls 20000] [--json]

The host is that of the tests (``tools/host``), which calls the library in the order of
hipDNN's backend, with recorded graphs that are in the cache.  "start" is loading the library and
Python to the first handle, "plan" from there to the execution context, "first" the first execution;
"cpu" is the CPU time of all of it, with a limit of 150 ms; the sum may take a second on a busy
machine.  "applicable" and "renamed" are the CPU time of the first ``GetApplicableEngineIds`` and
``CreateExecutionContext`` for a graph that differs only in its name from one that is loaded, in
this process; the limit of each is 1 ms.  "call" is the fastest ``ExecuteOpGraph``, and "over" its
distance from the fastest call of a bound plan in this process, which is measured before and after
each round; its limit is 2 us.  "rotating" is the fastest call when every pointer differs from that
of the call before (1,000 sets in turn), and "rotating_over" its distance from the bound plan; its
limit is 10 us.  "copied" is the same with pointers 16 bytes past a multiple of 64, so that every
buffer is copied.  The results are compared with the reference in each round.

"shapes" are calls with override shapes: the first one, 19 more with a new shape each, and again
the same shapes on other buffers, with "plan" as above but the cache empty.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hipdnn_iree import Graph
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.hipdnn_plugin.plugin import Plugin
from hipdnn_iree.provider.graph_files import loads
from hipdnn_iree.provider.plugin_abi import ConstData
from hipdnn_iree.provider.sweep.machine import machine

from tools.host.driver import Host, write_job
from tools.host.shapes import Cases, shapes_of

ROOT = Path(__file__).resolve().parent.parent
GRAPHS = ("pw_relu_all", "fused_conv_bias_relu_f32_nchw")
PARTS = ("start", "plan", "first", "total", "cpu")
LIMITS = {
    "total_ms": 1000.0,
    "cpu_ms": 150.0,
    "applicable_ms": 1.0,
    "renamed_ms": 1.0,
    "over_us": 2.0,
    "rotating_over_us": 10.0,
}


class Case:
    """A recorded graph: in files for the host, and bound in this process."""

    def __init__(self, name: str, folder: Path) -> None:
        data = (ROOT / "tests" / "data" / "opgraphs" / f"{name}.bin").read_bytes()
        self.job = write_job(folder, data)
        plan = loads(data).build("cpu")
        self.graph, self.config = plan.graph, self.job.arguments[1].read_bytes()
        self.plugin, self.names = Plugin(), count()
        self.renamed_ms()  # one that stays loaded
        inputs = self.job.inputs
        self.bound = plan.bind({**inputs, **plan.run(inputs)}, copy=True)

    def renamed_ms(self) -> tuple[float, float]:
        """Return what applicability and a plan take for the graph under another name."""
        data = encode(replace(self.graph, name=f"{self.graph.name} {next(self.names)}"))
        memory = [ctypes.create_string_buffer(text, len(text)) for text in (data, self.config)]
        graph, config = (ConstData(ctypes.addressof(m), len(m)) for m in memory)
        handle, context, found = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint32()
        at = ctypes.addressof
        self.plugin.create(at(handle))
        begin = time.process_time()
        self.plugin.get_applicable_engine_ids(handle.value, at(graph), None, 0, at(found))
        answered = time.process_time()
        self.plugin.create_execution_context(handle.value, at(config), at(graph), at(context))
        planned = time.process_time()
        assert found.value == 1
        return (answered - begin) * 1e3, (planned - answered) * 1e3

    def best_bound_us(self, calls: int) -> float:
        """Return the fastest call of the bound plan, without the host."""
        best = float("inf")
        for _ in range(calls):
            begin = time.perf_counter()
            self.bound()
            best = min(best, time.perf_counter() - begin)
        return best * 1e6


def once(host: Host, case: Case, calls: int) -> dict[str, float]:
    """Run the host once in a new process and return what it measured."""
    bound = case.best_bound_us(2000)
    facts = host.run("run", *case.job.arguments, calls)
    case.job.verify()
    for file in case.job.outputs.values():
        file.unlink()
    bound = min(bound, case.best_bound_us(2000))
    applicable, renamed = zip(*(case.renamed_ms() for _ in range(20)), strict=True)
    return {
        "applicable_ms": min(applicable),
        "renamed_ms": min(renamed),
        **{f"{part}_ms": float(facts[f"{part}_s"]) * 1e3 for part in PARTS},
        "call_us": float(facts["best_us"]),
        "bound_us": bound,
        "over_us": float(facts["best_us"]) - bound,
        "rotating_us": float(facts["rotating_us"]),
        "rotating_median_us": float(facts["rotating_median_us"]),
        "rotating_over_us": float(facts["rotating_us"]) - bound,
        "copied_us": float(facts["copied_us"]),
        "growth_kib": float(facts["growth_kib"]),
    }


def measure(
    host: Host, rounds: int, calls: int, folder: Path
) -> dict[str, dict[str, dict[str, float]]]:
    """Return best and median of each figure, by graph."""
    cases = {name: Case(name, folder / name) for name in GRAPHS}
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in GRAPHS}
    for number in range(rounds + 1):
        for name, case in cases.items():
            found = once(host, case, calls)
            if number:  # the first round reads files that are not in memory yet
                seen[name].append(found)
    return {
        name: {
            figure: {
                "best": min(row[figure] for row in rows),
                "median": statistics.median(row[figure] for row in rows),
                "worst": max(row[figure] for row in rows),
            }
            for figure in rows[0]
        }
        for name, rows in seen.items()
    }


def shapes(host: Host, folder: Path) -> dict[str, float]:
    """Return what calls with override shapes take, in milliseconds: a matmul of 3 to 60 rows."""

    def graph(rows: int) -> FrozenGraph:
        g = Graph("rows", io_data_type="float")
        a, b = g.tensor(dims=(2, rows, 96), uid=1), g.tensor(dims=(2, 96, 80), uid=2)
        g.relu(g.matmul(a, b)).set_output().set_uid(3)
        g.is_override_shape_enabled = True
        return g.freeze()

    cases = Cases(folder / "shapes", graph(64))
    for rows in 2 * [*range(3, 61, 3)]:
        cases.add(graph(rows), shapes_of(graph(rows)))
    facts = cases.run(host, 1, env={"HIPDNN_IREE_CACHE_DIR": str(folder / "empty")})
    times = [float(word) for word in facts["call_ms"].split()]
    return {
        "plan_ms": float(facts["planned_ms"]),
        "first_ms": times[0],
        "new_ms": statistics.median(times[1:20]),
        "slowest_new_ms": max(times[1:20]),
        "again_ms": statistics.median(times[20:]),
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=20_000, help="executions a process")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hipdnn-iree-plugin-") as folder:
        host = Host(Path(folder))
        found = measure(host, options.rounds, options.calls, Path(folder))
        others = shapes(host, Path(folder))
    if options.json:
        figures = {"machine": machine(), "limits": LIMITS, "graphs": found, "shapes": others}
        print(json.dumps(figures, indent=2))
        return
    for name, figures in found.items():
        print(f"{name:34}{'best':>10}{'median':>10}{'worst':>10}")
        for figure, row in figures.items():
            limit = f"  (limit {LIMITS[figure]:g})" if figure in LIMITS else ""
            cells = "".join(f"{row[c]:10.2f}" for c in ("best", "median", "worst"))
            print(f"  {figure:32}{cells}{limit}")
    print("shapes")
    for figure, ms in others.items():
        print(f"  {figure:32}{ms:10.2f}")


if __name__ == "__main__":
    main()
