"""Start-up: a new process from its first instruction to the first result, with a warm cache.

    python benchmarks/start.py [--repeat N] [--json]

Interleaved with the floor below which no such process can be: importing NumPy and the IREE runtime.
The difference is what this project adds: reading the graph, looking up the code, loading, running.
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
from pathlib import Path

FLOOR = "import numpy, iree.runtime"
FIRST = """
import sys
import numpy as np
import hipdnn_iree
graph = hipdnn_iree.load(sys.argv[1])
plan = graph.build("cpu")
x, = graph.freeze().inputs
plan.run({x: np.ones((4, 4), np.float32)})
loaded = [m for m in ("iree.compiler", "torch_mlir") if m in sys.modules]
assert not loaded, loaded
assert plan.cache == sys.argv[2], plan.cache
"""


def seconds(code: str, *arguments: str) -> float:
    """Return the wall time of a process that runs the code."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)
    return time.perf_counter() - begin


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    from hipdnn_iree import Graph

    with tempfile.TemporaryDirectory() as folder:
        os.environ["HIPDNN_IREE_CACHE_DIR"] = str(Path(folder) / "cache")
        graph = Graph("relu", io_data_type="float")
        graph.relu(graph.tensor(dims=(4, 4))).set_output()
        path = str(Path(folder) / "relu.json")
        graph.save(path)
        cold = seconds(FIRST.replace("assert not loaded, loaded", ""), path, "miss")
        floor, first = [], []
        for _ in range(options.repeat):
            floor.append(seconds(FLOOR))
            first.append(seconds(FIRST, path, "hit"))
    result = {
        "cold_s": cold,
        "floor_s": {"best": min(floor), "median": statistics.median(floor)},
        "warm_s": {"best": min(first), "median": statistics.median(first)},
        "added_s": {
            "best": min(first) - min(floor),
            "median": statistics.median(first) - statistics.median(floor),
        },
    }
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"nothing cached: first result after {cold:.3f} s")
    for name, what in (
        ("floor_s", "import NumPy and the IREE runtime"),
        ("warm_s", "first result, warm cache"),
        ("added_s", "difference"),
    ):
        print(f"{what:36} best {result[name]['best']:.3f} s, median {result[name]['median']:.3f} s")


if __name__ == "__main__":
    main()
