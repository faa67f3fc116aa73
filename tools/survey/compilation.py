# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Samples compiled for real, and run and verified where this machine can: one row for each."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hipdnn_iree.jit.inspect.isa import read_kernels
from hipdnn_iree.jit.options import BuildOptions
from hipdnn_iree.jit.pipeline import dump
from hipdnn_iree.jit.settings import scope, settings
from hipdnn_iree.provider.verify import compare, expect, poisoned_outputs, random_inputs

from tools.survey.errors import brief
from tools.survey.trials import Trial

__all__ = ["STATUSES", "Compilation", "try_out"]

STATUSES = ("ran-ok", "compiled", "wrong", "compile-error", "declined")


@dataclass(frozen=True, kw_only=True, slots=True)
class Compilation:
    """What became of one case.

    Attributes
    ----------
    case, op, data_type, target : str
        Sample and its op, type of the main operands, target.
    status : str
        One of ``STATUSES``; ``ran-ok`` (the CPU) means every element was as the reference allows.
    note : str
        Rules that decline it, or the error.
    ir : str
        Digest of what was compiled (``Trial.ir_digest``); empty when declined.
    seconds : float
        Wall time of lowering and compilation.
    dispatches : int or None
        Kernel launches.
    spills, mfma : int or None
        Of gfx9 kernels: registers that did not fit, and matrix instructions in the text.
    """

    case: str
    op: str
    data_type: str
    target: str
    status: str
    note: str = ""
    ir: str = ""
    seconds: float = 0.0
    dispatches: int | None = None
    spills: int | None = None
    mfma: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form; ``Compilation(**data)`` reads it back."""
        return asdict(self)


def try_out(case: Trial, *, limit_s: float, seed: int = 1) -> Compilation:
    """Compile a case, within a time limit, and run and verify it if it is for the CPU.

    Parameters
    ----------
    case : Trial
    limit_s : float
        Of the compilation, in seconds.
    seed : int
        Of the data.
    """
    name, data_type, target = case.key
    row = partial(Compilation, case=name, op=case.op, data_type=data_type, target=target)
    if case.declines:
        return row(status="declined", note=", ".join(sorted({p.rule for p in case.declines})))
    begin = time.perf_counter()

    def since() -> float:
        return round(time.perf_counter() - begin, 2)

    with TemporaryDirectory(prefix="hipdnn-iree-compile-") as scratch:
        folder = Path(scratch)
        try:
            with scope(compiler_timeout_s=limit_s):
                row = partial(row, ir=case.ir_digest())
                compiled = dump(case.graph, case.target, folder, BuildOptions.of(settings()))
        except Exception as error:  # a survey reports everything and goes on
            return row(status="compile-error", note=brief(error), seconds=since())
        row = partial(row, seconds=since(), dispatches=compiled.statistics.get("dispatches"))
        if case.target.is_gfx9:
            kernels = read_kernels(folder / "dispatches")
            row = partial(
                row,
                spills=sum(k.vgpr_spills + k.sgpr_spills for k in kernels),
                mfma=sum(k.mfma_count for k in kernels),
            )
    if not case.target.is_host:
        return row(status="compiled")
    try:
        wrong = _run(case, seed)
    except Exception as error:
        wrong = brief(error)
    return row(status="wrong" if wrong else "ran-ok", note=wrong)


def _run(case: Trial, seed: int) -> str:
    """Run a case here; return what is wrong."""
    from hipdnn_iree.provider.registry import engine

    plan = engine("iree", settings()).build(case.graph, case.target)
    inputs, outputs = random_inputs(case.graph, seed=seed), poisoned_outputs(case.graph)
    buffers: dict[Any, Any] = {**inputs, **outputs}
    plan.execute(buffers)
    report = compare(case.graph, outputs, expect(case.graph, inputs, case.target))
    return "; ".join(str(o) for o in report.outputs if not o.ok)
