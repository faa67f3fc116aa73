# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the references of layernorm, rmsnorm and their gradients share: their error analysis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...graph_api.ops.row_norms import aligned, normalised_dims
from .analysis import growth
from .base import Arrays, Context, Domain
from .convert import Array

__all__ = [
    "Row",
    "affine",
    "domain",
    "gradient_bounds",
    "gradient_sums",
    "inverse",
    "product",
    "widened",
]


@dataclass(frozen=True, slots=True)
class Row:
    """The normalised axes of a node, and its arithmetic.

    Attributes
    ----------
    axes : tuple of int
    n : int
        Elements of a row.
    unit, tiny : float
        The compute type's relative error of a rounding, and the absolute one near zero.
    most : float
        The largest number of the compute type, beyond which a sum is anything.
    """

    axes: tuple[int, ...]
    n: int
    unit: float
    tiny: float
    most: float

    @classmethod
    def of(cls, ctx: Context, count: int = 0) -> Row:
        """Return what a node normalises over."""
        x = ctx.inputs["x"].dims
        axes = normalised_dims(x, ctx.inputs["scale"].dims, count)
        n = int(np.prod([x[a] for a in axes], dtype=np.int64))
        most = ctx.compute.largest or np.inf
        return cls(axes, n, ctx.roundoff, ctx.tiny, most)

    def mean(self, x: Array) -> Array:
        """Return the mean over the axes, which stay."""
        return x.mean(axis=self.axes, keepdims=True)

    def summed(self, magnitude: Array) -> Array:
        """Return the error of the mean of terms: products, their sum, a rounded 1/n, a product."""
        mean = self.mean(magnitude)
        error = (growth(self.n) + 4) * self.unit * mean + self.tiny
        return np.where(mean * self.n > self.most, np.inf, error)


def widened(inputs: Arrays, port: str, ctx: Context) -> Array:
    """Return an operand with leading ones up to x's rank."""
    a = inputs[port]
    return a.reshape(aligned(a.shape, len(ctx.inputs["x"].dims))) if a.ndim else a


def product(a: Array, ea: Array, b: Array, eb: Array) -> Array:
    """Return the error of a product whose factors are off."""
    return np.abs(a) * eb + np.abs(b) * ea + ea * eb


def inverse(square: Array, error: Array, epsilon: Array, off: Array, row: Row) -> Array:
    """Return the error of 1 / √(square + epsilon), square being off and not negative."""
    total = square + epsilon
    rounded = off + 2 * row.unit * total
    # The mean of squares is not negative however it is computed: epsilon stays.
    least = np.maximum(square - error, 0.0) + epsilon - rounded
    exact = 1 / np.sqrt(total)
    with np.errstate(all="ignore"):
        most = np.where(least > 0, 1 / np.sqrt(np.maximum(least, 0.0)), np.inf)
    # Where epsilon holds it up, a larger square takes more off than a smaller one adds.
    below = exact - 1 / np.sqrt(total + error + rounded)
    # The root itself is good to 4 units (hardware's reciprocal root to one).
    return np.maximum(most - exact, below) + 4 * row.unit * most


def affine(h: Array, eh: Array, inputs: Arrays, errors: Arrays, ctx: Context, row: Row) -> Array:
    """Return the error of h · scale (+ bias)."""
    s, es = widened(inputs, "scale", ctx), widened(errors, "scale", ctx)
    error = product(h, eh, s, es)
    error = error + row.unit * (np.abs(h * s) + error) + row.tiny
    if "bias" not in inputs:
        return error
    b = widened(inputs, "bias", ctx)
    error = error + widened(errors, "bias", ctx)
    return error + row.unit * (np.abs(h * s + b) + error)


def gradient_bounds(
    inputs: Arrays,
    errors: Arrays,
    outputs: Arrays,
    h: tuple[Array, Array],
    inv: tuple[Array, Array],
    ctx: Context,
    row: Row,
    *,
    centred: bool,
) -> Arrays:
    """Bound dx, dscale and dbias; ``h`` and ``inv`` are x̂ and 1/σ, with their errors.

    Each step of dx = inv · (g - avg(g) - x̂ · avg(g · x̂)) is taken by itself.
    """
    (x, ex), (i, ei), u = h, inv, row.unit
    dy, edy = inputs["dy"], np.broadcast_to(errors["dy"], inputs["dy"].shape)
    s, es = widened(inputs, "scale", ctx), widened(errors, "scale", ctx)
    g = dy * s
    eg = product(dy, edy, s, es) + u * np.abs(g) + row.tiny
    p = row.mean(g * x)
    ep = row.mean(product(g, eg, x, ex)) + row.summed((np.abs(g) + eg) * (np.abs(x) + ex))
    q, eq = np.zeros(()), np.zeros(())
    if centred:
        q, eq = row.mean(g), row.mean(eg) + row.summed(np.abs(g) + eg)
    inner = g - q - x * p
    ein = eg + eq + product(x, ex, p, ep)
    ein = ein + 3 * u * (np.abs(g) + np.abs(q) + np.abs(x * p) + ein) + row.tiny
    dx = product(inner, ein, i, ei)
    found = {"dx": dx + 2 * u * (np.abs(inner * i) + dx) + row.tiny}
    rows, dims = _columns(ctx)
    count = dy.size // int(np.prod(dims, dtype=np.int64))

    def sums(terms: Array, off: Array) -> Array:
        error = off.sum(axis=rows) + growth(count) * u * (np.abs(terms) + off).sum(axis=rows)
        return (error + row.tiny).reshape(dims)

    found["dscale"] = sums(dy * x, product(dy, edy, x, ex) + u * np.abs(dy * x))
    found["dbias"] = sums(dy, edy)
    return {port: found[port] for port in outputs}


def _columns(ctx: Context) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes over which dscale and dbias are summed, and their dims."""
    dims = ctx.inputs["scale"].dims
    wide = aligned(dims, len(ctx.inputs["x"].dims))
    return tuple(k for k, n in enumerate(wide) if n == 1), dims


def gradient_sums(dy: Array, h: Array, ctx: Context) -> Arrays:
    """Return dscale and, where it is an output, dbias."""
    rows, dims = _columns(ctx)
    found = {"dscale": (dy * h).sum(axis=rows).reshape(dims)}
    if "dbias" in ctx.outputs:
        found["dbias"] = dy.sum(axis=rows).reshape(dims)
    return found


def domain(op: Any, port: str, ctx: Context) -> Domain:
    """Return the values that suit an operand."""
    if port == "epsilon":
        return Domain(low=1e-5, high=1e-2, strict=True)
    if port in ("inv_variance", "inv_rms"):
        return Domain(low=0.5, high=1.5, away=0.5, strict=True)
    return Domain()
