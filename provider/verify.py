"""Checking an engine against the reference: inputs, poisoned outputs, and the comparison.

::

    inputs = random_inputs(frozen, seed=1)
    outputs = poisoned_outputs(frozen)
    plan.execute({**inputs, **outputs})
    report = compare(frozen, outputs, expect(frozen, inputs))

How much an element may be off is not a number to tune.  ``reference.expect`` follows rounding
errors through the graph, node by node, and says between which two values of the output's type
each element of a correct result lies:

- a result that one correctly rounded operation gives must be its rounding or the neighbour at
  the same distance; what is exact (maximum, conversions, sums of small whole numbers) is exact;
- a sum of n products may be off by ``min(n + 1, 8·√n)`` units of roundoff of the compute type,
  relative to Σ|x·w| (``reference.analysis.growth`` says why);
- transcendental functions have a few units each (``reference.pointwise.MODES``);
- intermediate floats may or may not have been rounded to their tensor's type;
- the final conversion to the output's type is one rounding, which the reference does as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ..graph_api.dtypes import DataType
from ..graph_api.errors import BindError, Problem
from ..graph_api.frozen import FrozenGraph
from ..graph_api.tensor import TensorSpec
from .reference import Domain, Expected, context, execute, expect, numpy_dtype, reference, to_dtype
from .reference.convert import Array, int_range, widen

__all__ = [
    "Expected",
    "OutputReport",
    "Report",
    "compare",
    "expect",
    "poisoned_outputs",
    "random_inputs",
]

RULES: dict[str, str] = {
    "VERIFY-01": "there is a result for every output",
    "VERIFY-02": "a result has the dims and data type of its output",
}

ALIGNMENT = 64
"""Bytes; what IREE needs to use host memory without a copy."""
_GUARD = 64
"""Elements of poison behind each buffer, so that reading beyond the end shows."""

# What no kernel writes by chance: quiet NaNs with a payload of their own, and odd integers.
_POISON = {
    DataType.HALF: 0x7E5A,
    DataType.BFLOAT16: 0x7FDA,
    DataType.FLOAT: 0x7FDAA55A,
    DataType.DOUBLE: 0x7FFDA55AA55AA55A,
    DataType.FP8_E8M0: 0xFF,
    DataType.FP8_E4M3_FNUZ: 0x80,
    DataType.FP8_E5M2_FNUZ: 0x80,
    DataType.FP8_E4M3: 0x7F,
    DataType.FP8_E5M2: 0x7F,
    DataType.BOOLEAN: 0xA5,
    DataType.INT4: 0x05,
    DataType.INT8: 0xA5,
    DataType.UINT8: 0xA5,
    DataType.INT32: 0xA5A5A5A5,
    DataType.INT64: 0xA5A5A5A5A5A5A5A5,
}


# ---------------------------------------------------------------------------- buffers


def _buffer(spec: TensorSpec) -> Array:
    """Return memory for a tensor, full of poison, seen with its dims and strides."""
    dtype = numpy_dtype(spec.data_type)
    elements = spec.layout.span + _GUARD
    raw = np.empty(elements * dtype.itemsize + ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    raw = raw[start : start + elements * dtype.itemsize]
    pattern = _POISON.get(spec.data_type, 0).to_bytes(dtype.itemsize, "little")
    raw.reshape(-1, dtype.itemsize)[:] = np.frombuffer(pattern, dtype=np.uint8)
    strides = tuple(s * dtype.itemsize for s in spec.strides)
    return np.ndarray(spec.dims, dtype=dtype, buffer=raw.data, strides=strides)


def poisoned_outputs(frozen: FrozenGraph) -> dict[int, Array]:
    """Return a buffer for every output, by uid, in which elements never written will show.

    Each has the output's dims, strides and data type, and is aligned to 64 bytes.
    """
    return {uid: _buffer(frozen.spec(uid)) for uid in frozen.outputs}


def _untouched(array: Array, data_type: DataType) -> Array:
    """Return which elements still hold the poison."""
    size = array.dtype.itemsize
    if data_type not in _POISON:
        return np.zeros(array.shape, dtype=bool)
    bits = np.ascontiguousarray(array).view(f"u{size}")
    return np.asarray(bits == _POISON[data_type])


# ---------------------------------------------------------------------------- inputs


def random_inputs(frozen: FrozenGraph, seed: int = 0) -> dict[int, Array]:
    """Return random values for every input, for which the graph is well conditioned.

    Parameters
    ----------
    frozen : FrozenGraph
    seed : int
        Graphs that are equal get equal values for equal seeds; inputs of one graph differ.

    Returns
    -------
    dict of int to ndarray
        By uid: logical dims, the input's data type and its real strides.  Gaps of padded tensors
        and the memory behind each tensor hold NaN (or odd integers); the base is aligned to
        64 bytes.  Every consumer of an input is defined there and not catastrophically
        sensitive (divisors are away from 0, comparisons have ties, products stay near 1).
    """
    domains = {uid: _domain(frozen, uid) for uid in frozen.inputs}
    attempt = _draw(frozen, domains, seed)
    if not _may_leave_its_domain(frozen):
        return attempt
    # Some node takes the logarithm (or the like) of a computed value.  Positive and smaller
    # inputs usually bring it into its domain; the first inputs that do so are taken.
    for change in (_same, _positive, _small, _small_positive):
        attempt = _draw(frozen, {u: change(d) for u, d in domains.items()}, seed)
        if _is_finite(frozen, attempt):
            return attempt
    return _draw(frozen, domains, seed)


def _same(domain: Domain) -> Domain:
    return domain


def _positive(domain: Domain) -> Domain:
    return replace(domain, low=max(domain.low, domain.high / 8))


def _small(domain: Domain) -> Domain:
    if domain.away:
        return domain
    return replace(domain, low=domain.low / 8, high=domain.high / 8, grid=domain.grid / 8)


def _small_positive(domain: Domain) -> Domain:
    return _positive(_small(domain))


_WITHOUT_LIMITS = Domain(ints=(-100, 100))


def _domain(frozen: FrozenGraph, uid: int) -> Domain:
    """Return the values that suit every consumer of an input."""
    found = Domain(low=-math.inf, high=math.inf)
    for node in frozen.nodes:
        ref = reference(node.op.NAME)
        for port, source in node.inputs.items():
            if source == uid and ref is not None and not ref.unsupported(node.op):
                found = found.meet(ref.domain(node.op, port, context(frozen, node)))
    return found.meet(_WITHOUT_LIMITS) if math.isinf(found.high) else found


def _may_leave_its_domain(frozen: FrozenGraph) -> bool:
    """Whether a computed value feeds an operand that does not take every value."""
    for node in frozen.nodes:
        ref = reference(node.op.NAME)
        if ref is None or ref.unsupported(node.op):
            return False
        for port, uid in node.inputs.items():
            limits = ref.domain(node.op, port, context(frozen, node))
            if uid not in frozen.inputs and limits.strict:
                return True
    return False


def _is_finite(frozen: FrozenGraph, inputs: Mapping[int, Array]) -> bool:
    # Outputs in range of their types: an infinity or NaN inside would show in them.
    results = execute(frozen, inputs)
    return all(
        np.isfinite(widen(to_dtype(results[u], t), t)).all()
        for u in frozen.outputs
        if (t := frozen.spec(u).data_type).is_float
    )


def _draw(frozen: FrozenGraph, domains: Mapping[int, Domain], seed: int) -> dict[int, Array]:
    arrays = {}
    for place, uid in enumerate(frozen.inputs):
        spec, domain = frozen.spec(uid), domains[uid]
        rng = np.random.default_rng([seed, place])
        array = _buffer(spec)
        # A broadcast tensor has one element in memory for many logical ones.
        shared = tuple(slice(1) if s == 0 else slice(None) for s in spec.strides)
        memory = array[shared]
        memory[...] = _values(rng, memory.shape, spec.data_type, domain)
        arrays[uid] = array
    return arrays


def _values(
    rng: np.random.Generator, shape: tuple[int, ...], data_type: DataType, domain: Domain
) -> Array:
    if data_type.is_float:
        values = _reals(rng, shape, domain)
    else:
        values = _integers(rng, shape, data_type, domain)
    if domain.zeros:
        values[rng.random(shape) < domain.zeros] = 0
    return to_dtype(values, data_type)


def _reals(rng: np.random.Generator, shape: tuple[int, ...], domain: Domain) -> Array:
    if domain.grid:
        steps = (math.ceil(domain.low / domain.grid), math.floor(domain.high / domain.grid))
        values = rng.integers(*steps, shape, endpoint=True) * domain.grid
    else:
        values = rng.uniform(domain.low, domain.high, shape)
    if domain.away:
        # The sign stays, the magnitude moves into [away, top].
        sign = np.where(values < 0, -1.0, 1.0)
        top = np.where(values < 0, -domain.low, domain.high)
        values = sign * (domain.away + np.abs(values) * (1 - domain.away / top))
    return values


def _integers(
    rng: np.random.Generator, shape: tuple[int, ...], data_type: DataType, domain: Domain
) -> Array:
    low, high = int_range(data_type)
    low, high = max(low, domain.ints[0]), min(high, domain.ints[1])
    values = rng.integers(low, high, shape, endpoint=True)
    if domain.away:
        values[values == 0] = min(1, high)
    return values


# ---------------------------------------------------------------------------- comparison


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputReport:
    """How one output compares.

    Attributes
    ----------
    uid : int
    name : str
        The output's name or ``uid n``.
    ok : bool
        Whether every element lies where a correct result may lie.
    elements, wrong : int
        Number of elements, and of those that do not.
    max_abs_error : float
        Largest \\|got - expected\\|, infinite where only one of them is finite.
    max_rel_error : float
        The same relative to \\|expected\\|, or to the root mean square of the whole output where
        that is larger: a sum that happens to cancel is no large error.
    worst : tuple of int
        Index of the element that is furthest out, in units of what is allowed.
    got, expected, allowed : float
        That element, and the error allowed there.
    nan_mismatches : int
        Elements that are NaN (or infinite) in one of the two only.
    unwritten : int
        Wrong elements that still hold the poison of ``poisoned_outputs``.
    unbounded : int
        Elements about which the reference can say nothing, because the graph is ill conditioned
        there; they count as right unless NaN.
    """

    uid: int
    name: str
    ok: bool
    elements: int
    wrong: int
    max_abs_error: float
    max_rel_error: float
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
    """How all outputs compare; ``str()`` is one line for each."""

    outputs: tuple[OutputReport, ...]

    @property
    def ok(self) -> bool:
        """Whether every output is right."""
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


def compare(frozen: FrozenGraph, outputs: Mapping[int, Array], expected: Expected) -> Report:
    """Compare an engine's outputs with what the reference allows.

    Parameters
    ----------
    frozen : FrozenGraph
    outputs : mapping of uid to ndarray
        Every output of the graph, in its data type, with its logical dims.
    expected : Expected
        What ``expect`` returned for the same inputs.

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
    spec: TensorSpec, got: Array, value: Array, low: Array, high: Array
) -> OutputReport:
    data_type = spec.data_type
    untouched = _untouched(got, data_type)
    # A byte other than 0 and 1 is no truth value; NumPy would hide it.
    got = widen(got.view(np.uint8) if data_type.is_bool else got, data_type)
    with np.errstate(all="ignore"):
        rounded = widen(to_dtype(value, data_type), data_type)
        exact = np.where(np.isfinite(rounded), value, rounded).astype(np.float64)
        both_nan = np.isnan(exact) & np.isnan(got)
        right = ((low <= got) & (got <= high)) | both_nan
        odd = np.isfinite(exact) != np.isfinite(got)
        error = np.where(right & ~np.isfinite(exact), 0.0, np.abs(got - exact))
        error = np.where(np.isnan(error), np.inf, error)
        allowed = np.where(np.isfinite(exact), np.fmax(high - exact, exact - low), 0.0)
        excess = np.where(error > 0, error / allowed, 0.0)
        finite = exact[np.isfinite(exact)]
        scale = math.sqrt(float(np.square(finite).mean())) if finite.size else 0.0
        relative = np.where(error > 0, error / np.maximum(np.abs(exact), scale), 0.0)
        relative = np.where(np.isnan(relative), np.inf, relative)
    # Wrong elements before right ones, and the furthest out among them.
    worst = np.unravel_index(np.argmax(np.where(right, np.fmin(excess, 1), 1 + excess)), got.shape)
    wrong = ~right
    return OutputReport(
        uid=spec.uid,
        name=spec.name or f"uid {spec.uid}",
        ok=not wrong.any(),
        elements=got.size,
        wrong=int(wrong.sum()),
        max_abs_error=float(error.max()),
        max_rel_error=float(relative.max()),
        worst=tuple(map(int, worst)),
        got=float(got[worst]),
        expected=float(exact[worst]),
        allowed=float(allowed[worst]),
        nan_mismatches=int((odd & wrong).sum()),
        unwritten=int((wrong & untouched).sum()),
        unbounded=int(_says_nothing(low, high, data_type).sum()),
    )


def _says_nothing(low: Array, high: Array, data_type: DataType) -> Array:
    """Return where every value of the type would pass."""
    if data_type.is_float:
        return np.isinf(low) & np.isinf(high) & (low < high)
    least, most = int_range(data_type)
    return np.asarray((low == least) & (high == most))
