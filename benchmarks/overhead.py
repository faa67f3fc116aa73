"""Host cost of running a bound plan: a 4x4 relu against a bare ``VmContext.invoke``.

    python benchmarks/overhead.py [--driver local-sync] [--calls 20000] [--rounds 25] [--json]

The ways are timed in turn within each round, so that a busy machine slows all of them alike;
"best" is the fastest round, "median" the middle one.  "over" is the difference from bare.
Then 100,000 calls of the plan are made and the growth of the process is measured.
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
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.jit.runtime.arrays import empty
from hipdnn_iree.jit.runtime.buffers import Pointer
from hipdnn_iree.jit.runtime.device import Device
from hipdnn_iree.jit.runtime.memory import adopt, allocate, as_view
from hipdnn_iree.jit.runtime.module import Module
from hipdnn_iree.jit.runtime.plan import Executable
from hipdnn_iree.jit.signature import ArgSpec, Signature

RELU = """
func.func @main(%y: !torch.tensor<[4,4],f32>, %x: !torch.vtensor<[4,4],f32>)
    attributes {torch.assume_strict_symbolic_shapes} {
  %r = torch.aten.relu %x : !torch.vtensor<[4,4],f32> -> !torch.vtensor<[4,4],f32>
  torch.overwrite.tensor.contents %r overwrites %y
      : !torch.vtensor<[4,4],f32>, !torch.tensor<[4,4],f32>
  return
}
"""


def load(driver: str) -> Executable:
    """Compile the relu in a child process and load it."""
    from iree.compiler.tools import compile_str

    vmfb = compile_str(
        RELU,
        target_backends=["llvm-cpu"],
        input_type="torch",
        extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-torch-externalize-transients"],
    )
    module = Module.load(Device.open(driver), vmfb)
    spec = {"data_type": DataType.FLOAT, "dims": (4, 4), "strides": (4, 1), "shape": (4, 4)}
    args = (ArgSpec(output=True, **spec), ArgSpec(output=False, **spec))
    return Executable(module, Signature(args=args, workspace_bytes=module.workspace_bytes), (1, 2))


def ways(executable: Executable) -> dict[str, Callable[[], Any]]:
    """Return what is compared, the bare call first."""
    from iree.runtime import VmVariantList

    x, y = (empty(spec) for spec in executable.signature.args)
    x[:] = np.random.default_rng(0).standard_normal((4, 4), np.float32)
    arguments = VmVariantList(3)
    for array, spec in zip((y, x), executable.signature.args, strict=True):
        buffer = adopt(executable.device, array.ctypes.data, array.nbytes)
        arguments.push_ref(as_view(buffer, spec))
    arguments.push_ref(allocate(executable.device, executable.workspace_bytes))
    results = VmVariantList(0)
    invoke, main = executable.module.context.invoke, executable.module.main
    odd = np.empty(17, np.float32)[1:].reshape(4, 4)  # 4 bytes past an aligned address at best
    plan, staged = executable.bind({1: y, 2: x}), executable.bind({1: odd, 2: x})
    pointers = {1: y.ctypes.data, 2: x.ctypes.data}
    arrays = {1: y, 2: x}
    plan()
    if not np.array_equal(y, np.maximum(x, 0)) or not staged.staged:
        raise SystemExit("wrong result")
    return {
        "bare VmContext.invoke": lambda: invoke(main, arguments, results),
        "BoundPlan()": plan,
        "BoundPlan(), output staged": staged,
        "execute(addresses)": lambda: executable.execute(pointers),
        "execute(arrays)": lambda: executable.execute(arrays),
        "bind(arrays)": lambda: executable.bind(arrays),
        "bind(Pointer)": lambda: executable.bind({k: Pointer(p) for k, p in pointers.items()}),
        "run(arrays)": lambda: executable.run({2: x}),
    }


def compare(
    candidates: dict[str, Callable[[], Any]], calls: int, rounds: int
) -> dict[str, dict[str, float]]:
    """Return best and median microseconds a call, and what that is over the first candidate."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, call in candidates.items():
            start = time.perf_counter()
            for _ in range(calls):
                call()
            times[name].append((time.perf_counter() - start) / calls * 1e6)
    result = {n: {"best_us": min(t), "median_us": statistics.median(t)} for n, t in times.items()}
    bare = next(iter(result.values()))
    for row in result.values():
        row["over_us"] = row["best_us"] - bare["best_us"]
    return result


def growth(call: Callable[[], Any], calls: int) -> dict[str, int]:
    """Return the bytes that Python's allocator and the process gain over many calls."""
    for _ in range(1000):
        call()
    gc.collect()
    resident = _resident()
    for _ in range(calls):
        call()
    gained = _resident() - resident
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(calls // 10):
        call()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"calls": calls, "python_bytes": after - before, "resident_bytes": gained}


def _resident() -> int:
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--driver", default="local-sync", choices=("local-sync", "local-task"))
    parser.add_argument("--calls", type=int, default=2000, help="calls a round")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    executable = load(options.driver)
    candidates = ways(executable)
    table = compare(candidates, options.calls, options.rounds)
    memory = growth(candidates["BoundPlan()"], 100_000)
    if options.json:
        print(json.dumps({"driver": options.driver, "calls": table, "growth": memory}))
        return
    print(
        f"{options.driver}, {options.rounds} rounds of {options.calls} calls, microseconds a call"
    )
    print(f"{'':28}{'best':>8}{'median':>8}{'over':>8}")
    for name, row in table.items():
        print(f"{name:28}{row['best_us']:8.2f}{row['median_us']:8.2f}{row['over_us']:8.2f}")
    print(
        f"{memory['calls']:,} calls of a plan: {memory['resident_bytes']:+,} bytes resident; "
        f"a tenth of them: {memory['python_bytes']:+,} bytes in Python"
    )


if __name__ == "__main__":
    main()
