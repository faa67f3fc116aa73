# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Time of ten models through `torch.compile` with this backend, against eager PyTorch.

    python benchmarks/torch_compile.py [MODEL...] [--rounds N] [--json F.json]

Both run in turns in one process, and results are compared in it.  The time is the median of the
rounds, each of which repeats a call for 20 ms at least.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from hipdnn_iree.provider.torch import compile, reports

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.torch_models import MODELS, example


def _seconds(call: Any, inputs: tuple[Any, ...]) -> float:
    """Return the time of a call, from as many as fit into 20 ms."""
    count = 0
    begin = time.perf_counter()
    while (spent := time.perf_counter() - begin) < 0.02 or not count:
        call(*inputs)
        count += 1
    return spent / count


def _measured(name: str, rounds: int) -> dict[str, Any]:
    torch._dynamo.reset()
    reports(clear=True)
    one = example(name)
    begin = time.perf_counter()
    served = compile(one.module, one.inputs)
    compiled = time.perf_counter() - begin
    engines: dict[str, int] = {}
    for report in reports():
        for engine, count in report.engines.items():
            engines[engine] = engines.get(engine, 0) + count
    got, wanted = served(*one.inputs), one.module(*one.inputs)
    error = ((got - wanted).abs().max() / wanted.abs().max()).item()
    pairs = [
        (_seconds(served, one.inputs), _seconds(one.module, one.inputs)) for _ in range(rounds)
    ]
    ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratios = sorted(a / b for a, b in pairs)
    return {
        "model": name,
        "us": ours * 1e6,
        "eager_us": theirs * 1e6,
        "ratio": statistics.median(ratios),
        "spread": [ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]],
        "error": error,
        "compile_s": compiled,
        "engines": engines,
    }


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", choices=[*MODELS, []], default=[])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_grad_enabled(False)
    cpu = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    print(f"{cpu}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    rows = []
    for name in given.models or MODELS:
        row = _measured(name, given.rounds)
        rows.append(row)
        low, high = row["spread"]
        print(
            f"{name:14} {row['us']:9.0f} us, eager {row['eager_us']:9.0f} us, "
            f"ratio {row['ratio']:.2f} ({low:.2f} to {high:.2f}), error {row['error']:.1e}, "
            f"compiled in {row['compile_s']:.1f} s, {row['engines']}",
            flush=True,
        )
    mean = math.exp(statistics.mean(math.log(row["ratio"]) for row in rows))
    print(f"geometric mean of {len(rows)}: {mean:.2f}")
    if given.json:
        given.json.write_text(json.dumps({"cpu": cpu, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
