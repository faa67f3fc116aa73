# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checking results of problems of every size: inputs of four kinds, and what may come of them.

::

    judge = judged(graph, data="whole")
    plan.execute({**judge.inputs, **outputs})
    row = judge.check(outputs).row  # the key `check` of a sweep's row

Small problems are held against the float64 reference with exact bounds (``float64``).  Above
`LIMIT` every element is still held against float64 values, but most bounds are envelopes, and a
sample of features (the first and last, edges of tiles, random ones) has exact bounds
(``blocked``; `reference.thrift`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import ml_dtypes
import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.frozen import FrozenGraph
from ...jit.target import Target
from ...jit.work import graph_work
from ..reference import Expected
from ..reference.base import Domain
from ..reference.convert import Array, numpy_dtype, to_dtype
from ..reference.inputs import domain_of, in_memory
from ..verify import Report, compare, expect, random_inputs

__all__ = ["LIMIT", "Checked", "Data", "Judge", "inputs_of", "judged"]

LIMIT = 250e6
"""Operations of products and attention, above which most bounds are envelopes."""

Data = Literal["normal", "whole", "special", "denormal"]
_SEED = 7
_SPECIAL = (np.nan, np.inf, -np.inf)
_DENORMAL_SHARE = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """Whether results are right, with a row for a sweep and the report of every output."""

    ok: bool
    row: dict[str, Any]
    report: Report


@dataclass(frozen=True, kw_only=True, slots=True)
class Judge:
    """What a graph gets and may return.

    Attributes
    ----------
    frozen : FrozenGraph
    data : str
        Kind of the inputs.
    inputs : mapping of uid to ndarray
    expected : Expected
    method : str
        ``float64`` or ``blocked``.
    seconds : float
        That inputs and expected values took.
    """

    frozen: FrozenGraph
    data: Data
    inputs: Mapping[int, Array]
    expected: Expected
    method: Literal["float64", "blocked"]
    seconds: float

    def check(self, outputs: Mapping[int, Array]) -> Checked:
        """Hold results against what is expected; raises `BindError` as of `verify.compare`."""
        start = time.perf_counter()
        report = compare(self.frozen, outputs, self.expected)
        seconds = self.seconds + time.perf_counter() - start
        row = {
            "method": self.method,
            "data": self.data,
            "elements": sum(one.elements for one in report.outputs),
            "bad": sum(one.wrong for one in report.outputs),
            "unbounded": sum(one.unbounded for one in report.outputs),
            "max_abs": _finite(report.max_abs_error),
            "max_rel": _finite(report.max_rel_error),
            "of_bound": _finite(max((one.of_bound for one in report.outputs), default=0.0)),
            "seconds": round(seconds, 4),
        }
        return Checked(ok=report.ok, row=row, report=report)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def judged(
    frozen: FrozenGraph,
    *,
    data: Data = "normal",
    seed: int = _SEED,
    limit: float = LIMIT,
    target: Target | None = None,
) -> Judge:
    """Return inputs for a graph and what is expected of them.

    Parameters
    ----------
    frozen : FrozenGraph
    data : str
        ``normal``; ``whole`` numbers, whose sums are exact; ``special``: NaN and infinities in
        places; ``denormal``: a tenth of the elements are below the type's smallest normal number.
    seed : int
    limit : float
        Operations above which bounds are envelopes.
    target : Target, optional
        As of `verify.expect`.

    Raises
    ------
    NotSupportedError
        For an op or mode without a reference.
    """
    start = time.perf_counter()
    inputs = inputs_of(frozen, data, seed)
    thrifty = graph_work(frozen).matrix_flops > limit
    return Judge(
        frozen=frozen,
        data=data,
        inputs=inputs,
        expected=expect(frozen, inputs, target, thrifty=thrifty),
        method="blocked" if thrifty else "float64",
        seconds=time.perf_counter() - start,
    )


def inputs_of(frozen: FrozenGraph, data: Data, seed: int = _SEED) -> dict[int, Array]:
    """Return inputs of a kind, by uid; parameters as of `judged`.

    Operands whose values are bound to a range (indices, lengths, divisors) keep normal values.
    """
    found = random_inputs(frozen, seed)
    change = _CHANGES.get(data)
    if change is None:
        return found
    for number, uid in enumerate(frozen.inputs):
        spec, domain = frozen.spec(uid), domain_of(frozen, uid)
        kind = spec.data_type
        if not kind.is_float or domain.strict or kind is DataType.FP8_E8M0:
            continue
        rng = np.random.default_rng([seed, number, get_args(Data).index(data)])
        change(rng, in_memory(found[uid], spec), kind, domain)
    return found


def _whole(rng: np.random.Generator, memory: Array, kind: DataType, domain: Domain) -> None:
    low, high = (0 if domain.low >= 0 else -2), (0 if domain.high <= 0 else 2)
    values = rng.integers(low, high, memory.shape, endpoint=True).astype(np.float64)
    if domain.away:
        values[values == 0] = high or low
    memory[...] = to_dtype(values, kind)


def _special(rng: np.random.Generator, memory: Array, kind: DataType, domain: Domain) -> None:
    if kind.bits < 16:  # not all narrow types have such values
        return
    for value in _SPECIAL:
        at = tuple(int(rng.integers(0, extent)) for extent in memory.shape)
        memory[at] = to_dtype(np.array(value), kind)


def _denormal(rng: np.random.Generator, memory: Array, kind: DataType, domain: Domain) -> None:
    if domain.away or kind.bits < 16:
        return
    some = rng.random(memory.shape) < _DENORMAL_SHARE
    normal = float(ml_dtypes.finfo(numpy_dtype(kind)).smallest_normal)
    values = rng.uniform(-normal, normal, memory.shape)
    values = np.abs(values) if domain.low >= 0 else values
    memory[some] = to_dtype(values, kind)[some]


_CHANGES: dict[str, Callable[[np.random.Generator, Array, DataType, Domain], None]] = {
    "whole": _whole,
    "special": _special,
    "denormal": _denormal,
}
