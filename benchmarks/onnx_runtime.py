# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX Runtime with this provider, beside ONNX Runtime's own CPU provider.

    python benchmarks/onnx_runtime.py [PART...] [--model NAME|FILE.onnx] [--threads N] [--json F]

=========  =====================================================================================
models     a run of each model against the CPU provider's, and against its graphs alone, run in
           turn; then each fused node against the same nodes alone on the CPU provider
binding    one tiny node on bound buffers: what a run takes over the CPU provider's
start      a session of ResNet-18 and a first run in a new process: by the CPU provider, with
           code from the cache, from a model with compiled code
memory     peak memory of a session with 1 GB of weights in external data
=========  =====================================================================================

What is compared runs in turns, in one process or in new ones.  Example models are those of
``tools/onnx/models.py``.  The exit status is 1 if a limit is not kept.  A fused node alone on the
CPU provider includes what ONNX Runtime does at its borders, such as changes of layout.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import onnx
import onnxruntime as ort
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.jit.runtime.arrays import aligned_bytes
from hipdnn_iree.jit.strategies import choose
from hipdnn_iree.jit.target import Target
from hipdnn_iree.jit.work import graph_work, node_work
from hipdnn_iree.provider.onnx.abi import ELEMENTS
from hipdnn_iree.provider.onnx.model import Constant, Model
from hipdnn_iree.provider.onnx.model_report import alone, compared, made_up_inputs
from hipdnn_iree.provider.onnx.registration import session_options
from hipdnn_iree.provider.onnx.reports import Report, listening
from hipdnn_iree.provider.plan import Plan
from hipdnn_iree.provider.sweep.machine import machine
from hipdnn_iree.provider.timing import Effort, geomean, measure, paired_ratio
from onnx import TensorProto, helper, numpy_helper

from tools.onnx.models import MODELS

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("models", "binding", "start", "memory")
LIMITS = {"of_graphs": 1.05, "over_us": 10.0, "over_s": 1.0, "over_bytes": 1.3e9}
"""A run to its graphs in turn; a tiny node, a start and the peak memory over the CPU's."""

# The threads of ONNX Runtime spin for a while when a run is over.
EFFORT = Effort(rounds=(3, 25), pause_s=0.02)
SHORT = Effort(rounds=(5, 25), block_s=0.02, run_s=1e-3, pause_s=0.005)

_ELEMENT = {kind: number for number, kind in ELEMENTS.items()}

Call = Callable[[], object]

_CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--model", action="append", help=f"{', '.join(MODELS)}, or a file")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each that is timed")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each way")
    parser.add_argument(
        "--clock", choices=_CLOCKS, default="wall", help="cpu: all threads' time, on a busy machine"
    )
    parser.add_argument("--megabytes", type=int, default=1024, help="of weights, for memory")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    os.environ["HIPDNN_IREE_THREADS"] = str(given.threads)
    found: dict[str, Any] = {"machine": machine(), "onnxruntime": ort.__version__}
    found |= {"threads": given.threads, "clock": given.clock, "limits": LIMITS, "ok": True}
    about = found["machine"]
    print(f"{about['cpu']}, load {about['load']}, {given.threads} threads, {given.clock} time")
    with tempfile.TemporaryDirectory() as folder:
        for part in given.parts or PARTS:
            found[part] = _PARTS[part](Path(folder), given)
            rows = found[part] if isinstance(found[part], list) else [found[part]]
            found["ok"] &= all(row["ok"] for row in rows)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(0 if found["ok"] else 1)


def _saved(folder: Path, name: str) -> Path:
    """Return the file of an example model, or the file that was named."""
    if name not in MODELS:
        return Path(name)
    path = folder / f"{name}.onnx"
    if not path.exists():
        onnx.save(MODELS[name](), str(path))
    return path


def _options(threads: int) -> Any:
    made = ort.SessionOptions()
    made.log_severity_level = 3
    made.intra_op_num_threads = threads
    return made


def _on_cpu(source: Any, threads: int) -> Any:
    return ort.InferenceSession(source, _options(threads), providers=["CPUExecutionProvider"])


def _on_ours(source: Any, threads: int) -> tuple[Any, list[Report]]:
    with listening() as reports:
        options = session_options(device="cpu", onto=_options(threads))
        return ort.InferenceSession(source, options, enable_fallback=0), reports


# ------------------------------------------------------------------------ models


