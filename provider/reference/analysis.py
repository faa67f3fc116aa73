# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Error analysis that the ops share: how far a result may be off.

Errors are carried as elementwise bounds next to the values: each op says how far its result may
be off when its inputs are off by so much and its own arithmetic is that of the compute type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from ...graph_api.dtypes import DataType
from .base import Arrays, Context, Domain, Reference
from .convert import Array, numpy_dtype, smallest, to_dtype, unit_roundoff, widen
from .thrift import Dims, Thrift, sampled_features

__all__ = [
    "accumulated",
    "bilinear",
    "bilinear_bound",
    "exact_matmul",
    "flushed_factor",
    "growth",
    "rounding",
    "scaled_domain",
    "started_from",
    "sum_range",
]


def rounding(array: Array, error: Array, data_type: DataType) -> Array:
    """Return the error that one rounding to a float type adds.

    An exact value is rounded in one known way, so that its error is known too (and is 0 when the
    type holds the value); otherwise it is at most half a unit in the last place.  It is infinite
    where the type has no finite number that is near.
    """
    size = np.abs(array) + error
    most = unit_roundoff(data_type) * size + smallest(data_type)
    if data_type.bits < 8:  # what is too large becomes the largest number
        most = np.maximum(most, size - data_type.largest)
    else:
        most = np.where(np.isfinite(to_dtype(size, data_type)), most, np.inf)
    exact = np.abs(widen(to_dtype(array, data_type), data_type) - array)
    known = (error == 0) & ((array == 0) | (np.abs(array) > smallest(data_type)))
    return np.where(known, exact, most)


def growth(n: int) -> float:
    """Return how many units of roundoff a sum of ``n`` products may be off, at most.

    The error of a sum in unknown order is at most ``n`` units of Σ|x·w|; with rounding errors of
    random sign it stays below ``λ·√n`` with probability 1 - 2·exp(-λ²/2) (Higham and Mary, 2019).
    λ = 8 leaves one failure in 10^13.
    """
    return min(n + 1.0, 8.0 * n**0.5)


def accumulated(magnitude: Array, n: int, ctx: Context, *operands: Array) -> Array:
    """Return the error of sums of ``n`` products whose absolute values add up to ``magnitude``.

    Sums of integers up to `_most_exact` are exact in every order.
    """
    error = ctx.roundoff * growth(n) * magnitude + np.where(magnitude > 0, ctx.tiny, 0.0)
    if all(np.array_equal(np.rint(a), a) for a in operands):
        return np.where(magnitude <= _most_exact(ctx), 0.0, error)
    return error


def _most_exact(ctx: Context) -> float:
    """Return up to where the compute type holds all integers."""
    return 2.0 ** (ctx.compute.value.mantissa + 1)


def flushed_factor(array: Array, error: Array, data_type: DataType, ctx: Context) -> Array:
    """Return how far factors of products are off beyond ``error`` where they may be read as 0.

    Types of 16 bits and less are multiplied as halves or bfloat16, whose subnormal numbers some
    hardware takes for 0 (`Context.flushes_products`); wider types are not concerned.
    """
    kind = data_type if ctx.compute is DataType.FLOAT else ctx.compute
    kind = DataType.HALF if kind.is_float and kind.bits <= 8 else kind
    if not ctx.flushes_products or kind not in (DataType.HALF, DataType.BFLOAT16):
        return np.zeros(array.shape)
    least = float(ml_dtypes.finfo(numpy_dtype(kind)).smallest_normal)
    size = np.abs(array)
    return np.where((array != 0) & (size - error < least), np.minimum(size + error, least), 0.0)


def started_from(value: Array, error: Array, sums: Array, n: int, ctx: Context) -> Array:
    """Return what sums of ``n`` products may be off further where they start from a value, not 0.

    MLIR makes ``vector.contract`` and the addition behind it one operation whose accumulator is
    the other operand; each partial sum then has that size too.  Sums that are exact (``sums``,
    their error, is 0: whole numbers) stay so from a whole number.
    """
    size = np.abs(value) + error
    whole = (np.rint(size) == size) & (size <= _most_exact(ctx))
    return np.where(whole & (sums == 0) & (error == 0), 0.0, growth(n) * ctx.roundoff * size)


def bilinear_bound(
    multiply: Callable[[Array, Array], Array],
    a: tuple[Array, Array],
    b: tuple[Array, Array],
    n: int,
    ctx: Context,
) -> Array:
    """Bound a sum of ``n`` products, as in a convolution or a matmul.

    ``a`` and ``b`` are pairs of value and error; ``multiply`` computes the op in float64.
    """
    (x, ex), (w, ew) = a, b
    ax, aw = (np.abs(operand).astype(np.float64, copy=False) for operand in (x, w))
    ex, ew = np.broadcast_to(ex, x.shape), np.broadcast_to(ew, w.shape)
    bound = np.zeros(()) if not ctx.roundoff else accumulated(multiply(ax, aw), n, ctx, x, w)
    if ctx.flushes_products and ctx.compute.is_float:  # so may be each partial sum
        bound = bound + n * ctx.tiny
    if ex.any():
        bound = bound + multiply(ex, aw + ew)
    if ew.any():
        bound = bound + multiply(ax, ew)
    return bound


