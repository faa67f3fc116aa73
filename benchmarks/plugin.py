"""What the plugin costs a host in C: the first result of a process, and each call after it.

    python benchmarks/plugin.py [--rounds 7] [--calls 20000] [--json]

The host is that of the tests (``tests/plugin/host.c``), which calls the library in the order of
hipDNN's backend, with recorded graphs that are in the cache.  "start" is loading the library and
Python to the first handle, "plan" from there to the execution context, "first" the first execution;
the limit of the sum is one second.  "best call" is the fastest ``ExecuteOpGraph``, and "over" its
distance from the fastest call of a bound plan in this process, which is measured before and after
each round; its limit is 10 us.  The results are compared with the reference in each round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from hipdnn_iree.hipdnn_plugin import library, messages
from hipdnn_iree.hipdnn_plugin.serving import ENGINE_ID
from hipdnn_iree.hipdnn_plugin.wire.engine import EngineConfig, encode_config
from hipdnn_iree.jit.pipeline import signature_of
from hipdnn_iree.jit.runtime.arrays import aligned_bytes, view
from hipdnn_iree.provider.bench.machine import machine
from hipdnn_iree.provider.graph import loads
from hipdnn_iree.provider.reference import expect
from hipdnn_iree.provider.reference.inputs import random_inputs
from hipdnn_iree.provider.verify import compare

ROOT = Path(__file__).resolve().parent.parent
GRAPHS = ("pw_relu_all", "fused_conv_bias_relu_f32_nchw")
PARTS = ("start", "plan", "first", "total", "cpu")
LIMITS = {"total_ms": 1000.0, "over_us": 10.0}


class Job:
    """A recorded graph with its operands, in files for the host and bound in this process."""

    def __init__(self, name: str, folder: Path) -> None:
        data = (ROOT / "tests" / "data" / "opgraphs" / f"{name}.bin").read_bytes()
        self.graph = messages.graph(data)
        self.inputs = random_inputs(self.graph, seed=0)
        self.outputs: dict[int, Path] = {}
        folder.mkdir()
        lines = []
        uids = (*self.graph.outputs, *self.graph.inputs)
        for uid, spec in zip(uids, signature_of(self.graph).args, strict=True):
            file = folder / f"{uid}.bin"
            if spec.output:
                self.outputs[uid] = file
                lines.append(f"{uid}\t{spec.nbytes}\t0\t-\t{file}")
                continue
            memory = aligned_bytes(spec.nbytes)
            np.copyto(view(memory, spec), self.inputs[uid])
            memory.tofile(file)
            lines.append(f"{uid}\t{spec.nbytes}\t0\t{file}\t-")
        self.files = [folder / "graph", folder / "config", folder / "job"]
        self.files[0].write_bytes(data)
        self.files[1].write_bytes(encode_config(EngineConfig(engine_id=ENGINE_ID, knobs={})))
        self.files[2].write_text("\n".join(lines) + "\n")
        plan = loads(data).build("cpu")
        self.bound = plan.bind({**self.inputs, **plan.run(self.inputs)}, copy=True)

    def best_bound_us(self, calls: int) -> float:
        """Return the fastest call of the bound plan, without the host."""
        best = float("inf")
        for _ in range(calls):
            begin = time.perf_counter()
            self.bound()
            best = min(best, time.perf_counter() - begin)
        return best * 1e6

    def verify(self) -> None:
        """Compare what the host has written with the reference."""
        found = {}
        for uid, spec in zip(self.outputs, signature_of(self.graph).args, strict=False):
            memory = aligned_bytes(spec.nbytes)
            memory[:] = np.fromfile(self.outputs[uid], np.uint8)
            self.outputs[uid].unlink()
            found[uid] = view(memory, spec)
        report = compare(self.graph, found, expect(self.graph, self.inputs))
        if not report.ok:
            raise SystemExit(f"wrong result: {report}")


def once(program: Path, job: Job, calls: int) -> dict[str, float]:
    """Run the host once in a new process and return what it measured."""
    bound = job.best_bound_us(2000)
    words = [program, library.library(), "local", "run", *job.files, calls]
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)  # noqa: PLW1510
    if done.returncode:
        raise SystemExit(f"the host ended with {done.returncode}: {done.stdout}{done.stderr}")
    facts = dict(line.split() for line in done.stdout.splitlines())
    job.verify()
    bound = min(bound, job.best_bound_us(2000))
    return {
        **{f"{part}_ms": float(facts[f"{part}_s"]) * 1e3 for part in PARTS},
        "call_us": float(facts["best_us"]),
        "bound_us": bound,
        "over_us": float(facts["best_us"]) - bound,
        "growth_kib": float(facts["growth_kib"]),
    }


def measure(rounds: int, calls: int, folder: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Return best and median of each figure, by graph."""
    program = folder / "host"
    source = ROOT / "tests" / "plugin" / "host.c"
    subprocess.run(
        ["cc", "-std=gnu11", "-O1", "-o", program, source, "-ldl", "-lpthread"], check=True
    )
    jobs = {name: Job(name, folder / name) for name in GRAPHS}
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in GRAPHS}
    for number in range(rounds + 1):
        for name, job in jobs.items():
            found = once(program, job, calls)
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


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=20_000, help="executions a process")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hipdnn-iree-plugin-") as folder:
        found = measure(options.rounds, options.calls, Path(folder))
    if options.json:
        print(json.dumps({"machine": machine(), "limits": LIMITS, "graphs": found}, indent=2))
        return
    for name, figures in found.items():
        print(f"{name:34}{'best':>10}{'median':>10}{'worst':>10}")
        for figure, row in figures.items():
            limit = f"  (limit {LIMITS[figure]:g})" if figure in LIMITS else ""
            cells = "".join(f"{row[c]:10.2f}" for c in ("best", "median", "worst"))
            print(f"  {figure:32}{cells}{limit}")


if __name__ == "__main__":
    main()
