# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The main job, end to end: a graph is run on the CPU and verified, and compiled for gfx9.

    python examples/main_job.py              about twenty seconds
    python examples/main_job.py --json       the same as one JSON object

The graph is relu(conv3x3(x, w) + bias), 16x64x56x56, channels-last, half precision in memory and
float32 arithmetic.  A cache folder of its own makes the first build a miss and the second a hit.
The code for gfx942 is executed by an emulator of its instructions, which says nothing of speed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.jit.inspect.isa import read_kernels
from hipdnn_iree.jit.options import BuildOptions
from hipdnn_iree.jit.pipeline import dump
from hipdnn_iree.jit.settings import scope, settings
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.emulated import emulated
from hipdnn_iree.provider.reference import expect
from rich.console import Console
from rich.table import Table

EMULATED = "gfx942"
GFX9 = ("gfx908", "gfx90a", "gfx942", "gfx950")
X_DIMS, W_DIMS = (16, 64, 56, 56), (64, 64, 3, 3)

# What a second process does: from its start to the first result, without the compiler.
AGAIN = """
import sys, time
import numpy as np
import hipdnn_iree
begin = time.perf_counter()
graph = hipdnn_iree.load(sys.argv[1])
plan = graph.build("cpu")
inputs = dict(np.load(sys.argv[2]))
plan.run(inputs, copy=True)  # an npz file keeps no strides
loaded = [m for m in ("iree.compiler", "torch_mlir") if m in sys.modules]
assert not loaded, f"cache {plan.cache}, but {loaded} were loaded"
print(plan.cache, time.perf_counter() - begin)
"""


def build() -> Graph:
    """Return the graph."""
    graph = Graph("conv_bias_relu", io_data_type="half", compute_data_type="float")
    x = graph.tensor(dims=X_DIMS, strides=channels_last_strides(X_DIMS), name="x")
    w = graph.tensor(dims=W_DIMS, strides=channels_last_strides(W_DIMS), name="w")
    bias = graph.tensor(dims=(1, W_DIMS[0], 1, 1), name="bias")
    y = graph.conv_fprop(x, w, padding=1, name="conv")
    y = graph.add(y, bias, name="bias")
    graph.relu(y, name="relu").set_output().set_name("y")
    return graph


