"""ONNX's cases of single nodes on the execution provider, against ONNX Runtime's own.

::

    python -m tools.onnx.cases                      # all cases of the ops that are served
    python -m tools.onnx.cases --only conv --jobs 2 --out results.json

A case is ``equal``, ``declined`` by a rule, ``wrong``, ``error``, or ``skipped`` where ONNX
Runtime's own CPU provider does not load or run it.  A run that ONNX Runtime has moved to the CPU
is an error: no node may be left to it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

NAME = "HipDNNExecutionProvider"


def collected(only: str = "") -> dict[str, Any]:
    """Return the cases of single nodes whose op is served, by name."""
    from hipdnn_iree.provider.onnx.claims import OPS

    from onnx.backend.test.case.node import collect_testcases

    found = {}
    for case in collect_testcases(None):
        model = case.model
        if model is None or (only and only not in case.name):
            continue
        ops = {(node.domain, node.op_type) for node in model.graph.node}
        if all((d if d != "ai.onnx" else "", op) in OPS for d, op in ops):
            found[case.name] = case
    return found


def outcome(name: str, model: Any, data: Sequence[Any]) -> dict[str, str]:
    """Return what came of a case: ``state``, and why."""
    import onnxruntime as ort
    from hipdnn_iree.provider.onnx import session_options
    from hipdnn_iree.provider.onnx.reports import listening

    ort.set_default_logger_severity(4)
    text = model.SerializeToString()
    try:
        plain = ort.InferenceSession(text, _quiet(ort), providers=["CPUExecutionProvider"])
        names = [i.name for i in plain.get_inputs()]
        fed = [dict(zip(names, inputs, strict=False)) for inputs, _ in data]
        wanted = [plain.run(None, feed) for feed in fed]
    except Exception as error:
        return {"state": "skipped", "why": str(error).splitlines()[0][:200]}
    heard: list[Any] = []
    try:
        options = _quiet(ort)
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        with listening() as heard:
            session = ort.InferenceSession(text, session_options(onto=options), enable_fallback=0)
        for feed, expected in zip(fed, wanted, strict=True):
            worst = misfit(session.run(None, feed), expected)
            if worst:
                return {"state": "wrong", "why": worst}
    except Exception as error:
        why = " ".join(str(error).split())
        if "disable_cpu_ep_fallback" in why or "fallback to CPU EP" in why:
            declined = [str(d) for _, found in heard for d in found.declined]
            state = "declined" if declined else "error"
            return {"state": state, "why": "; ".join(declined)[:600] or why[:600]}
        return {"state": "error", "why": why[:600]}
    return {"state": "equal", "why": ""}


def _quiet(ort: Any) -> Any:
    made = ort.SessionOptions()
    made.log_severity_level = 4
    made.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    made.intra_op_num_threads = 1
    return made


def misfit(found: Sequence[Any], wanted: Sequence[Any]) -> str:
    """Return how far results are off; empty where they are equal within the type's rounding."""
    for k, (got, expected) in enumerate(zip(found, wanted, strict=True)):
        if got.shape != expected.shape or got.dtype != expected.dtype:
            return f"output {k}: {got.dtype} {got.shape}, wanted {expected.dtype} {expected.shape}"
        if np.issubdtype(got.dtype, np.integer) or got.dtype == bool:
            off = np.abs(got.astype(np.int64) - expected.astype(np.int64)).max(initial=0)
            if off:
                return f"output {k}: {int(off)} off"
            continue
        a, b = got.astype(np.float64), expected.astype(np.float64)
        unit = {np.dtype(np.float16): 2e-3, np.dtype(np.float64): 1e-7}.get(got.dtype, 1e-4)
        if got.dtype.name == "bfloat16":
            unit = 1e-2
        if not np.allclose(a, b, rtol=unit, atol=unit, equal_nan=True):
            return f"output {k}: {np.nanmax(np.abs(a - b)):.3g} off"
    return ""


def _run(part: tuple[int, int, str]) -> dict[str, dict[str, str]]:
    k, jobs, only = part
    found = {}
    for name, case in sorted(collected(only).items())[k::jobs]:
        begin = time.perf_counter()
        found[name] = outcome(name, case.model, case.data_sets)
        found[name]["seconds"] = f"{time.perf_counter() - begin:.2f}"
        ops = ",".join(sorted({node.op_type for node in case.model.graph.node}))
        found[name]["ops"] = ops
        print(found[name]["state"], name, found[name]["why"][:150], file=sys.stderr, flush=True)
    return found


def run(only: str, jobs: int) -> dict[str, dict[str, str]]:
    """Return what came of all cases, by name."""
    results: dict[str, dict[str, str]] = {}
    if jobs == 1:
        return _run((0, 1, only))
    with ProcessPoolExecutor(jobs) as pool:
        for one in pool.map(_run, [(k, jobs, only) for k in range(jobs)]):
            results.update(one)
    return results


def _summary(results: dict[str, dict[str, str]]) -> Iterator[str]:
    states = Counter(one["state"] for one in results.values())
    loaded = sum(states.values()) - states["skipped"]
    yield f"{len(results)} cases, {loaded} that the CPU provider runs: {dict(states)}"
    if loaded:
        yield f"equal: {100 * states['equal'] / loaded:.1f} %"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of the cases' names")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="JSON of every case")
    asked = parser.parse_args()
    results = run(asked.only, asked.jobs)
    if asked.out:
        asked.out.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    print("\n".join(_summary(results)))


if __name__ == "__main__":
    main()