def models(folder: Path, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure the models, and print a table of each."""
    rows = []
    for name in given.model or MODELS:
        rows.append(_model(name, _saved(folder, name), given))
        _print_model(rows[-1])
    return rows


def _times(calls: Sequence[Call], effort: Effort, given: argparse.Namespace) -> list[list[float]]:
    """Return the times of calls in turns, in microseconds: of each the best of every round."""
    budget = given.seconds * len(calls)
    found = measure(calls, effort, budget_s=budget, clock=_CLOCKS[given.clock])
    return [samples.rounds_us for samples in found]


def _model(name: str, path: Path, given: argparse.Namespace) -> dict[str, Any]:
    session, reports = _on_ours(str(path), given.threads)
    own = _on_cpu(str(path), given.threads)
    feed = made_up_inputs(own)
    results = zip(session.run(None, feed), own.run(None, feed), strict=True)
    verified = all(compared("", *pair)["ok"] for pair in results)
    plans = [plan for _, found in reports for g in found.groups for plan in g.plans.values()]
    graphs = [alone(plan) for plan in plans]

    def in_turn() -> None:  # as the session runs them: caches are as cold, and rounds as long
        for run in graphs:
            run()

    calls = [lambda: session.run(None, feed), lambda: own.run(None, feed), in_turn]
    ours, theirs, sums = _times(calls, EFFORT, given)
    nodes = [row for report in reports for row in _fused(report, given)]
    nodes.sort(key=lambda row: row["cpu_us"] - row["us"])
    of_graphs = paired_ratio(ours, sums) if graphs else None
    declined = sum(len(found.declined) for _, found in reports)
    lonely = [row["ops"] for row in nodes if set(row["ops"]) <= _EPILOGUE]
    return {
        "model": name,
        "us": median(ours),
        "cpu_us": median(theirs),
        "ratio": paired_ratio(ours, theirs),
        "graphs_us": median(sums),
        "of_graphs": of_graphs,
        "declined": declined,
        "verified": verified,
        "apart": lonely,
        "nodes": nodes,
        "worst": max(nodes, key=lambda row: row["ratio"])["name"] if nodes else None,
        "ok": verified and (of_graphs is None or of_graphs <= LIMITS["of_graphs"]),
    }


_EPILOGUE = {"Relu", "Add", "BatchNormalization"}
"""Ops that a convolution or matmul takes up."""


def _fused(report: Report, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the times of each fused node and of the same nodes on the CPU provider."""
    model, found = report
    rows = []
    for number, group in enumerate(found.groups):
        for labels, plans in _components(group.program.nodes, group.plans):
            part = model.part([n for n in model.nodes if n.label in labels])
            own = _on_cpu(_as_onnx(part), given.threads)
            feed = made_up_inputs(own)
            theirs: Call = lambda own=own, feed=feed: own.run(None, feed)  # type: ignore[misc] # noqa: E731
            calls = [theirs, *map(alone, plans.values())]
            cpu, *graphs = _times(calls, EFFORT, given)
            ours = list(map(sum, zip(*graphs, strict=True)))
            flops = sum(graph_work(plan.graph).flops for plan in plans.values())
            rows.append(
                {
                    "name": f"group_{number}/{'+'.join(plans)}",
                    "ops": [node.op for node in part.nodes],
                    "nodes": sorted(labels),
                    "what": "; ".join(_described(plan.graph) for plan in plans.values()),
                    "engine": sorted({plan.engine for plan in plans.values()}),
                    "us": median(ours),
                    "cpu_us": median(cpu),
                    "ratio": paired_ratio(ours, cpu),
                    "gflops": flops / median(ours) / 1e3,
                }
            )
    return rows


def _components(
    nodes: Mapping[str, Sequence[str]], plans: Mapping[str, Plan]
) -> list[tuple[set[str], dict[str, Plan]]]:
    """Return graphs that share a node together, with all their nodes."""
    found: list[tuple[set[str], dict[str, Plan]]] = []
    for name, labels in nodes.items():
        joined, held = set(labels), {name: plans[name]}
        apart = []
        for other, its in found:
            if joined & other:
                joined, held = joined | other, its | held
            else:
                apart.append((other, its))
        found = [*apart, (joined, held)]
    return found


def _described(graph: FrozenGraph) -> str:
    """Return ops, the dims of what the heaviest op reads, and its strategy."""
    place = max(range(len(graph.nodes)), key=lambda k: node_work(graph, graph.nodes[k]).flops)
    heaviest, strategy = graph.nodes[place], choose(graph, Target.parse("cpu"))[place]
    sides = [graph.tensors[uid].dims for uid in heaviest.inputs.values()]
    dims = " ".join("x".join(map(str, d)) for d in sides[:2])
    return f"{heaviest.op.NAME} {dims}{f' {strategy}' if strategy else ''}"


def _as_onnx(part: Model) -> bytes:
    """Return some nodes as a model of their own, with weights that are made up."""
    random = np.random.default_rng(0)

    def info(name: str) -> Any:
        value = part.values[name]
        assert value.data_type is not None
        return helper.make_tensor_value_info(name, _ELEMENT[value.data_type], list(value.shape))

    def weight(name: str) -> Any:
        value = part.values[name]
        assert value.data_type is not None
        kind = helper.tensor_dtype_to_np_dtype(_ELEMENT[value.data_type])
        data = random.standard_normal(value.shape) * 0.1
        return numpy_helper.from_array(np.asarray(data).astype(kind), name)

    def tensor(name: str, constant: Constant) -> Any:
        made = helper.make_tensor(
            name, _ELEMENT[constant.data_type], constant.dims, constant.data, raw=True
        )
        return made

    nodes = []
    for node in part.nodes:
        more = {
            k: tensor(k, v) if isinstance(v, Constant) else v for k, v in node.attributes.items()
        }
        nodes.append(
            helper.make_node(
                node.op, node.inputs, node.outputs, name=node.label, domain=node.domain, **more
            )
        )
    held = [*map(weight, sorted(part.weights)), *(tensor(*pair) for pair in part.constants.items())]
    graph = helper.make_graph(
        nodes, "part", list(map(info, part.inputs)), list(map(info, part.outputs)), held
    )
    domains = [helper.make_opsetid(name, version) for name, version in part.opsets.items()]
    made = helper.make_model(graph, opset_imports=domains, ir_version=part.ir_version)
    return bytes(made.SerializeToString())


def _print_model(row: dict[str, Any]) -> None:
    of = "" if row["of_graphs"] is None else f", {row['of_graphs']:.3f} of its graphs in turn"
    print(
        f"\n{row['model']}: {row['us'] / 1e3:.3f} ms, CPU provider {row['cpu_us'] / 1e3:.3f} ms, "
        f"ratio {row['ratio']:.2f}{of}; {row['declined']} nodes declined, "
        f"{'verified' if row['verified'] else 'WRONG'}"
    )
    print(f"{'us':>10} {'CPU us':>10} {'ratio':>6} {'GFLOP/s':>8}  ops; what")
    for one in row["nodes"]:
        print(
            f"{one['us']:10.1f} {one['cpu_us']:10.1f} {one['ratio']:6.2f} {one['gflops']:8.1f}  "
            f"{'+'.join(one['ops'])}; {one['what']}"
        )
    ratios = [one["ratio"] for one in row["nodes"]]
    if ratios:
        print(f"geometric mean of the fused nodes {geomean(ratios):.2f}; worst {row['worst']}")
    if row["apart"]:
        print(f"not taken up by others: {', '.join('+'.join(ops) for ops in row['apart'])}")


# ------------------------------------------------------------------------ a tiny node


def binding(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Measure a Relu of 16 numbers on bound buffers."""
    dims = [1, 16]
    sides = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, dims)] for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "tiny", *sides)
    source = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9
    ).SerializeToString()
    session, _ = _on_ours(source, given.threads)
    x, y = (aligned_bytes(64).view(np.float32) for _ in range(2))
    x[:] = np.arange(-8, 8)
    calls = []
    for one in (session, _on_cpu(source, given.threads)):
        bound = one.io_binding()
        bound.bind_input("x", "cpu", 0, np.float32, dims, x.ctypes.data)
        bound.bind_output("y", "cpu", 0, np.float32, dims, y.ctypes.data)
        calls.append(lambda one=one, bound=bound: one.run_with_iobinding(bound))
        y[:] = -1
        calls[-1]()
        if not np.array_equal(y, np.maximum(x, 0)):
            raise SystemExit("wrong result")
    ours, theirs = _times(calls, SHORT, given)
    over = median(a - b for a, b in zip(ours, theirs, strict=True))
    found = {"us": median(ours), "cpu_us": median(theirs), "over_us": over}
    print(
        f"\na tiny node, bound: {found['us']:.2f} us, CPU provider {found['cpu_us']:.2f} us: "
        f"{over:.2f} us over it"
    )
    return {**found, "ok": over <= LIMITS["over_us"]}


# ------------------------------------------------------------------------ new processes

_CHILD = """
import sys, time, resource
began = time.clock_gettime(time.CLOCK_MONOTONIC)
root, way, path, cache, threads = sys.argv[1:]
sys.path.insert(0, root)
import numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.log_severity_level, options.intra_op_num_threads = 3, int(threads)
if way == "cpu":
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
else:
    from hipdnn_iree.provider.onnx import session_options
    if way == "write":
        options.add_session_config_entry("ep.context_enable", "1")
        options.add_session_config_entry("ep.context_file_path", path.replace(".onnx", "_ctx.onnx"))
    given = {"require_precompiled": int(way in ("cached", "context"))}
    if cache:
        given["cache_dir"] = cache
    session_options(given, device="cpu", onto=options)
    session = ort.InferenceSession(path, options, enable_fallback=0)
made = time.clock_gettime(time.CLOCK_MONOTONIC)
feed = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs()}
session.run(None, feed)
loaded = [m for m in ("iree.compiler", "torch_mlir") if m in sys.modules]
assert way in ("compiled", "write") or not loaded, loaded
(peak,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(time.clock_gettime(time.CLOCK_MONOTONIC), made - began, time.process_time(), peak.split()[1])
"""


def _child(way: str, path: Path, threads: int, cache: Path | str = "") -> dict[str, float]:
    """Run a model once in a new process: seconds in all, of the session, of CPU; peak bytes."""
    words = [sys.executable, "-c", _CHILD, str(ROOT), way, str(path), str(cache), str(threads)]
    began = time.clock_gettime(time.CLOCK_MONOTONIC)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{way}: {done.stderr[-3000:]}")
    ended, session, cpu, peak = map(float, done.stdout.split())
    return {"s": ended - began, "session_s": session, "cpu_s": cpu, "peak": peak * 1024}


def start(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Measure how long a new process takes to its first result."""
    path = _saved(folder, (given.model or ["resnet"])[0])
    copy = folder / "start.onnx"
    copy.write_bytes(path.read_bytes())
    ahead = copy.with_name("start_ctx.onnx")
    _child("write", copy, given.threads)
    ways = {"cpu": copy, "cached": copy, "context": ahead}
    rounds = [
        {way: _child(way, at, given.threads) for way, at in ways.items()}
        for _ in range(given.rounds)
    ]
    best = {
        way: {key: min(one[way][key] for one in rounds) for key in ("s", "session_s", "cpu_s")}
        for way in ways
    }
    print("\na first result in a new process, best: seconds; of the session; of CPU time")
    for way, one in best.items():
        print(f"{way:8} {one['s']:7.3f} {one['session_s']:7.3f} {one['cpu_s']:7.3f}")
    key = "s" if given.clock == "wall" else "cpu_s"
    over = {way: best[way][key] - best["cpu"][key] for way in ("cached", "context")}
    return {"best": best, "over_s": over, "ok": max(over.values()) <= LIMITS["over_s"]}


def memory(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Measure the peak memory of sessions of a model with many weights."""
    path, cache = folder / "large.onnx", folder / "cache"
    nbytes = _large(path, given.megabytes)
    found = {
        way: _child(way, path, given.threads, cache)["peak"]
        for way in ("cpu", "compiled", "cached")
    }
    over = max(found.values()) - found["cpu"]
    print(
        f"\npeak memory, {nbytes / 1e6:.0f} MB of weights: "
        + ", ".join(f"{way} {peak / 1e6:.0f} MB" for way, peak in found.items())
        + f": {over / 1e6:.0f} MB over the CPU provider"
    )
    return {
        "weights": nbytes,
        "peak": found,
        "over_bytes": over,
        "ok": over <= LIMITS["over_bytes"],
    }


def _large(path: Path, megabytes: int, layers: int = 4) -> int:
    """Write a model of four square layers with external weights; return their bytes."""
    size = max(int((megabytes * 2**20 / 4 / layers) ** 0.5) // 16 * 16, 16)
    row = (np.random.default_rng(0).standard_normal(size) / size**0.5).astype(np.float32)
    data = path.with_suffix(".data")
    nodes, weights, x = [], [], "x"
    with open(data, "wb") as file:
        for k in range(layers):
            held = TensorProto(name=f"w{k}", data_type=TensorProto.FLOAT, dims=[size, size])
            held.data_location = TensorProto.EXTERNAL
            about = {"location": data.name, "offset": file.tell(), "length": size * size * 4}
            for key, value in about.items():
                held.external_data.add(key=key, value=str(value))
            weights.append(held)
            for shift in range(size):
                file.write(np.roll(row, shift * 7).tobytes())
            nodes.append(helper.make_node("MatMul", [x, f"w{k}"], [f"m{k}"], name=f"m{k}"))
            x = "y" if k == layers - 1 else f"r{k}"
            nodes.append(helper.make_node("Relu", [f"m{k}"], [x], name=f"relu{k}"))
    sides = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, size])] for n in "xy"]
    graph = helper.make_graph(nodes, "large", *sides, weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    path.write_bytes(made.SerializeToString())
    return layers * size * size * 4


_PARTS: dict[str, Callable[[Path, argparse.Namespace], Any]] = {
    "models": models,
    "binding": binding,
    "start": start,
    "memory": memory,
}

if __name__ == "__main__":
    main()
