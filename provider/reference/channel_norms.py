# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Statistics of channels: their meaning, their errors, and operands that suit them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .analysis import growth
from .base import Context, Domain
from .convert import Array
from .running import Running

__all__ = [
    "Statistics",
    "axes",
    "domain",
    "normalised",
    "statistics",
]

Statistics = tuple[Running, Running, Running]


def axes(x: Array) -> tuple[int, ...]:
    """Return all dims but the channels."""
    return (0, *range(2, x.ndim))


def one(array: Array) -> Array:
    """Return a scalar operand with dims that broadcast to any rank."""
    return array.reshape(1)


def statistics(x: Running) -> Statistics:
    """Return mean, biased variance and x - mean, each with its error.

    A wrong mean makes each deviation wrong by as much, but the variance only by its square: the
    deviations from the right mean add up to 0.
    """
    u, over = x.ctx.roundoff, axes(x.value)
    n = int(np.prod([x.value.shape[a] for a in over]))
    total = x.total(over)
    mean = total.scaled(1 / n)
    centred = x - mean
    from_x = x.error.mean(over, keepdims=True)
    own = mean.error - from_x
    each = x.error + from_x + u * np.abs(centred.value)
    size = np.abs(centred.value)
    variance = np.square(size).mean(over, keepdims=True)
    error = (2 * size * each + each**2).mean(over, keepdims=True)
    error += 2 * own * each.mean(over, keepdims=True) + own**2
    error += u * (growth(n) + 3) * (variance + error) + x.ctx.tiny
    return mean, Running(variance, error, x.ctx), centred


def normalised(centred: Running, inverse: Running, scale: Running, bias: Running) -> Running:
    """Return scale · centred · inverse + bias, multiplied in any order."""
    y = centred * (inverse * scale) + bias
    # One more rounding of the product covers the other orders.
    more = x_units(centred, inverse, scale)
    return Running(y.value, y.error + more, y.ctx)


def x_units(centred: Running, inverse: Running, scale: Running) -> Array:
    """Return one unit of roundoff of the product."""
    product = np.abs(centred.value * inverse.value * scale.value)
    return centred.ctx.roundoff * product


def domain(op: Any, port: str, ctx: Context) -> Domain:
    """Return operands near 1; deviations and what is added to variances are positive."""
    if port in ("inv_variance", "variance", "prev_running_variance"):
        return Domain(low=0.25, high=2.0, ints=(1, 4), strict=True)
    if port == "epsilon":
        return Domain(low=1e-3, high=0.1, ints=(1, 2), strict=True)
    if port == "momentum":
        return Domain(low=0.05, high=0.95, ints=(0, 1), strict=True)
    return Domain(ints=(-100, 100))
