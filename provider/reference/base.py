# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an op's reference file provides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.errors import Problem
from ...graph_api.tensor import TensorSpec
from .convert import Array, smallest, unit_roundoff, wrap

__all__ = [
    "Arrays",
    "Context",
    "Domain",
    "Reference",
]

Arrays = Mapping[str, Array]


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What surrounds a node: compute type and tensors by port.

    ``flushes_products``: hardware may take subnormal operands of products for 0
    (`Target.flushes_products`).
    """

    compute: DataType
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    flushes_products: bool = False

    @property
    def roundoff(self) -> float:
        """Relative error of one operation; the reference's own float64 error is part of it."""
        u = unit_roundoff(self.compute)
        return u + 2.0**-53 if u else 0.0

    @property
    def tiny(self) -> float:
        """Absolute error of one operation near zero."""
        return smallest(self.compute)

    def finish(self, array: Array) -> Array:
        """Return results as the compute type holds them: integers wrap, floats stay exact."""
        return array if self.compute.is_float else wrap(array.astype(np.int64), self.compute)


@dataclass(frozen=True, kw_only=True, slots=True)
class Domain:
    """Values of an operand for which the op is defined and well conditioned.

    Attributes
    ----------
    low, high : float
        Range of float values.
    away : float
        Smallest magnitude (0: no limit); for integers any value above 0 means "not 0".
    zeros : float
        Fraction of elements that are exactly 0 all the same.
    grid : float
        Step of the values (0: none), so that exact ties occur.
    ints : tuple of int
        Range of integer values.
    strict : bool
        Outside of it the op is undefined, or overflows narrow types.
    """

    low: float = -2.0
    high: float = 2.0
    away: float = 0.0
    zeros: float = 0.0
    grid: float = 0.0
    ints: tuple[int, int] = (-(2**63), 2**63 - 1)
    strict: bool = False

    def meet(self, other: Domain) -> Domain:
        """Return the values that suit both; where nothing does, those of ``other``'s range."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        least, most = max(self.ints[0], other.ints[0]), min(self.ints[1], other.ints[1])
        away = max(self.away, other.away)
        low, high = (
            (low if -low > away else max(low, away)),
            (high if high > away else min(high, -away)),
        )
        if low >= high or max(-low, high) <= away:
            low, high = other.low, other.high
        return Domain(
            low=low,
            high=high,
            away=away,
            # An operand that must not be 0 for one consumer must not be 0 at all.
            zeros=max(self.zeros, other.zeros) * all(d.zeros or not d.away for d in (self, other)),
            grid=max(self.grid, other.grid),
            ints=(least, most) if least <= most else other.ints,
            strict=self.strict or other.strict,
        )


class Evaluate(Protocol):
    """Compute all outputs from inputs in float64 (float compute types) or int64 (others)."""

    def __call__(self, op: Any, inputs: Arrays, ctx: Context) -> Arrays: ...


class Bound(Protocol):
    """Return how far each output may be off, before it is stored, as an elementwise bound.

    ``errors`` holds the same for the inputs, which have been converted to the compute type.
    """

    def __call__(
        self, op: Any, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context
    ) -> Arrays: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """All that is known of an op here; every op file has one, named ``REFERENCE``.

    Attributes
    ----------
    evaluate, bound
        Meaning and error analysis.
    domain : callable
        From (op, port, context) to the values that suit an operand.
    exact_ports : callable
        Ports that are read in their own type instead of the compute type, from (op, context).
    multiplied : tuple of str
        Ports whose elements are factors of products that are summed, as in a matmul.
    unsupported : callable
        Why an op cannot be evaluated; ``""`` when it can.
    declines : callable
        Yields why a node cannot be, from its label and its ports.
    thrifty : callable, optional
        As ``bound``, for large problems: takes no longer than ``evaluate``, and may be larger.
    products : callable
        The number of products whose sum an element is, at most, from (op, context); else 0.
    adds : callable
        Whether the result is the sum of the operands, from the op.
    leaves_type : bool
        Whether a result without a bound may be an infinity of the compute type: NaN may follow.
    """

    evaluate: Evaluate
    bound: Bound
    domain: Callable[[Any, str, Context], Domain]
    exact_ports: Callable[[Any, Context], frozenset[str]] = lambda op, ctx: frozenset()
    multiplied: tuple[str, ...] = ()
    unsupported: Callable[[Any], str] = lambda op: ""
    declines: Callable[[str, Iterable[str]], Iterable[Problem]] = lambda label, ports: ()
    thrifty: Bound | None = None
    products: Callable[[Any, Context], int] = lambda op, ctx: 0
    adds: Callable[[Any], bool] = lambda op: False
    leaves_type: bool = False