def exact_matmul(a: Array, b: Array) -> Array:
    """Return ``a @ b``; int64 operands exactly (modulo 2^64), through float64 where it is exact."""
    if a.dtype.kind != "i":
        return np.matmul(a, b)
    # BLAS has no integers, but below 2^53 float64 sums of integers are exact.
    largest = [max(abs(int(x.min())), abs(int(x.max()))) for x in (a, b)]
    if largest[0] * largest[1] * a.shape[-1] < 2**53:
        return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
    return np.matmul(a, b)


def sum_range(n: int, ctx: Context, port: str, *, factors: int) -> tuple[int, int]:
    """Return the range of an integer operand of a sum of ``n`` terms (of one or two factors).

    No sum overflows the compute type, and few leave the range of a narrow result (so that its
    saturation is exercised, but most results differ).
    """
    compute = ctx.compute
    bits = compute.value.mantissa + 1 if compute.is_float else compute.bits - 1
    unsigned = ctx.inputs[port].data_type.value.kind == "uint"
    term = (2.0**bits - 1) / n
    for spec in ctx.outputs.values():
        if not spec.data_type.is_float:
            limit = 2.0 ** (spec.data_type.bits - 1)
            # Terms of either sign add up to about √n of them; others to half of the largest each.
            term = min(term, 2**factors * limit / n if unsigned else 3 * limit / n**0.5)
    top = int(min(max(term ** (1 / factors), 1), 127))
    return (-128 if top == 127 else -top), top


def scaled_domain(n: int, port: str, whole: str, ctx: Context) -> Domain:
    """Return the values of an operand: one has the range ±1, the other is scaled by the depth.

    Results are then about as large as the operand ``whole``, for every number n of products in an
    element's sum.
    """
    top = 1.0 if port == whole else min(1.0, 3.0 / n**0.5)
    return Domain(low=-top, high=top, ints=sum_range(n, ctx, port, factors=2))


def bilinear(
    compute: Callable[[Any, Array, Array, Dims], Array],
    operands: tuple[str, str],
    result: str,
    terms: Callable[[Any, Context], int],
    thrift: Thrift,
) -> Reference:
    """Return the reference of an op whose result is linear in each of two operands.

    Parameters
    ----------
    compute : callable
        From (op, operand, operand, dims of the result) to the result in the operands' type.
    operands : tuple of str
        Their ports; results are about as large as the first one.
    result : str
        Port of the result.
    terms : callable
        The number of products in an element's sum, at most, from (op, context).
    thrift : Thrift
        How large problems are bounded.
    """
    first, second = operands

    def evaluate(op: Any, inputs: Arrays, ctx: Context) -> Arrays:
        dims = ctx.outputs[result].dims
        return {result: ctx.finish(compute(op, inputs[first], inputs[second], dims))}

    def bound(op: Any, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
        a, b = ((inputs[port], errors[port]) for port in operands)
        dims = ctx.outputs[result].dims
        found = bilinear_bound(lambda x, y: compute(op, x, y, dims), a, b, terms(op, ctx), ctx)
        return {result: found}

    def thrifty(op: Any, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
        dims, n = ctx.outputs[result].dims, terms(op, ctx)
        a, b = ((inputs[port], errors[port]) for port in operands)
        found = bilinear_bound(lambda x, y: thrift.envelope(op, x, y, dims), a, b, n, ctx)
        found = np.array(np.broadcast_to(found, dims))
        (x, ex), (w, ew) = a, b
        some = sampled_features(thrift.features(op, x.shape, w.shape, dims))
        part = thrift.restrict(op, x, w, dims, some)
        ex, ew = np.broadcast_to(ex, x.shape), np.broadcast_to(ew, w.shape)
        errors_part = thrift.restrict(op, ex, ew, dims, some)
        exact = bilinear_bound(
            lambda x, y: compute(op, x, y, part.dims),
            (part.first, errors_part.first),
            (part.second, errors_part.second),
            n,
            ctx,
        )
        found[part.at] = np.minimum(found[part.at], exact)
        return {result: found}

    def domain(op: Any, port: str, ctx: Context) -> Domain:
        return scaled_domain(terms(op, ctx), port, first, ctx)

    return Reference(
        evaluate=evaluate,
        bound=bound,
        domain=domain,
        thrifty=thrifty,
        multiplied=operands,
        products=terms,
    )
