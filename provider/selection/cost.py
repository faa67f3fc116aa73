# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A cost model: what one execution takes, from op, shape, target and engine.

A roofline with overheads.  Each node takes the longer of arithmetic and memory traffic, at a
fraction of the machine's peaks that depends on the engine and the op; an engine that fuses moves
only what is read and written by the graph, and starts one kernel for each matmul, convolution
or reduction and its neighbours.  Where times were measured on this machine, their ratio to the
estimates corrects the model.  Every number that goes in is on the `Estimate`.

It ranks engines for graphs that nobody has measured.  It is no prediction: factors of two are
normal, and `hipdnn-iree tune` tells the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import exp, log
from statistics import median
from typing import Any

from ...graph_api.frozen import FrozenGraph, FrozenNode
from ...graph_api.ops import OPS
from ...jit.ops import info
from ...jit.target import Target
from ...jit.work import Work, graph_work, node_work
from ..engine import Engine
from ..engines.torch import served_by
from .peaks import Peaks, machine_of, peaks
from .winners import winners

__all__ = ["ENGINES", "MODEL", "EngineModel", "Estimate", "estimate", "joined"]

MODEL = 2
"""To be raised when estimates change: older ones no longer calibrate."""


def _even(op: str) -> float:
    return 1.0


def _compiled(op: str) -> float:
    return info(op).cpu_efficiency


def _torch(op: str) -> float:
    served = served_by(op)
    return served.efficiency if served else 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineModel:
    """What an engine makes of a machine.

    Attributes
    ----------
    call_us : float
        Microseconds of one execution that does nothing.
    fuses : bool
        Whether elementwise neighbours become one kernel.
    matrix, other, memory : float
        Fractions of the machine's peaks that are reached.
    factor : callable
        From an op's name to a factor on ``matrix`` and ``other``.
    note : str
        What the numbers rest on.
    """

    call_us: float
    fuses: bool
    matrix: float
    other: float
    memory: float
    factor: Callable[[str], float] = _even
    note: str = ""


# (alias, is a CPU) -> model.  For CPUs fitted by hand to docs/reference/benchmarks.md (two cores
# with AVX-512); for GPUs they are guesses, and calibration has to do.
ENGINES: dict[tuple[str, bool], EngineModel] = {
    ("iree", True): EngineModel(
        call_us=6.0,
        fuses=True,
        matrix=0.65,
        other=0.4,
        memory=0.6,
        factor=_compiled,
        note="fitted to docs/reference/benchmarks.md",
    ),
    ("iree", False): EngineModel(
        call_us=15.0, fuses=True, matrix=0.3, other=0.3, memory=0.6, note="a guess"
    ),
    ("torch", True): EngineModel(
        call_us=12.0,
        fuses=False,
        matrix=0.45,
        other=0.65,
        memory=1.1,
        factor=_torch,
        note="fitted to docs/reference/benchmarks.md",
    ),
    ("reference", True): EngineModel(
        call_us=200.0, fuses=False, matrix=0.002, other=0.01, memory=0.05, note="float64 NumPy"
    ),
}
UNKNOWN = EngineModel(
    call_us=20.0, fuses=False, matrix=0.5, other=0.3, memory=0.6, note="an engine not known here"
)

