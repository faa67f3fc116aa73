# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX's cases of single nodes on the execution provider, against ONNX Runtime's own.

::

    python -m tools.onnx.cases                      # all cases of the ops that are served
    python -m tools.onnx.cases --only conv --jobs 2 --out results.json
    python -m tools.onnx.cases --jobs 2 --record    # then scripts/gen_docs onnx_cases

A case is ``equal``, ``declined`` by a rule, ``wrong``, ``error``, or ``skipped`` where ONNX
Runtime's own CPU provider does not load or run it.  A run that ONNX Runtime has moved to the CPU
is an error: no node may be left to it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

RECORD = Path(__file__).parents[2] / "docs" / "reference" / "onnx_cases.json"
_LONGEST = 200  # characters of a reason in the record

Outcome = dict[str, Any]
"""``state``; ``why``, with the ``rules`` where it is declined; ``ops``; ``seconds``."""


def collected(only: str = "") -> dict[str, Any]:
    """Return the cases of single nodes whose op is served, by name."""
    from hipdnn_iree.provider.onnx.claims import OPS

    from onnx.backend.test.case.node import collect_testcases

    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of overflows, on purpose
        every = collect_testcases(None)
    for case in every:
        model = case.model
        if model is None or (only and only not in case.name):
            continue
        ops = {(node.domain, node.op_type) for node in model.graph.node}
        if all((d if d != "ai.onnx" else "", op) in OPS for d, op in ops):
            found[case.name] = case
    return found


def outcome(model: Any, data: Sequence[Any]) -> Outcome:
    """Return what came of a case."""
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
            declined = [d for _, found in heard for d in found.declined]
            if not declined:
                return {"state": "error", "why": why[:600]}
            rules = sorted({d.rule for d in declined})
            reasons = "; ".join(dict.fromkeys(d.reason for d in declined))
            return {"state": "declined", "rules": rules, "why": reasons[:600]}
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


def _run(part: tuple[int, int, str]) -> dict[str, Outcome]:
    k, jobs, only = part
    found = {}
    for name, case in sorted(collected(only).items())[k::jobs]:
        begin = time.perf_counter()
        one = found[name] = outcome(case.model, case.data_sets)
        one["seconds"] = round(time.perf_counter() - begin, 2)
        one["ops"] = ops_of(case)
        print(one["state"], name, one["why"][:150], file=sys.stderr, flush=True)
    return found


def ops_of(case: Any) -> str:
    """Return the ops of a case, each once."""
    return ", ".join(sorted({node.op_type for node in case.model.graph.node}))


def run(only: str, jobs: int) -> dict[str, Outcome]:
    """Return what came of all cases, by name."""
    results: dict[str, Outcome] = {}
    if jobs == 1:
        return _run((0, 1, only))
    with ProcessPoolExecutor(jobs) as pool:
        for one in pool.map(_run, [(k, jobs, only) for k in range(jobs)]):
            results.update(one)
    return results


def record(results: Mapping[str, Outcome]) -> dict[str, Any]:
    """Return what is kept in the repository: counts by op, and why cases are declined.

    ``skipped`` cases are counted for no op: ONNX Runtime's own provider lacks them.
    """
    packages = ("onnx", "onnxruntime", "torch-mlir")
    ops: dict[str, Any] = {}
    for name, one in sorted(results.items()):
        if one["state"] == "skipped":
            continue
        entry = ops.setdefault(one["ops"], {"equal": 0})
        if one["state"] == "equal":
            entry["equal"] += 1
        else:
            rules = one.get("rules", [])
            entry.setdefault(one["state"], {})[name] = [", ".join(rules), one["why"][:_LONGEST]]
    return {"about": {p: version(p) for p in packages}, "ops": dict(sorted(ops.items()))}


def _summary(results: Mapping[str, Outcome]) -> Iterator[str]:
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
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.name}; all cases")
    asked = parser.parse_args()
    if asked.record and asked.only:
        parser.error("--record is of all cases")
    results = run(asked.only, asked.jobs)
    for path, made in ((asked.out, results), (asked.record and RECORD, record(results))):
        if path:
            path.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
    print("\n".join(_summary(results)))


if __name__ == "__main__":
    main()
