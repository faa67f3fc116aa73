# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Double-precision functions that IREE's CPU backend does not have, from elementary ops.

IREE approximates ``erf`` and ``tanh`` in float32 and leaves float64 to a math library, which its
embedded code cannot link.  Sources: W. J. Cody, "Rational Chebyshev approximations for the error
function", Math. Comp. 23 (1969), for erf; W. J. Cody and W. Waite, "Software Manual for the
Elementary Functions" (1980), for tanh near 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...graph_api.dtypes import DataType
from ..emit.builder import Builder, T, Value

__all__ = ["erf", "log1p", "needed", "polynomial", "tanh"]

# erf(x) / x for |x| <= 0.46875 as P(x²) / Q(x²); highest power first.
_SMALL_P = (
    *(1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2),
    *(3.77485237685302021e2, 3.20937758913846947e3),
)
_SMALL_Q = (
    *(1.0, 2.36012909523441209e1, 2.44024637934444173e2),
    *(1.28261652607737228e3, 2.84423683343917062e3),
)
# erfc(x) exp(x²) for 0.46875 <= x <= 4 as P(x) / Q(x).
_LARGE_P = (
    *(2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0),
    *(6.61191906371416295e1, 2.98635138197400131e2, 8.81952221241769090e2),
    *(1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3),
)
_LARGE_Q = (
    *(1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2),
    *(1.62138957456669019e3, 3.29079923573345963e3, 4.36261909014324716e3),
    *(3.43936767414372164e3, 1.23033935480374942e3),
)
# tanh(x) / x - 1 for |x| <= 0.549 as x² P(x²) / Q(x²).
_TANH_P = (-0.96437492777225469787e0, -0.99225929672236083313e2, -0.16134119023996228053e4)
_TANH_Q = (
    *(1.0, 0.11274474380534949335e3),
    *(0.22337720718962312926e4, 0.48402357071988688686e4),
)


def needed(b: Builder, x: Value) -> bool:
    """Whether x is a double on the CPU."""
    return b.strikes("W-008", x.dtype)


def polynomial(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """Horner's rule, highest power first."""
    y = b.literal(coefficients[0], x.dtype, ())
    for c in coefficients[1:]:
        y = b.add(b.mul(y, x), b.literal(c, x.dtype, ()))
    return y


def _ratio(b: Builder, x: Value, p: Sequence[float], q: Sequence[float]) -> Value:
    return b.binary(T.AtenDivTensorOp, polynomial(b, x, p), polynomial(b, x, q))


def _negative(b: Builder, x: Value) -> Value:
    return b.call(T.AtenLtScalarOp, x.shape, DataType.BOOLEAN, x, 0.0)


def _with_sign_of(b: Builder, magnitude: Value, x: Value) -> Value:
    return b.where(_negative(b, x), b.unary(T.AtenNegOp, magnitude), magnitude)


def erf(b: Builder, x: Value) -> Value:
    """Return the error function."""
    size = b.unary(T.AtenAbsOp, x)
    small = b.mul(x, _ratio(b, b.mul(x, x), _SMALL_P, _SMALL_Q))
    # Beyond 6 erf is 1 to the last bit, and the exponential must not meet infinities.
    far = b.clipped(b.clipped(size, 0.46875, above=False), 6.0, above=True)
    decay = b.unary(T.AtenExpOp, b.unary(T.AtenNegOp, b.mul(far, far)))
    tail = b.mul(decay, _ratio(b, far, _LARGE_P, _LARGE_Q))
    large = _with_sign_of(b, b.sub(b.literal(1.0, x.dtype, ()), tail), x)
    near = b.call(T.AtenLeScalarOp, x.shape, DataType.BOOLEAN, size, 0.46875)
    return b.where(near, small, large)


def tanh(b: Builder, x: Value) -> Value:
    """Return tanh x: rational near 0, else 1 - 2 / (e^(2|x|) + 1) with x's sign."""
    square = b.mul(x, x)
    near = b.add(x, b.mul(x, b.mul(square, _ratio(b, square, _TANH_P, _TANH_Q))))
    size = b.clipped(b.unary(T.AtenAbsOp, x), 20.0, above=True)  # tanh 20 is 1
    one, two = b.literal(1.0, x.dtype, ()), b.literal(2.0, x.dtype, ())
    power = b.add(b.unary(T.AtenExpOp, b.scale(size, 2.0)), one)
    far = _with_sign_of(b, b.sub(one, b.binary(T.AtenDivTensorOp, two, power)), x)
    small = b.call(T.AtenLeScalarOp, x.shape, DataType.BOOLEAN, b.unary(T.AtenAbsOp, x), 0.549)
    return b.where(small, near, far)


def log1p(b: Builder, x: Value) -> Value:
    """Return log(1 + x): x · log(u) / (u - 1) with the rounded u = 1 + x (W-107)."""
    one = b.literal(1.0, x.dtype, ())
    u = b.add(x, one)
    rest = b.sub(u, one)
    exact = b.compare(T.AtenEqTensorOp, rest, b.literal(0.0, x.dtype, ()))
    quotient = b.binary(T.AtenDivTensorOp, b.mul(x, b.unary(T.AtenLogOp, u)), rest)
    return b.where(exact, x, quotient)
