# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The numbers of gfx9 kernels, checked by emulation: never the same as having run them.

What executes them (`Emulator`) is `emulated_run.run`; tests put something else in its place.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.jit.options import BuildOptions
from hipdnn_iree.jit.pipeline import Compiled, dump
from hipdnn_iree.jit.runtime.arrays import pack, unpack, view
from hipdnn_iree.jit.runtime.elements import is_packed, numpy_dtype
from hipdnn_iree.jit.settings import scope, settings
from hipdnn_iree.jit.signature import ArgSpec
from hipdnn_iree.jit.stages import VMFB
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.reference.convert import Array
from hipdnn_iree.provider.sweep.gaps import outside
from hipdnn_iree.provider.verify import Report, compare, expect, random_inputs

from tools.survey.coverage import code_of
from tools.survey.emulated_run import Reached
from tools.survey.emulated_run import run as emulated_run
from tools.survey.errors import brief
from tools.survey.trials import Trial

__all__ = [
    "ACCUSATIONS",
    "STATUSES",
    "Emulator",
    "Finding",
    "emulate",
    "emulated_report",
    "from_memory",
    "in_memory",
    "without_result",
]

STATUSES = ("emulated-ok", "wrong", "accused", "cannot-emulate", "compile-error", "declined")

ACCUSATIONS = (
    "race on ",
    "missing s_waitcnt",
    "is outside every allocation",
    "is read-only",
    "is beyond its ",
)
"""What errors say of a kernel that does what no kernel may, not of what is not emulated."""