def run_on_cpu(talk: Console, folder: Path) -> tuple[dict[str, Any], Any, Any]:
    """Build, run and verify on the CPU; then once more in a new process, from the cache.

    Returns
    -------
    tuple
        The report; the inputs; the results that are right.
    """
    import numpy as np

    graph = build()
    talk.print(str(graph.freeze()), highlight=False, soft_wrap=True)
    begin = time.perf_counter()
    with talk.status("compiling for the CPU"):
        plan = graph.build("cpu")
    inputs = verify.random_inputs(plan.graph)
    outputs = verify.poisoned_outputs(plan.graph)
    plan.execute({**inputs, **outputs})
    first_s = time.perf_counter() - begin
    call = plan.bind({**inputs, **outputs})
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    with talk.status("checking every element against the float64 reference"):
        expected = expect(plan.graph, inputs)
        report = verify.compare(plan.graph, outputs, expected)

    path, data = folder / "graph.json", folder / "inputs.npz"
    graph.save(path)
    named: dict[str, Any] = {plan.graph.tensors[uid].name: a for uid, a in inputs.items()}
    np.savez(data, **named)
    begin = time.perf_counter()
    again = subprocess.run(
        [sys.executable, "-c", AGAIN, str(path), str(data)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HIPDNN_IREE_CACHE_DIR": str(settings().cache_dir)},
    )
    process_s = time.perf_counter() - begin
    if again.returncode:
        raise SystemExit(f"the second run failed:\n{again.stderr}")
    cache, second_s = again.stdout.split()
    found = {
        "engine": plan.engine,
        "driver": getattr(plan, "driver", ""),
        "verified": report.ok,
        "max_abs_error": report.max_abs_error,
        "max_rel_error": report.max_rel_error,
        "first": {"cache": plan.cache, "build_and_run_s": first_s, "stages_s": plan.seconds},
        "second": {"cache": cache, "build_and_run_s": float(second_s), "process_s": process_s},
        "execute_ms": {"median": 1e3 * sorted(times)[len(times) // 2], "best": 1e3 * min(times)},
    }
    return found, inputs, expected


def emulate(target: str, inputs: Any, expected: Any) -> dict[str, Any]:
    """Execute the code for a target on an emulated GPU and verify what comes out."""
    with emulated(target) as library:
        plan = build().build(target)
        found = plan.run(inputs)
        report = verify.compare(plan.graph, {u: found[u] for u in plan.graph.outputs}, expected)
        return {
            "target": target,
            "emulated": True,
            "launches": library.launches,
            "verified": report.ok,
            "max_abs_error": report.max_abs_error,
            "max_rel_error": report.max_rel_error,
        }


def compile_for(target: str, folder: Path) -> dict[str, Any]:
    """Compile the graph for a gfx9 target and read what the compiler wrote about its kernels."""
    begin = time.perf_counter()
    compiled = dump(
        build().freeze(), Target.parse(target), folder / target, BuildOptions.of(settings())
    )
    kernels = read_kernels(folder / target / "dispatches")
    return {
        "target": target,
        "compile_s": time.perf_counter() - begin,
        **compiled.statistics,
        "vgprs": max(k.vgprs for k in kernels),
        "lds_bytes": max(k.lds_bytes for k in kernels),
        "spills": sum(k.vgpr_spills + k.sgpr_spills for k in kernels),
        "mfma": sum(k.mfma_count for k in kernels),
        "mfma_kinds": sorted({name for k in kernels for name in k.mfma}),
    }


def main() -> int:
    """Run the job and report it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    talk = Console(stderr=options.json, width=None if sys.stdout.isatty() else 100)
    with (
        tempfile.TemporaryDirectory(prefix="hipdnn-iree-") as name,
        scope(cache_dir=Path(name) / "cache"),
    ):
        folder = Path(name)
        cpu, inputs, expected = run_on_cpu(talk, folder)
        gfx9 = []
        for target in GFX9:
            with talk.status(f"compiling for {target}"):
                gfx9.append(compile_for(target, folder))
        with talk.status(f"executing the code for {EMULATED}, emulated"):
            emulation = emulate(EMULATED, inputs, expected)
    right = cpu["verified"] and emulation["verified"]
    if options.json:
        print(json.dumps({"cpu": cpu, "gfx9": gfx9, "emulation": emulation}, indent=2))
        return 0 if right else 1

    words = {True: "every element within its error bound", False: "WRONG"}
    verdict = words[cpu["verified"]]
    talk.print(
        f"\nCPU: run by {cpu['engine']} ({cpu['driver']}), checked against float64: {verdict}\n"
        f"  largest error {cpu['max_abs_error']:.3g} absolute, {cpu['max_rel_error']:.3g} relative"
        f"\n  one execution {cpu['execute_ms']['median']:.1f} ms (median of 10, best "
        f"{cpu['execute_ms']['best']:.1f} ms)\n"
        f"  first build and run  {cpu['first']['build_and_run_s']:6.3f} s   cache "
        f"{cpu['first']['cache']}\n"
        f"  second, new process  {cpu['second']['build_and_run_s']:6.3f} s   cache "
        f"{cpu['second']['cache']} (no compiler loaded)",
        highlight=False,
        soft_wrap=True,
    )
    table = Table(title="compiled for gfx9, of which no GPU is here", title_justify="left")
    for head in ("target", "compile", "dispatches", "transient", "VGPRs", "LDS", "spills", "MFMA"):
        table.add_column(head, justify="left" if head == "target" else "right")
    table.add_column("kind")
    for row in gfx9:
        table.add_row(
            row["target"],
            f"{row['compile_s']:.2f} s",
            str(row["dispatches"]),
            f"{row['transient_bytes']} B",
            str(row["vgprs"]),
            f"{row['lds_bytes']} B",
            str(row["spills"]),
            str(row["mfma"]),
            ", ".join(kind.removeprefix("v_mfma_") for kind in row["mfma_kinds"]),
        )
    talk.print(table)
    talk.print(
        f"{EMULATED}: {emulation['launches']} kernel, executed by emulation, checked against "
        f"float64: {words[emulation['verified']]}\n  largest error "
        f"{emulation['max_abs_error']:.3g} absolute, {emulation['max_rel_error']:.3g} relative",
        highlight=False,
        soft_wrap=True,
    )
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
