# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""BILINEAR and NEAREST as one matrix for each dim, from the formulas in real numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...graph_api.enums import ResampleMode as Mode
from ...graph_api.enums import ResizeCoordinates as Coordinates
from ...graph_api.ops.resample_fwd import ResampleOp
from .analysis import growth
from .base import Context
from .convert import Array

__all__ = [
    "adjoint",
    "adjoint_bound",
    "resized",
    "resized_bound",
]

Dims = tuple[int, ...]


def _positions(coordinates: Coordinates | None, n: int, out: int) -> Array:
    """Return the position in the input of each element of the result."""
    o = np.arange(out)
    if coordinates is Coordinates.ALIGN_CORNERS:
        return o * (n - 1) / (out - 1) if out > 1 else np.zeros(out)
    if coordinates is Coordinates.ASYMMETRIC:
        return o * n / out
    return (o + 0.5) * n / out - 0.5


def _taken(op: ResampleOp, n: int, out: int) -> Array:
    """Return which element NEAREST takes."""
    if op.coordinates is Coordinates.HALF_PIXEL:
        return np.floor((np.arange(out) + 0.5) * n / out).astype(np.int64)
    half = 0.0 if op.coordinates is Coordinates.ASYMMETRIC else 0.5
    return np.floor(_positions(op.coordinates, n, out) + half).astype(np.int64)


def _weights(op: ResampleOp, n: int, out: int) -> Array:
    """Return the map of one dim, dims (out, n)."""
    if op.resample_mode is Mode.NEAREST:
        return (_taken(op, n, out)[:, None] == np.arange(n)).astype(np.int64)
    p = np.clip(_positions(op.coordinates, n, out), 0, n - 1)[:, None]
    return np.maximum(0.0, 1.0 - np.abs(p - np.arange(n)))


def _around(op: ResampleOp, n: int, out: int) -> Array:
    """Return which elements are less than two away from each position, dims (out, n)."""
    p = np.clip(_positions(op.coordinates, n, out), 0, n - 1)[:, None]
    return (np.abs(p - np.arange(n)) < 2).astype(np.float64)


def _applied(x: Array, matrices: Sequence[Array]) -> Array:
    """Return a matrix for each spatial dim, times x."""
    for axis, matrix in enumerate(matrices, 2):
        x = np.moveaxis(np.tensordot(matrix, x, axes=(1, axis)), 0, axis)
    return x


def _maps(op: ResampleOp, input_dims: Dims, result: Dims, of: Callable[..., Array]) -> list[Array]:
    return [of(op, n, out) for n, out in zip(input_dims[2:], result[2:], strict=True)]


def _transposed(matrices: Sequence[Array]) -> list[Array]:
    return [matrix.T for matrix in matrices]


def resized(op: ResampleOp, x: Array, result: Dims) -> Array:
    """Return x with the spatial dims of ``result``."""
    if op.resample_mode is Mode.NEAREST:
        for axis in range(2, x.ndim):
            x = x.take(_taken(op, x.shape[axis], result[axis]), axis)
        return x
    return _applied(x, _maps(op, x.shape, result, _weights))


def adjoint(op: ResampleOp, dy: Array, input_dims: Dims) -> Array:
    """Return the transposed map of dy."""
    return _applied(dy, _transposed(_maps(op, input_dims, dy.shape, _weights)))


def _rounded(
    size: Array, maps: list[Array], around: list[Array], values: Array, terms: int, ctx: Context
) -> Array:
    """Return the error of weighted sums whose absolute values add up to ``size``.

    Weights may come from positions that were computed in the compute type: they are off by units
    of the input's extent then, which counts by the values around it.
    """
    u, rank = ctx.roundoff, len(maps)
    error = u * (growth(terms) + 3 * rank) * size + ctx.tiny * (size > 0)
    for i in range(rank):
        mixed = [around[j] if i == j else maps[j] for j in range(rank)]
        extent = max(maps[i].shape)
        error = error + 4 * u * extent * _applied(values, mixed)
    return error


def resized_bound(op: ResampleOp, x: Array, error: Array, result: Dims, ctx: Context) -> Array:
    """Return how far ``resized`` may be off."""
    if op.resample_mode is Mode.NEAREST:
        return resized(op, error, result)
    maps, around = (_maps(op, x.shape, result, of) for of in (_weights, _around))
    size = np.abs(x).astype(np.float64)
    carried = _applied(error, maps)
    return carried + _rounded(_applied(size, maps), maps, around, size, 2 ** len(maps), ctx)


def adjoint_bound(op: ResampleOp, dy: Array, error: Array, input_dims: Dims, ctx: Context) -> Array:
    """Return how far ``adjoint`` may be off."""
    maps = _transposed(_maps(op, input_dims, dy.shape, _weights))
    size = np.abs(dy).astype(np.float64)
    carried, total = _applied(error, maps), _applied(size, maps)
    if not ctx.compute.is_float:
        return carried
    terms = int(np.prod([(matrix > 0).sum(1).max() for matrix in maps]))
    if op.resample_mode is Mode.NEAREST:
        return carried + ctx.roundoff * growth(terms) * total + ctx.tiny * (total > 0)
    around = _transposed(_maps(op, input_dims, dy.shape, _around))
    return carried + _rounded(total, maps, around, size, terms, ctx)