Emulator = Callable[..., list[Array]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What became of one case.

    Attributes
    ----------
    case, op, data_type, target : str
        Sample and its op, type of the main operands, target.
    status : str
        One of ``STATUSES``.
    note : str
        Rules that decline it, errors of a wrong result, or why there is none.
    ir : str
        Digest of what was compiled (``Trial.ir_digest``); empty when declined.
    error : float or None
        Largest error relative to the expected value (or to the root mean square of the output).
    seconds : float
        Wall time of compilation and emulation.
    dispatches : int or None
        Kernel launches.
    code : dict
        Of its kernels what ``decoding.Comparison.as_dict`` says, ``launched``, how many of them
        were executed to their end, and ``missed``, the instructions that were not, by name.
    """

    case: str
    op: str
    data_type: str
    target: str
    status: str
    note: str = ""
    ir: str = ""
    error: float | None = None
    seconds: float = 0.0
    dispatches: int | None = None
    code: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form; ``Finding(**data)`` reads it back."""
        return asdict(self)


def in_memory(array: Array, spec: ArgSpec) -> Array:
    """Return the memory of a logical array, with its gaps, in the shape of ``spec``."""
    if is_packed(spec.data_type):
        return pack(spec, array)
    array = array.view(_element(spec))  # NumPy's next step does not know every narrow float
    step = array.dtype.itemsize
    flat = np.lib.stride_tricks.as_strided(array, (prod(spec.shape),), (step,))
    return flat.reshape(spec.shape)


def from_memory(memory: Array, spec: ArgSpec) -> Array:
    """Return the logical array of memory that has the shape of ``spec``."""
    if is_packed(spec.data_type):
        return unpack(spec, memory.reshape(-1).view(np.uint8))
    return view(np.ascontiguousarray(memory), spec)


def emulate(
    case: Trial,
    run: Emulator = emulated_run,
    *,
    timeout_s: float,
    compile_timeout_s: float = 300,
    seed: int = 1,
    keep: Path | None = None,
) -> Finding:
    """Compile a case, emulate it on random data, and compare with the float64 reference.

    Parameters
    ----------
    case : Trial
    run : Emulator
    timeout_s, compile_timeout_s : float
        Limits of emulation and of compilation, in seconds.
    seed : int
        Of the data.
    keep : Path, optional
        Folder in which the stages of what is wrong (or does not compile) are kept.
    """
    begin = time.perf_counter()
    name, data_type, target = case.key
    finding = partial(Finding, case=name, op=case.op, data_type=data_type, target=target)
    if case.declines:
        rules = sorted({p.rule for p in case.declines})
        return finding(status="declined", note=", ".join(rules))
    with TemporaryDirectory(prefix="hipdnn-iree-emulate-") as scratch:
        folder = Path(scratch) if keep is None else keep / case.name.replace(" ", "-")
        try:
            with scope(compiler_timeout_s=compile_timeout_s, cache_mode="off"):
                finding = partial(finding, ir=case.ir_digest())
                compiled = dump(case.graph, case.target, folder, BuildOptions.of(settings()))
        except Exception as error:  # a survey reports everything and goes on
            return finding(status="compile-error", note=brief(error), seconds=_since(begin))
        finding = partial(finding, dispatches=compiled.statistics.get("dispatches"))
        reached: Reached = {}
        try:
            run = partial(run, reached=reached)
            report = emulated_report(
                case.graph, case.target, compiled, folder, run, timeout_s, seed
            )
        except AssertionError as error:
            return finding(status="wrong", note=str(error), seconds=_since(begin))
        except Exception as error:
            status, note = without_result(error)
            code = code_of(folder, {})
            return finding(status=status, note=note, code=code, seconds=_since(begin))
        finding = partial(finding, code=code_of(folder, reached))
    worst = report.max_rel_error
    return finding(
        status="emulated-ok" if report.ok else "wrong",
        note="" if report.ok else "; ".join(str(o) for o in report.outputs if not o.ok),
        error=worst if np.isfinite(worst) else None,
        seconds=_since(begin),
    )


def emulated_report(
    graph: FrozenGraph,
    target: Target,
    compiled: Compiled,
    folder: Path,
    run: Emulator,
    timeout_s: float,
    seed: int,
) -> Report:
    """Return how a graph's results compare that the emulator gives.

    Raises
    ------
    AssertionError
        If a byte between the elements of an output was written: all hold 0xFF before.
    """
    inputs = random_inputs(graph, seed=seed)
    args = compiled.signature.args
    outs = [spec for spec in args if spec.output]
    results = run(
        folder / VMFB,
        _arguments(inputs, [spec for spec in args if not spec.output]),
        [_described(spec) for spec in outs],
        workspace_bytes=compiled.signature.workspace_bytes,
        timeout_s=timeout_s,
        destination_passing=True,
    )
    for memory, spec in zip(results, outs, strict=True):
        raw = np.ascontiguousarray(memory).reshape(-1).view(np.uint8)
        assert (raw[outside(spec)] == 0xFF).all(), "what lies between the elements was written"
    found = [from_memory(memory, spec) for memory, spec in zip(results, outs, strict=True)]
    outputs = dict(zip(graph.outputs, found, strict=True))
    return compare(graph, outputs, expect(graph, inputs, target))


def _arguments(inputs: Mapping[int, Array], specs: list[ArgSpec]) -> list[Array | int | float]:
    return [
        _number(a, s) if s.scalar else in_memory(a, s)
        for a, s in zip(inputs.values(), specs, strict=True)
    ]


def _number(array: Array, spec: ArgSpec) -> int | float:
    """Return a scalar that the host reads, which is passed by value."""
    value = array.reshape(-1)[0]
    return float(value) if spec.data_type.is_float else int(value)


def _described(spec: ArgSpec) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and dtype of an output as the emulator takes them."""
    shape = (spec.nbytes,) if is_packed(spec.data_type) else spec.shape
    return shape, _element(spec)


def _element(spec: ArgSpec) -> np.dtype[Any]:
    """Return the dtype of memory as compiled code takes it: narrow floats are bytes."""
    narrow = spec.data_type.is_float and spec.data_type.bits == 8
    return np.dtype(np.uint8) if narrow else numpy_dtype(spec.data_type)


def without_result(error: Exception) -> tuple[str, str]:
    """Return what an error of the emulator means, and what it says in brief.

    Returns
    -------
    status : str
        ``"accused"`` for a kernel that does what none may, else ``"cannot-emulate"``.
    note : str
        Kernel, address, instruction and reason, where the error names them.
    """
    accused = any(part in str(error) for part in ACCUSATIONS)
    found = re.search(r"\bmain\S*(?: at |: ).*", str(error))
    note = found[0][:300] if found else brief(error)
    return "accused" if accused else "cannot-emulate", note


def _since(begin: float) -> float:
    return round(time.perf_counter() - begin, 2)
