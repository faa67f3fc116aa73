# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model examined: what is claimed of it, whether the results are right, and both times."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from ...graph_api.errors import BindError, FormatError, Problem
from ...jit.runtime.arrays import aligned_bytes
from ...jit.target import Target
from ..plan import Plan
from .registration import DEFAULT_NAME, onnxruntime, session_options
from .reports import Report, listening, summary

__all__ = ["RULES", "alone", "compared", "examine", "made_up_inputs"]

RULES: dict[str, str] = {
    "EP-FILE-01": "the file is an ONNX model that onnxruntime loads",
    "EP-FILE-02": "an array is given for every input, of its type and rank",
}

Array = npt.NDArray[Any]

_SIZE = 2
"""Of dims that the model leaves open, unless arrays are given."""

_BOUNDS = {"float32": 1e-3, "float64": 1e-6, "float16": 2e-2, "bfloat16": 8e-2}
"""How far a result may be off, in units of the largest one."""

_FED = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(bool)": "bool",
}


def examine(
    path: Path,
    options: Mapping[str, object] | None = None,
    *,
    arrays: Mapping[str, Array] | None = None,
    verify: bool = False,
    repeats: int = 20,
) -> dict[str, Any]:
    """Return what the provider makes of a model.

    Parameters
    ----------
    path : Path
        An ONNX model.
    options : mapping, optional
        Of the provider; with a ``target`` that is not here the model is only compiled.
    arrays : mapping of str to array, optional
        Inputs; made up, the same each time, when not given.
    verify : bool
        Whether results are compared with those of ONNX Runtime's own provider.
    repeats : int
        Runs of which the median is taken.

    Returns
    -------
    dict
        JSON-ready; with the reports themselves under ``reports``.

    Raises
    ------
    FormatError
        If onnxruntime does not load the model (EP-FILE-01); one with compiled code only this
        provider runs, so that it cannot be verified.
    BindError
        If the arrays do not fit it.
    """
    ort = onnxruntime()
    given = dict(options or {})
    ahead = bool(given.get("target")) and not Target.parse(str(given["target"])).is_cpu
    own = _plain(ort, path)
    if verify and isinstance(own, FormatError):
        raise own
    device, name = ("virtual", f"{DEFAULT_NAME}.virtual") if ahead else ("", DEFAULT_NAME)
    with listening() as reports:
        prepared = session_options(given, device=device, name=name, onto=_options(ort))
        prepared.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        try:
            session, seconds = _timed(
                lambda: ort.InferenceSession(str(path), prepared, enable_fallback=0)
            )
        except Exception:
            if isinstance(own, FormatError):
                raise own from None
            raise
    found = {"in_file": _nodes_in(path), **summary(reports)}
    times: dict[str, Any] = {"session_s": seconds, "run_us": None, "cpu_us": None, "graphs": []}
    verified: bool | None = None
    outputs: list[dict[str, Any]] = []
    inputs: list[dict[str, Any]] | None = None
    if not ahead:
        feed = made_up_inputs(session, arrays)
        inputs = [_run_with(one, feed[one.name].shape) for one in session.get_inputs()]
        if verify:
            results = zip(session.run(None, feed), own.run(None, feed), strict=True)
            names = [one.name for one in session.get_outputs()]
            outputs = [compared(n, *pair) for n, pair in zip(names, results, strict=True)]
            verified = all(one["ok"] for one in outputs)
        times["run_us"] = _median_us(lambda: session.run(None, feed), repeats)
        if not isinstance(own, FormatError):
            times["cpu_us"] = _median_us(lambda: own.run(None, feed), repeats)
        sizes = {name: size for one in inputs for name, size in one["open"].items()}
        times["graphs"] = _graph_times(reports, repeats, sizes)
        times["graphs_us"] = sum(one["us"] for one in times["graphs"])
    told = {"inputs": inputs, "outputs": outputs, "times": times, "reports": reports}
    return {"verified": verified, **found, **told}


def _run_with(one: Any, dims: Sequence[int]) -> dict[str, Any]:
    """Return the dims that an input of a session is run with, and those that are open by name."""
    pairs = enumerate(zip(one.shape, dims, strict=True))
    opened = {n or f"dim {k}": size for k, (n, size) in pairs if not isinstance(n, int)}
    return {"name": one.name, "dims": list(dims), "open": opened}


