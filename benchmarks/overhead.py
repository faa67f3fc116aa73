# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Host cost of a call: plans of this project against a bare ``VmContext.invoke``.

    python benchmarks/overhead.py [--driver local-sync,local-task] [--rounds 25] [--json]

Two tiny graphs: a 4x4 relu, which wants no workspace, and two 16x16 products in a row, which take
theirs from the pool that the plans of a device share.  The ways are timed in turn within each
round, so that a busy machine slows all of them alike.  "best" is the fastest round, "median" the
middle one, "spread" the distance between the quartiles over the median; "over" is the difference
from bare, of the best rounds and in the middle of all rounds (each against its own bare).  Ways
that take many sets of buffers, or start many runs, count for one of them.  Then 100,000 calls are
made of each graph and the growth of the process is measured, and that of the pool.  Last comes what
it takes to choose an engine for a graph that is known, with and without freezing it first.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from hipdnn_iree import Graph
from hipdnn_iree.jit.runtime.arrays import empty
from hipdnn_iree.jit.runtime.caller_memory import Pointer
from hipdnn_iree.jit.runtime.device_memory import adopt, allocate, as_view
from hipdnn_iree.jit.runtime.executable import Executable
from hipdnn_iree.jit.runtime.workspaces import pool_of
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.provider.selection.select import choose
from hipdnn_iree.provider.sweep.machine import machine

DRIVERS = ("local-sync", "local-task")
MANY = 32
LIMIT_US = 3.0
"""What a bound plan may cost over a bare call on local-sync (docs/runtime.md)."""


class Way(NamedTuple):
    """Something to time; ``runs`` executions happen in one call of it."""

    call: Callable[[], Any]
    runs: int = 1


def relu() -> Graph:
    graph = Graph("relu", io_data_type="float", compute_data_type="float")
    graph.relu(graph.tensor(dims=(4, 4))).set_output()
    return graph


def products() -> Graph:
    graph = Graph("products", io_data_type="float", compute_data_type="float")
    x, w = (graph.tensor(dims=(16, 16)) for _ in range(2))
    graph.matmul(graph.matmul(x, w), w).set_output()
    return graph


def load(graph: Graph, driver: str) -> Executable:
    """Build a graph and load its code."""
    with scope(runtime_driver=driver):
        plan: Any = graph.build("cpu", engine="iree")
    return plan.executable


def arrays_for(executable: Executable, seed: int = 0) -> dict[int, Any]:
    """Return aligned random arrays by uid."""
    found = {}
    rng = np.random.default_rng(seed)
    for uid, spec in zip(executable.uids, executable.signature.args, strict=True):
        found[uid] = empty(spec)
        found[uid][...] = rng.standard_normal(spec.dims)
    return found


def bare(executable: Executable, arrays: dict[int, Any]) -> Way:
    """Return IREE's own call on a list that is made once."""
    from iree.runtime import VmVariantList

    arguments = VmVariantList(len(arrays) + 1)
    for array, spec in zip(arrays.values(), executable.signature.args, strict=True):
        buffer = adopt(executable.device, array.ctypes.data, array.nbytes)
        arguments.push_ref(as_view(buffer, spec))
    arguments.push_ref(allocate(executable.device, executable.workspace_bytes))
    results = VmVariantList(0)
    invoke, main = executable.module.context.invoke, executable.module.main
    # The arrays ride along as a default, as the list does not keep them.
    return Way(lambda arrays=arrays: invoke(main, arguments, results))


def plain_ways(executable: Executable) -> dict[str, Way]:
    """Return what is compared for the relu, the bare call first."""
    arrays = arrays_for(executable)
    output, operand = executable.uids
    odd = np.empty(17, np.float32)[1:].reshape(4, 4)  # 4 bytes past an aligned address at best
    plan = executable.bind(arrays)
    staged = executable.bind({**arrays, output: odd})
    pointers = {uid: array.ctypes.data for uid, array in arrays.items()}
    plan()
    if not np.array_equal(arrays[output], np.maximum(arrays[operand], 0)) or not staged.staged:
        raise SystemExit("wrong result")
    return {
        "bare VmContext.invoke": bare(executable, arrays),
        "BoundPlan()": Way(plan),
        "BoundPlan(), output staged": Way(staged),
        "BoundPlan.submit().wait()": Way(lambda: plan.submit().wait()),
        "execute(addresses)": Way(lambda: executable.execute(pointers)),
        "execute(arrays)": Way(lambda: executable.execute(arrays)),
        "bind(arrays)": Way(lambda: executable.bind(arrays)),
        "bind(Pointer)": Way(
            lambda: executable.bind({uid: Pointer(p) for uid, p in pointers.items()})
        ),
        "run(arrays)": Way(lambda: executable.run({operand: arrays[operand]})),
    }


