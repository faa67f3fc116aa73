# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checking an engine against the reference: inputs, poisoned outputs, and the comparison.

::

    inputs = random_inputs(frozen, seed=1)
    outputs = poisoned_outputs(frozen)
    plan.execute({**inputs, **outputs})
    report = compare(frozen, outputs, expect(frozen, inputs, target))

The allowed error of an element is not a tunable number.  ``reference.expect`` follows rounding
errors through the graph, node by node, and gives the two values of the output's type between which
each element of a correct result must be:

- the result of one correctly rounded operation must be its rounding or the neighbour at the same
  distance; exact operations (maximum, conversions, sums of small integers) must be exact;
- a sum of n products may be off by ``min(n + 1, 8·√n)`` units of roundoff of the compute type,
  relative to Σ|x·w| (``reference.analysis.growth`` gives the reason);
- transcendental functions may be off by a few units each (``reference.pointwise.MODES``);
- factors of products may be read as 0 where the target's matrix instructions take subnormal
  halves and bfloat16 for 0 (gfx90a: ``Target.flushes_products``);
- intermediate floats may or may not have been rounded to their tensor's type;
- the final conversion to the output's type is one rounding, which the reference applies as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph_api.dtypes import DataType
from ..graph_api.dynamic import at_sizes, sizes_of
from ..graph_api.errors import BindError, Problem
from ..graph_api.frozen import FrozenGraph
from ..graph_api.tensor import TensorSpec
from .engines.host_memory import arguments_of, host_memory
from .reference import Expected, expect, numpy_dtype, to_dtype
from .reference.convert import Array, int_range, scalar, smallest, unit_roundoff, widen
from .reference.inputs import poisoned_outputs, random_inputs, untouched

if TYPE_CHECKING:
    from .plan import Plan

__all__ = [
    "Expected",
    "OutputReport",
    "Report",
    "compare",
    "expect",
    "poisoned_outputs",
    "random_inputs",
    "verify",
]