def _timed(make: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.perf_counter()
    made = make()
    return made, time.perf_counter() - begin


def _options(ort: Any) -> Any:
    made = ort.SessionOptions()
    made.log_severity_level = 3
    # Threads that wait for work by spinning would take the cores from the other session.
    made.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return made


def _plain(ort: Any, path: Path) -> Any:
    """Return a session of ONNX Runtime's own provider, or why there is none, as `FormatError`."""
    try:
        return ort.InferenceSession(str(path), _options(ort), providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common class of their own
        said = " ".join(str(error).split())
        wanted = "a model that ONNX Runtime's CPU provider runs"
        problem = Problem(rule="EP-FILE-01", port=str(path), got=said, wanted=wanted)
        return FormatError(f"{path} is not an ONNX model that can be run", [problem])


def _nodes_in(path: Path) -> int | None:
    """Return how many nodes the file has; None if onnx is not there, or reads no such file."""
    try:
        import onnx
    except ImportError:
        return None
    try:  # ONNX Runtime knows a format of its own, and takes any name for either
        held = onnx.load(path, format="protobuf", load_external_data=False)
    except Exception:  # what protobuf and onnx raise has no common base
        return None
    return len(held.graph.node)


def made_up_inputs(session: Any, arrays: Mapping[str, Array] | None = None) -> dict[str, Array]:
    """Return inputs of a session: those given, which have to fit it, or the same at each call.

    Raises
    ------
    BindError
        If arrays do not fit, or an input has a type that none are made up for (EP-FILE-02).
    """
    fed, problems = {}, []
    for k, one in enumerate(session.get_inputs()):
        kind = _FED.get(one.type)
        array = None if arrays is None else arrays.get(one.name)
        if array is None and (arrays is not None or kind is None):
            problems.append(
                Problem(rule="EP-FILE-02", port=one.name, got="no array", wanted=one.type)
            )
        elif array is None:
            dims = [d if isinstance(d, int) else _SIZE for d in one.shape]
            fed[one.name] = _made_up(str(kind), dims, k)
        elif array.dtype.name != kind or array.ndim != len(one.shape):
            got = f"{array.dtype.name} of rank {array.ndim}"
            wanted = f"{one.type} of rank {len(one.shape)}"
            problems.append(Problem(rule="EP-FILE-02", port=one.name, got=got, wanted=wanted))
        else:
            fed[one.name] = array
    if problems:
        raise BindError("the arrays do not fit the model", problems)
    return fed


def _made_up(kind: str, dims: Sequence[int], seed: int) -> Array:
    random = np.random.default_rng(seed)
    if kind == "bool":
        return random.integers(0, 2, dims).astype(bool)
    if kind.startswith("float"):
        return random.standard_normal(dims).astype(kind)
    return random.integers(0, 2, dims).astype(kind)  # such as places in a table


def compared(name: str, got: Array, wanted: Array) -> dict[str, Any]:
    """Return whether a result is that of ONNX Runtime's own provider: name, ok, error, bound."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return {"name": name, "ok": False, "error": None, "bound": None}
    if not got.size:
        return {"name": name, "ok": True, "error": 0.0, "bound": 0.0}
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    # A sum that is rounded the other way is a step of a quantised result.
    bound = 1.0 if got.dtype.itemsize == 1 and got.dtype != bool else 0.0
    if got.dtype.name in _BOUNDS:
        finite = np.abs(b[np.isfinite(b)])
        bound = _BOUNDS[got.dtype.name] * max(float(finite.max(initial=0.0)), 1.0)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    error = float(np.abs(np.where(same, 0.0, a - b)).max())
    return {"name": name, "ok": error <= bound, "error": error, "bound": bound}


def _median_us(call: Callable[[], object], repeats: int) -> float:
    call()
    return median(_timed(call)[1] for _ in range(repeats)) * 1e6


def _graph_times(
    reports: Sequence[Report], repeats: int, sizes: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return the time of each graph by itself, at the sizes of the run; the longest first."""
    found = []
    for _, partition in reports:
        for number, group in enumerate(partition.groups):
            every, plans = group.family, group.plans
            if every is not None and sizes.keys() >= set(every.symbols):
                plans = every.at({name: sizes[name] for name in every.symbols})[1]
            for name, plan in plans.items():
                us = _median_us(alone(plan), repeats)
                nodes = list(group.program.nodes[name])
                found.append({"name": f"group_{number}/{name}", "nodes": nodes, "us": us})
    return sorted(found, key=lambda one: -one["us"])


def alone(plan: Plan) -> Callable[[], None]:
    """Return a call of a plan on memory of its own, which is zero."""
    graph, kept = plan.graph, []
    buffers: dict[Any, int] = {}
    for uid in (*graph.inputs, *graph.outputs):
        tensor = graph.tensors[uid]
        memory = aligned_bytes(max(tensor.data_type.nbytes(prod(tensor.dims)), 1))
        memory[:] = 0
        kept.append(memory)
        buffers[uid] = memory.ctypes.data
    bound = plan.bind(buffers)

    def call() -> None:
        bound()
        del kept[len(kept) :]  # keeps the memory as long as the call

    return call