_NARROW_BITS = 16
_SPLIT = 1.25
_DOUBT = 3.0  # measurements that the model itself is worth
_MOST = log(8.0)  # a calibration beyond it means something else than a slower machine


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """An estimate with everything that it rests on.

    Attributes
    ----------
    us : float
        Microseconds of one execution.
    raw_us : float
        The same before calibration.
    calibration : float
        What measurements of the engine on this machine took, over what the model says; 1 without.
    measurements : int
        How many there are.
    terms : mapping of str to float
        Microseconds by cause: ``call``, ``launches``, ``matrix``, ``other``, ``memory`` (the last
        three overlap: a node takes the longer of arithmetic and memory).
    work : Work
        Arithmetic and bytes of the graph.
    kernels : int
        How many are launched.
    model : EngineModel
    peaks : Peaks
        Of the machine.
    """

    us: float
    raw_us: float
    calibration: float
    measurements: int
    terms: Mapping[str, float]
    work: Work
    kernels: int
    model: EngineModel
    peaks: Peaks

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form: every number that was used."""
        return {
            "us": self.us,
            "raw_us": self.raw_us,
            "calibration": self.calibration,
            "measurements": self.measurements,
            "terms_us": dict(self.terms),
            "matrix_flops": self.work.matrix_flops,
            "other_flops": self.work.other_flops,
            "nbytes": self.work.nbytes,
            "kernels": self.kernels,
            "engine": {
                "call_us": self.model.call_us,
                "fuses": self.model.fuses,
                "matrix": self.model.matrix,
                "other": self.model.other,
                "memory": self.model.memory,
                "ops": {op: f for op in OPS if (f := self.model.factor(op)) != 1.0},
                "note": self.model.note,
            },
            "peaks": asdict(self.peaks),
        }


def estimate(graph: FrozenGraph, target: Target, engine: Engine) -> Estimate:
    """Return what one execution of a graph takes on an engine."""
    own = getattr(engine, "estimate", None)
    if own is not None:
        found: Estimate = own(graph, target)
        return found
    model = ENGINES.get((engine.ALIAS, target.is_cpu), UNKNOWN)
    peak = peaks(target)
    whole = graph_work(graph)
    matrix = other = moved = longest = 0.0
    for node in graph.nodes:
        work = node_work(graph, node)
        factor = model.factor(node.op.NAME)
        rate = peak.matrix16 if _is_narrow(graph, node) else peak.matrix32
        m = work.matrix_flops / (rate * model.matrix * factor)
        o = work.other_flops / (peak.other * model.other * factor)
        b = work.nbytes / (peak.nbytes * model.memory)
        matrix, other, moved = matrix + m, other + o, moved + b
        longest += m + o if model.fuses else max(m + o, b)
    if model.fuses:
        # Between two such kernels something must be written, whatever is fused around them.
        moved = (whole.nbytes + _between(graph)) / (peak.nbytes * model.memory)
        longest = max(longest, moved)
    kernels = _kernels(graph) if model.fuses else len(graph.nodes)
    launches = kernels * peak.launch_us
    raw = model.call_us + launches + longest * 1e6
    calibration, known = _calibration(engine, target)
    return Estimate(
        us=raw * calibration,
        raw_us=raw,
        calibration=calibration,
        measurements=known,
        terms={
            "call": model.call_us,
            "launches": launches,
            "matrix": matrix * 1e6,
            "other": other * 1e6,
            "memory": moved * 1e6,
        },
        work=whole,
        kernels=kernels,
        model=model,
        peaks=peak,
    )


def joined(graph: FrozenGraph, parts: Sequence[Estimate]) -> Estimate:
    """Return the estimate of parts that run one after the other.

    It counts for a quarter more than their sum: what crosses a boundary is cold, and a guess has
    to be clearly better to be worth several engines.
    """
    raw = _SPLIT * sum(part.raw_us for part in parts)
    us = _SPLIT * sum(part.us for part in parts)
    names = dict.fromkeys(name for part in parts for name in part.terms)
    return Estimate(
        us=us,
        raw_us=raw,
        calibration=us / raw,
        measurements=sum(part.measurements for part in parts),
        terms={name: sum(part.terms.get(name, 0.0) for part in parts) for name in names},
        work=graph_work(graph),
        kernels=sum(part.kernels for part in parts),
        model=replace(UNKNOWN, note=f"{_SPLIT} times the sum of {len(parts)} parts"),
        peaks=parts[0].peaks,
    )


def _is_narrow(graph: FrozenGraph, node: FrozenNode) -> bool:
    return all(
        graph.tensors[uid].data_type.bits <= _NARROW_BITS
        for uid in node.inputs.values()
        if graph.tensors[uid].value is None
    )


def _kernels(graph: FrozenGraph) -> int:
    return max(1, sum(not info(node.op.NAME).fuses for node in graph.nodes))


def _between(graph: FrozenGraph) -> int:
    """Return the bytes of virtual tensors that are written by one kernel and read by another."""
    made = {uid for n in graph.nodes if not info(n.op.NAME).fuses for uid in n.outputs.values()}
    read = {uid for n in graph.nodes if not info(n.op.NAME).fuses for uid in n.inputs.values()}
    specs = [spec for uid in made & read if (spec := graph.tensors[uid]).virtual]
    return sum(2 * spec.data_type.nbytes(spec.layout.span) for spec in specs)


def _calibration(engine: Engine, target: Target) -> tuple[float, int]:
    """Return measured over estimated times of an engine on this machine, and how many.

    Few measurements count for little: half of what they say (in logarithms) with three of them.
    """
    known_times = winners(engine.settings.engine_winners)
    ratios = known_times.ratios(str(target), machine_of(target), engine.id, MODEL)
    if not ratios:
        return 1.0, 0
    known = len(ratios)
    said = median(map(log, ratios)) * known / (known + _DOUBT)
    return exp(max(-_MOST, min(_MOST, said))), known
