# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Running error analysis: values that carry a bound of their error through arithmetic.

Each operation adds one rounding of the compute type to what its operands' errors become (Higham,
Accuracy and Stability of Numerical Algorithms, 3.3).  It suits ops that are short formulas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .analysis import growth
from .base import Arrays, Context
from .convert import Array

__all__ = ["Running", "running"]


@dataclass(frozen=True, slots=True)
class Running:
    """Values in float64, and how far a correct engine's may be from them."""

    value: Array
    error: Array
    ctx: Context

    def _rounded(self, value: Array, error: Array, units: float = 1) -> Running:
        u, tiny = self.ctx.roundoff, self.ctx.tiny
        error = error + units * u * (np.abs(value) + error) + tiny
        return self._held(value, error, np.abs(value) + error)

    def __add__(self, other: Running) -> Running:
        return self._rounded(self.value + other.value, self.error + other.error)

    def __sub__(self, other: Running) -> Running:
        return self._rounded(self.value - other.value, self.error + other.error)

    def __mul__(self, other: Running) -> Running:
        a, b = np.abs(self.value), np.abs(other.value)
        error = a * other.error + b * self.error + self.error * other.error
        return self._rounded(self.value * other.value, error)

    def scaled(self, factor: float) -> Running:
        """Return the product with a number, which is itself rounded (or divided by)."""
        return self._rounded(self.value * factor, self.error * abs(factor), units=2)

    def total(self, axes: tuple[int, ...]) -> Running:
        """Return the sum over some dims, which stay, added in any order."""
        n = int(np.prod([self.value.shape[a] for a in axes]))
        error = np.broadcast_to(self.error, self.value.shape)
        size = (np.abs(self.value) + error).sum(axes, keepdims=True)
        added = self.ctx.roundoff * growth(n) * size + self.ctx.tiny
        value = self.value.sum(axes, keepdims=True)
        return self._held(value, error.sum(axes, keepdims=True) + added, size + added)

    def _held(self, value: Array, error: Array, size: Array) -> Running:
        """Return values without a bound where ``size`` is infinite in the compute type."""
        return Running(value, np.where(size > self.ctx.compute.largest, np.inf, error), self.ctx)

    def inverse_root(self) -> Running:
        """Return 1 / sqrt of values that are not negative, good to four units.

        Unbounded where the error reaches down to 0.
        """
        value = self.value**-0.5
        above = np.maximum(self.value - self.error, 0.0) ** -0.5 - value
        below = value - (self.value + self.error) ** -0.5
        return self._rounded(value, np.maximum(above, below), units=4)


def running(inputs: Arrays, errors: Arrays, ctx: Context) -> dict[str, Running]:
    """Return the inputs of an op with their errors, by port."""
    return {
        port: Running(x, np.broadcast_to(errors[port], x.shape), ctx) for port, x in inputs.items()
    }