RULES: dict[str, str] = {
    "VERIFY-01": "there is a result for every output",
    "VERIFY-02": "a result has the dims and data type of its output",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputReport:
    """How one output compares.

    Attributes
    ----------
    uid : int
        The output's.
    name : str
        The output's name or ``uid n``.
    ok : bool
        Whether every element is between the bounds of a correct result.
    elements : int
        How many there are.
    wrong : int
        How many of them are not between the bounds.
    max_abs_error : float
        Largest ``abs(got - expected)``, infinite where only one of them is finite.
    max_rel_error : float
        The same relative to ``abs(expected)``, or to the root mean square of the whole output where
        that is larger, so that a sum that cancels does not count as a large error.
    of_bound : float
        Largest error in units of what is allowed at its element.  Up to 1: of a correct result, the
        error that it must have had before it was rounded to the output's type, of the error that
        is allowed there; 0 where every element is the exact value rounded.  Above 1: of a wrong
        one, the distance to the exact value, of what is allowed after rounding (``allowed``).
    worst : tuple of int
        Index of that element.
    got : float
        That element.
    expected : float
        What the reference has there.
    allowed : float
        The error that is allowed there.
    nan_mismatches : int
        Elements that are NaN (or infinite) in one of the two only.
    unwritten : int
        Wrong elements that still hold the poison of ``poisoned_outputs``.
    unbounded : int
        Elements without bounds, because the graph is ill conditioned there; they count as correct
        unless NaN, and NaN too where an intermediate is too large for its type.
    """

    uid: int
    name: str
    ok: bool
    elements: int
    wrong: int
    max_abs_error: float
    max_rel_error: float
    of_bound: float
    worst: tuple[int, ...]
    got: float
    expected: float
    allowed: float
    nan_mismatches: int
    unwritten: int
    unbounded: int

    def __str__(self) -> str:
        head = f"{self.name}: max abs error {self.max_abs_error:.3g}, rel {self.max_rel_error:.3g}"
        if self.ok:
            return f"{head}; ok"
        notes = [f"{self.wrong} of {self.elements} elements wrong"]
        if self.unwritten:
            notes.append(f"{self.unwritten} never written")
        if self.nan_mismatches:
            notes.append(f"{self.nan_mismatches} NaN or infinite in one only")
        at = ", ".join(map(str, self.worst))
        notes.append(
            f"worst at [{at}]: got {self.got:.9g}, expected {self.expected:.9g}"
            f" ± {self.allowed:.2g}"
        )
        return f"{head}; {'; '.join(notes)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """How all outputs compare; ``str()`` is one line for each.

    Attributes
    ----------
    outputs : tuple of OutputReport
        One for each output of the graph, in order.
    """

    outputs: tuple[OutputReport, ...]

    @property
    def ok(self) -> bool:
        """Whether every output is correct."""
        return all(o.ok for o in self.outputs)

    @property
    def max_abs_error(self) -> float:
        """The largest of all outputs."""
        return max((o.max_abs_error for o in self.outputs), default=0.0)

    @property
    def max_rel_error(self) -> float:
        """The largest of all outputs."""
        return max((o.max_rel_error for o in self.outputs), default=0.0)

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping; numbers that are not finite become None."""
        return {
            "ok": self.ok,
            "max_abs_error": _plain(self.max_abs_error),
            "max_rel_error": _plain(self.max_rel_error),
            "outputs": [{k: _plain(v) for k, v in asdict(o).items()} for o in self.outputs],
        }

    def __str__(self) -> str:
        return "\n".join(map(str, self.outputs))


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return list(value) if isinstance(value, tuple) else value


def verify(plan: Plan, inputs: Mapping[int, Any]) -> Report:
    """Run a plan on host arrays by uid and compare; see ``Plan.verify``."""
    graph = plan.graph
    if graph.symbols:
        given = {u: x for u, x in inputs.items() if u in graph.tensors and hasattr(x, "shape")}
        sizes = sizes_of(graph, {uid: tuple(x.shape) for uid, x in given.items()})
        plan, graph = plan.with_sizes(sizes), at_sizes(graph, sizes)
    outputs = poisoned_outputs(graph)
    buffers = {**inputs, **outputs}
    memory = host_memory(graph, arguments_of(graph), buffers, copy=True)
    plan.bind(buffers, copy=True)()
    arrays = {
        uid: memory.arrays[uid] if uid in memory.arrays else memory.readers[uid]()
        for uid in graph.inputs
    }
    return compare(graph, outputs, expect(graph, arrays, plan.target))


def compare(frozen: FrozenGraph, outputs: Mapping[int, Array], expected: Expected) -> Report:
    """Compare an engine's outputs with what the reference allows.

    Parameters
    ----------
    frozen : FrozenGraph
    outputs : mapping of uid to ndarray
        Every output of the graph, in its data type, with its logical dims.
    expected : Expected
        The result of ``expect`` for the same inputs.

    Raises
    ------
    BindError
        If an output is missing, or has other dims or another type (VERIFY-…).
    """
    problems = list(_misfits(frozen, outputs))
    if problems:
        raise BindError("the results do not fit the graph", problems)
    return Report(
        outputs=tuple(
            _compare_one(
                frozen.spec(uid),
                np.asarray(outputs[uid]),
                expected.values[uid],
                expected.low[uid],
                expected.high[uid],
                expected.errors[uid],
                nan_allowed=uid in expected.overflowing,
            )
            for uid in frozen.outputs
        )
    )


def _misfits(frozen: FrozenGraph, outputs: Mapping[int, Array]) -> Iterator[Problem]:
    for uid in frozen.outputs:
        spec = frozen.spec(uid)
        wanted = f"{spec.data_type.json} {list(spec.dims)}"
        if uid not in outputs:
            yield Problem(rule="VERIFY-01", port=spec.label, got="nothing", wanted=wanted)
            continue
        array = np.asarray(outputs[uid])
        if array.shape != spec.dims or array.dtype != numpy_dtype(spec.data_type):
            got = f"{array.dtype} {list(array.shape)}"
            yield Problem(rule="VERIFY-02", port=spec.label, got=got, wanted=wanted)


def _compare_one(
    spec: TensorSpec,
    got: Array,
    value: Array,
    low: Array,
    high: Array,
    bound: Array,
    *,
    nan_allowed: bool,
) -> OutputReport:
    data_type = spec.data_type
    poison = untouched(got, data_type)
    # A byte other than 0 and 1 is not a valid boolean; NumPy would hide that.
    got = widen(got.view(np.uint8) if data_type.is_bool else got, data_type)
    with np.errstate(all="ignore"):
        rounded = widen(to_dtype(value, data_type), data_type)
        exact = np.where(np.isfinite(rounded), value, rounded).astype(np.float64)
        both_nan = np.isnan(exact) & np.isnan(got)
        unbounded = _says_nothing(low, high, data_type)
        right = ((low <= got) & (got <= high)) | both_nan
        if _has_no_infinity(data_type):  # which is NaN there
            right |= (np.isinf(low) | np.isinf(high)) & np.isnan(got)
        if nan_allowed:
            right |= unbounded & np.isnan(got)
        odd = np.isfinite(exact) != np.isfinite(got)
        error = np.where(right & ~np.isfinite(exact), 0.0, np.abs(got - exact))
        error = np.where(np.isnan(error), np.inf, error)
        allowed = np.where(np.isfinite(exact), np.fmax(high - exact, exact - low), 0.0)
        needed = _before_rounding(got, exact, rounded, data_type)
        share = np.where(needed > 0, np.fmin(needed / bound, 1), 0.0)
        # Wrong elements before correct ones.
        of_bound = np.where(right, share, np.fmax(error / allowed, np.nextafter(1, 2)))
        finite = exact[np.isfinite(exact)]
        scale = math.sqrt(float(np.square(finite).mean())) if finite.size else 0.0
        relative = np.where(error > 0, error / np.maximum(np.abs(exact), scale), 0.0)
        relative = np.where(np.isnan(relative), np.inf, relative)
    worst = np.unravel_index(np.argmax(of_bound), got.shape)
    wrong = ~right
    return OutputReport(
        uid=spec.uid,
        name=spec.name or f"uid {spec.uid}",
        ok=not wrong.any(),
        elements=got.size,
        wrong=int(wrong.sum()),
        max_abs_error=float(error.max()),
        max_rel_error=float(relative.max()),
        of_bound=float(of_bound[worst]),
        worst=tuple(map(int, worst)),
        got=float(got[worst]),
        expected=float(exact[worst]),
        allowed=float(allowed[worst]),
        nan_mismatches=int((odd & wrong).sum()),
        unwritten=int((wrong & poison).sum()),
        unbounded=int(unbounded.sum()),
    )


def _before_rounding(got: Array, exact: Array, rounded: Array, data_type: DataType) -> Array:
    """Return how far off correct results were before they were rounded, at the least.

    One that is the exact value rounded need not have been off at all.  Its neighbour was beyond
    the middle of both; one farther off was so by its distance but for one rounding.
    """
    distance = np.abs(got - exact)
    if data_type.is_float:
        size = np.fmax(np.abs(got), np.abs(exact))
        unit = unit_roundoff(data_type) * size + smallest(data_type)
        middle = np.abs((got + rounded) / 2 - exact)
        flushed = distance <= smallest(data_type)  # what is that small may have become 0
    else:
        unit, middle, flushed = np.ones(()), np.zeros(()), np.zeros((), bool)
    same = (got == rounded) | flushed | ~np.isfinite(exact)
    return np.where(same, 0.0, np.fmax(distance - unit, middle))


def _has_no_infinity(data_type: DataType) -> bool:
    return data_type.is_float and bool(np.isnan(scalar(math.inf, data_type))[0])


def _says_nothing(low: Array, high: Array, data_type: DataType) -> Array:
    """Return where every value of the type is allowed."""
    if data_type.is_float:
        return np.isinf(low) & np.isinf(high) & (low < high)
    least, most = int_range(data_type)
    return np.asarray((low == least) & (high == most))