def pooled_ways(executable: Executable) -> dict[str, Way]:
    """Return what is compared for the products, the bare call first."""
    arrays = arrays_for(executable)
    plan = executable.bind(arrays)
    sets = [arrays_for(executable, seed) for seed in range(MANY)]
    addresses = [{uid: array.ctypes.data for uid, array in one.items()} for one in sets]
    plans = [executable.bind(one) for one in sets]

    def one_by_one() -> None:
        for one in addresses:
            executable.execute(one)

    def started() -> None:
        pending = [each.submit() for each in plans]
        for each in pending:
            each.wait()

    executable.execute_many(addresses)
    for one in sets:
        y, x, w = (one[uid] for uid in executable.uids)
        operands = (x, w) if np.allclose(y, x @ w @ w, rtol=1e-3, atol=1e-3) else (w, x)
        if not np.allclose(y, operands[0] @ operands[1] @ operands[1], rtol=1e-3, atol=1e-3):
            raise SystemExit("wrong result")
    return {
        "bare VmContext.invoke": bare(executable, arrays),
        "BoundPlan()": Way(plan),
        "execute in a loop": Way(one_by_one, MANY),
        f"execute_many, {MANY} sets": Way(lambda: executable.execute_many(addresses), MANY),
        f"submit {MANY} plans, wait": Way(started, MANY),
    }


def compare(candidates: dict[str, Way], runs: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return best, median and spread of the microseconds a run, and what is over the first."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, way in candidates.items():
            count = max(runs // way.runs, 1)
            start = time.perf_counter()
            for _ in range(count):
                way.call()
            times[name].append((time.perf_counter() - start) / (count * way.runs) * 1e6)
    first = next(iter(times.values()))
    result = {}
    for name, taken in times.items():
        low, middle, high = statistics.quantiles(taken, n=4)
        result[name] = {
            "best_us": min(taken),
            "median_us": middle,
            "spread": (high - low) / middle,
            "over_us": min(taken) - min(first),
            "over_median_us": statistics.median(t - b for t, b in zip(taken, first, strict=True)),
        }
    return result


def growth(executable: Executable, calls: int) -> dict[str, int]:
    """Return the bytes that Python, the process and the pool gain over many calls."""
    call = executable.bind(arrays_for(executable))
    for _ in range(1000):
        call()
    gc.collect()
    pool = pool_of(executable.device)
    resident, pooled = _resident(), pool.nbytes
    for _ in range(calls):
        call()
    gained = _resident() - resident
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(calls // 10):
        call()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {
        "calls": calls,
        "python_bytes": after - before,
        "resident_bytes": gained,
        "pool_bytes": pool.nbytes - pooled,
        "workspaces": pool.count,
    }


def _resident() -> int:
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def measure(driver: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return all figures of one driver."""
    found: dict[str, Any] = {}
    for name, graph, ways in (
        ("no workspace", relu(), plain_ways),
        ("pooled workspace", products(), pooled_ways),
    ):
        executable = load(graph, driver)
        found[name] = {
            "calls": compare(ways(executable), options.runs, options.rounds),
            "growth": growth(executable, options.growth),
        }
    return found


def show(driver: str, name: str, found: dict[str, Any]) -> None:
    """Print the table of one driver and graph."""
    print(f"{driver}, {name}; microseconds a run")
    print(f"{'':28}{'best':>8}{'median':>8}{'spread':>8}{'over':>8}{'median':>8}")
    for way, row in found["calls"].items():
        print(
            f"{way:28}{row['best_us']:8.2f}{row['median_us']:8.2f}{row['spread']:8.0%}"
            f"{row['over_us']:8.2f}{row['over_median_us']:8.2f}"
        )
    memory = found["growth"]
    print(
        f"{memory['calls']:,} calls of a plan: {memory['resident_bytes']:+,} bytes resident, "
        f"{memory['pool_bytes']:+,} in the pool; a tenth of them: "
        f"{memory['python_bytes']:+,} bytes in Python\n"
    )


def choosing(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Return the microseconds of choosing an engine again."""
    graph, frozen = relu(), relu().freeze()
    choose(frozen, "cpu")
    ways = {
        "choose, frozen": Way(lambda: choose(frozen, "cpu")),
        "freeze, choose": Way(lambda: choose(graph.freeze(), "cpu")),
    }
    return compare(ways, max(options.runs // 10, 1), options.rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--driver", default=",".join(DRIVERS), help="separated by commas")
    parser.add_argument("--runs", type=int, default=1000, help="executions a round and way")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--growth", type=int, default=100_000, help="calls")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    drivers = options.driver.split(",")
    if set(drivers) - set(DRIVERS):
        parser.error(f"--driver: got {options.driver}; known: {', '.join(DRIVERS)}")
    result: dict[str, Any] = {"machine": machine(), "rounds": options.rounds, "drivers": {}}
    for driver in drivers:
        result["drivers"][driver] = found = measure(driver, options)
        if not options.json:
            for name, about in found.items():
                show(driver, name, about)
    result["choosing"] = choosing(options)
    if not options.json:
        print("choosing an engine for a known graph; microseconds")
        for way, row in result["choosing"].items():
            print(f"{way:28}{row['best_us']:8.2f}{row['median_us']:8.2f}{row['spread']:8.0%}")
    sync = result["drivers"].get("local-sync", {})
    over = [about["calls"]["BoundPlan()"]["over_us"] for about in sync.values()]
    result["limit_us"], result["ok"] = LIMIT_US, all(us <= LIMIT_US for us in over)
    if options.json:
        print(json.dumps(result))
    sys.exit(0 if result["ok"] else 1)


if __name__ == "__main__":
    main()
