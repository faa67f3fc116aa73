# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pointwise modes: one row each, with its meaning, its errors and the operands that suit it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.enums import PointwiseMode
from ...graph_api.ops.pointwise import Pointwise
from .analysis import rounding
from .base import Arrays, Context, Domain, Reference
from .convert import Array, to_dtype, widen, wrap

__all__ = ["MODES", "REFERENCE", "Row"]

_P = PointwiseMode
Function = Callable[..., Array]
_SQRT1_2 = math.sqrt(0.5)
_SQRT2_PI = math.sqrt(2 / math.pi)
_ERF, _ERFC = np.frompyfunc(math.erf, 1, 1), np.frompyfunc(math.erfc, 1, 1)


def units(relative: float, absolute: float = 0.0, operand: float = 0.0) -> Function:
    """Return a mode's own error in units of roundoff: of |result|, of 1, and of |in_0|."""
    return lambda op, y, x, *_: relative * np.abs(y) + absolute + operand * np.abs(x)


EXACT = units(0)
NEAREST = None  # one correctly rounded operation: the error is that of rounding the exact result


@dataclass(frozen=True, slots=True)
class Row:
    """A mode.

    Attributes
    ----------
    real : callable
        (op, in_0, ...) in float64.
    slack : callable or None
        (op, result, in_0, ...) -> own error in units of roundoff of the compute type;
        None for one correctly rounded operation.
    whole : callable or None
        (op, in_0, ...) in int64; None for functions of real numbers.  Where it returns None,
        ``real`` is evaluated and converted to the compute type.
    domains : tuple of Domain
        Suitable values of each operand; the last one counts for those that follow.
    flushed : callable
        (op, in_0, ...) -> what a subnormal intermediate value is multiplied by: where an engine
        has 0 instead, that many smallest normal numbers are missing in the result.
    """

    real: Function
    slack: Function | None = EXACT
    whole: Callable[..., Array | None] | None = None
    domains: tuple[Domain, ...] = field(default=(Domain(),))
    flushed: Function = lambda op, *xs: np.ones(())


def _relu(op: Pointwise, x: Array) -> Array:
    low = op.relu_lower_clip or 0.0
    high = math.inf if op.relu_upper_clip is None else op.relu_upper_clip
    # Not 0 · (x - low), which is NaN where x is infinite.
    slope = op.relu_lower_clip_slope
    below = low + slope * (x - low) if slope else low
    return np.where(x <= low, below, np.where(x >= high, high, x))


def _relu_slack(op: Pointwise, y: Array, x: Array) -> Array:
    # Without attributes every result is an operand or 0; else clips and slope may be rounded.
    if not op.given_attributes():
        return np.zeros(())
    low, slope = op.relu_lower_clip or 0.0, op.relu_lower_clip_slope or 0.0
    moved = abs(slope) * np.abs(x) if slope else 0.0
    return np.where(x <= low, 3 * (np.abs(y) + moved + abs(low)), np.abs(y))


def _relu_whole(op: Pointwise, x: Array) -> Array | None:
    return None if op.given_attributes() else np.maximum(x, 0)


def _sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0.0, -x))


def _erf(x: Array) -> Array:
    return np.asarray(_ERF(x), dtype=np.float64)


def _erfc(x: Array) -> Array:
    return np.asarray(_ERFC(x), dtype=np.float64)


def _gelu(x: Array) -> Array:
    # By erfc, as 1 + erf(x) would cancel for negative x.
    return 0.5 * x * _erfc(-_SQRT1_2 * x)


def _elu(op: Pointwise, x: Array) -> Array:
    alpha = 1.0 if op.elu_alpha is None else op.elu_alpha
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0)))


def _softplus(op: Pointwise, x: Array) -> Array:
    beta = 1.0 if op.softplus_beta is None else op.softplus_beta
    return np.logaddexp(0.0, beta * x) / beta


def _swish(op: Pointwise, x: Array) -> Array:
    return x * _sigmoid((1.0 if op.swish_beta is None else op.swish_beta) * x)


def _swish_slack(op: Pointwise, y: Array, x: Array) -> Array:
    # A rounded beta shifts the exponent, which is a relative error of the tail.
    return np.abs(y) * (10 + 2 * np.abs((op.swish_beta or 0.0) * x))


def _whole_div(a: Array, b: Array) -> Array:
    """Divide, dropping the fraction; by 0 gives 0."""
    quotient = np.floor_divide(a, b)
    return quotient + ((a - quotient * b != 0) & ((a < 0) != (b < 0)) & (b != 0))


def _select(op: Pointwise, a: Array, b: Array, mask: Array) -> Array:
    return np.where(mask != 0, a, b)


def _index(op: Pointwise, x: Array) -> Array:
    assert op.axis is not None
    return np.broadcast_to(
        np.arange(x.shape[op.axis]).reshape(-1, *(1,) * (x.ndim - op.axis - 1)), x.shape
    ).astype(x.dtype)


def _flag(f: Function) -> Function:
    return lambda op, *xs: f(*xs).astype(np.int64)


def _of(f: Function) -> Function:
    return lambda op, *xs: f(*xs)


def _power_slack(op: Pointwise, y: Array, a: Array, b: Array) -> Array:
    # exp(b·log a): an error of the exponent is a relative one of the result.
    exponent = np.where((y == 0) | (b == 0), 0.0, b * np.log(np.abs(a)))
    return np.abs(y) * (8 + 4 * np.abs(exponent))


_BYTE, _SMALL, _TIES = (-128, 127), (-60, 60), (-4, 4)
_WIDE = Domain(low=-5, high=5, ints=_BYTE)
_ORDER = (Domain(ints=_BYTE),)
_TIED = (Domain(grid=0.5, ints=_TIES),)
_TRUTH = (Domain(zeros=1 / 3, ints=(-2, 2)),)
_NONZERO = Domain(low=-2, high=2, away=0.5, ints=(-7, 7), strict=True)
_TURNS = Domain(low=-60, high=60, ints=_BYTE)
_STEPS = (Domain(low=-8, high=8, ints=_BYTE),)


def _compare(f: Function) -> Row:
    return Row(_flag(f), domains=_TIED)


# The slack rests on what compilers promise for f32 (add, mul: correctly rounded; div, sqrt: 3
# units on GPUs; OpenCL's 4 to 16 units for transcendental functions) and on what was measured
# with IREE 3.13 on the CPU; where a formula cancels, its largest term counts (absolute, operand).
MODES: dict[PointwiseMode, Row] = {
    _P.ABS: Row(_of(np.abs), EXACT, _of(np.abs), (Domain(ints=(-127, 127)),)),
    _P.NEG: Row(_of(np.negative), EXACT, _of(np.negative), (Domain(ints=(-127, 127)),)),
    _P.IDENTITY: Row(lambda op, x: x, domains=(Domain(ints=_BYTE),)),
    _P.CEIL: Row(_of(np.ceil), EXACT, lambda op, x: x, _STEPS),
    _P.FLOOR: Row(_of(np.floor), EXACT, lambda op, x: x, _STEPS),
    _P.ADD: Row(_of(np.add), NEAREST, _of(np.add), (Domain(ints=_SMALL),)),
    _P.SUB: Row(_of(np.subtract), NEAREST, _of(np.subtract), (Domain(ints=_SMALL),)),
    _P.MUL: Row(_of(np.multiply), NEAREST, _of(np.multiply), (Domain(ints=(-11, 11)),)),
    _P.ADD_SQUARE: Row(
        lambda op, a, b: a + b * b,
        lambda op, y, a, b: np.abs(y) + b * b,
        lambda op, a, b: a + b * b,
        (Domain(ints=(-10, 10)),),
    ),
    _P.DIV: Row(
        _of(np.divide),
        units(3),
        _of(_whole_div),
        (Domain(ints=_BYTE), _NONZERO),
    ),
    _P.MOD: Row(_of(np.fmod), EXACT, _of(np.fmod), (Domain(low=-4, high=4, ints=_BYTE), _NONZERO)),
    _P.POW: Row(
        _of(np.power),
        _power_slack,
        None,
        (
            Domain(low=0.5, high=2, away=0.5, ints=(1, 3), strict=True),
            Domain(ints=(-3, 4), strict=True),
        ),
    ),
    _P.MAX: Row(_of(np.maximum), EXACT, _of(np.maximum), _ORDER),
    _P.MIN: Row(_of(np.minimum), EXACT, _of(np.minimum), _ORDER),
    _P.CMP_EQ: _compare(np.equal),
    _P.CMP_NEQ: _compare(np.not_equal),
    _P.CMP_GT: _compare(np.greater),
    _P.CMP_GE: _compare(np.greater_equal),
    _P.CMP_LT: _compare(np.less),
    _P.CMP_LE: _compare(np.less_equal),
    _P.LOGICAL_AND: Row(_flag(np.logical_and), domains=_TRUTH),
    _P.LOGICAL_OR: Row(_flag(np.logical_or), domains=_TRUTH),
    _P.LOGICAL_NOT: Row(_flag(np.logical_not), domains=_TRUTH),
    _P.BINARY_SELECT: Row(
        _select,
        domains=(Domain(ints=_BYTE), Domain(ints=_BYTE), Domain(zeros=0.5, ints=(-2, 2))),
    ),
    _P.GEN_INDEX: Row(_index, domains=(Domain(ints=_BYTE),)),
    _P.SQRT: Row(
        _of(np.sqrt), units(3), None, (Domain(low=0.0625, high=4, ints=(0, 127), strict=True),)
    ),
    _P.RSQRT: Row(
        lambda op, x: 1 / np.sqrt(x),
        units(4),
        None,
        (Domain(low=0.0625, high=4, away=0.0625, ints=(1, 127), strict=True),),
    ),
    _P.RECIPROCAL: Row(lambda op, x: 1 / x, units(3), None, (_NONZERO,)),
    _P.EXP: Row(_of(np.exp), units(4), None, (Domain(low=-4, high=4, ints=(-4, 4), strict=True),)),
    _P.LOG: Row(
        _of(np.log),
        units(4, 1),
        None,
        (Domain(low=0.1, high=4, away=0.1, ints=(1, 127), strict=True),),
    ),
    _P.SIN: Row(_of(np.sin), units(0, 8), None, (_TURNS,)),
    _P.COS: Row(_of(np.cos), units(0, 8), None, (_TURNS,)),
    _P.TAN: Row(
        _of(np.tan),
        # sin / cos: the slope is 1 + tan².
        lambda op, y, x: 8 * (1 + y * y),
        None,
        (Domain(low=-1.2, high=1.2, ints=(-1, 1), strict=True),),
    ),
    _P.ERF: Row(_of(_erf), units(16), None, (Domain(low=-3, high=3, ints=_TIES),)),
    _P.TANH_FWD: Row(_of(np.tanh), units(16, 1), None, (_WIDE,)),
    _P.SIGMOID_FWD: Row(_of(_sigmoid), units(8), None, (_WIDE,)),
    _P.GELU_FWD: Row(_of(_gelu), units(8, 0, 4), None, (_WIDE,)),
    _P.GELU_APPROX_TANH_FWD: Row(
        lambda op, x: x * _sigmoid(2 * _SQRT2_PI * (x + 0.044715 * x**3)),
        units(8, 0, 4),
        None,
        (_WIDE,),
    ),
    _P.RELU_FWD: Row(_relu, _relu_slack, _relu_whole, (Domain(ints=_BYTE),)),
    _P.ELU_FWD: Row(_elu, units(4, 2), None, (_WIDE,)),
    _P.SOFTPLUS_FWD: Row(_softplus, units(8, 2), None, (_WIDE,)),
    # x times a sigmoid that may be flushed; what other modes multiply has absolute slack.
    _P.SWISH_FWD: Row(
        _swish, _swish_slack, None, (_WIDE,), lambda op, x: np.maximum(1.0, np.abs(x))
    ),
}


def _relu_bwd(op: Pointwise, dy: Array, x: Array) -> Array:
    low, high = op.relu_lower_clip or 0.0, op.relu_upper_clip
    below = dy * op.relu_lower_clip_slope if op.relu_lower_clip_slope else 0.0
    above = False if high is None else x >= high
    return np.where(x <= low, below, np.where(above, 0.0, dy))


def _elu_bwd(op: Pointwise, dy: Array, x: Array) -> Array:
    alpha = 1.0 if op.elu_alpha is None else op.elu_alpha
    return dy * np.where(x > 0, 1.0, alpha * np.exp(np.minimum(x, 0.0)))


def _swish_bwd(op: Pointwise, dy: Array, x: Array) -> Array:
    z = x * (1.0 if op.swish_beta is None else op.swish_beta)
    return dy * _sigmoid(z) * (1 + z * (1 - _sigmoid(z)))


def _gelu_bwd(op: Pointwise, dy: Array, x: Array) -> Array:
    density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return dy * (0.5 * _erfc(-_SQRT1_2 * x) + x * density)


def _gelu_tanh_bwd(op: Pointwise, dy: Array, x: Array) -> Array:
    t = np.tanh(_SQRT2_PI * (x + 0.044715 * x**3))
    inner = _SQRT2_PI * (1 + 3 * 0.044715 * x * x)
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner)


def _slope_units(count: float, operand: float = 0.0) -> Function:
    """Return the error of dy · f'(x): units of roundoff of |dy|, and of |dy · x|."""
    return lambda op, y, dy, x: np.abs(dy) * (count + operand * np.abs(x))


# dy is any number; x ranges over where the slope changes.
_PAIR = (Domain(), _WIDE)
MODES |= {
    _P.RELU_BWD: Row(_relu_bwd, _slope_units(1), domains=_PAIR),
    _P.ELU_BWD: Row(_elu_bwd, _slope_units(8, 2), domains=_PAIR),
    _P.SIGMOID_BWD: Row(
        lambda op, dy, x: dy * _sigmoid(x) * _sigmoid(-x), _slope_units(8), domains=_PAIR
    ),
    _P.TANH_BWD: Row(lambda op, dy, x: dy / np.cosh(x) ** 2, _slope_units(16), domains=_PAIR),
    _P.SOFTPLUS_BWD: Row(
        lambda op, dy, x: (
            dy * _sigmoid((1.0 if op.softplus_beta is None else op.softplus_beta) * x)
        ),
        _slope_units(8, 2),
        domains=_PAIR,
    ),
    _P.SWISH_BWD: Row(_swish_bwd, _slope_units(16, 8), domains=_PAIR),
    _P.GELU_BWD: Row(_gelu_bwd, _slope_units(16, 8), domains=_PAIR),
    _P.GELU_APPROX_TANH_BWD: Row(_gelu_tanh_bwd, _slope_units(16, 16), domains=_PAIR),
}
_ALL = frozenset({"in_0", "in_1", "in_2"})


def exact_ports(op: Pointwise, ctx: Context) -> frozenset[str]:
    """Return the operands that are not converted to the compute type, as nothing is computed.

    IDENTITY converts once, from type to type; truth is asked in the operand's own type; a select
    moves values in the wider of its two types, if one of them holds the other.
    """
    if op.mode is _P.BINARY_SELECT:
        types = [ctx.inputs[p].data_type for p in ("in_0", "in_1")]
        return _ALL if any(all(map(t.holds, types)) for t in types) else frozenset({"in_2"})
    return _ALL if op.mode in _AS_THEY_ARE else frozenset()


# Modes whose results are operands, indices or truth values, in whatever type they come.
_AS_THEY_ARE = (_P.IDENTITY, _P.GEN_INDEX, _P.LOGICAL_AND, _P.LOGICAL_OR, _P.LOGICAL_NOT)
_COMPARISONS = (_P.CMP_EQ, _P.CMP_NEQ, _P.CMP_GT, _P.CMP_GE, _P.CMP_LT, _P.CMP_LE)
_UNTOUCHED = (*_AS_THEY_ARE, *_COMPARISONS, _P.BINARY_SELECT)


def _operands(arrays: Arrays) -> list[Array]:
    return [arrays[p] for p in ("in_0", "in_1", "in_2") if p in arrays]


def _apply(op: Pointwise, operands: list[Array], ctx: Context) -> Array:
    row = MODES[op.mode]
    if ctx.compute.is_float or op.mode in _UNTOUCHED:
        return row.real(op, *operands)
    whole = row.whole(op, *operands) if row.whole else None
    if whole is not None:
        return wrap(whole, ctx.compute)
    real = row.real(op, *(x.astype(np.float64) for x in operands))
    return widen(to_dtype(real, ctx.compute), ctx.compute)


def evaluate(op: Pointwise, inputs: Arrays, ctx: Context) -> Arrays:
    y = _apply(op, _operands(inputs), ctx)
    return {"out_0": np.broadcast_to(y, ctx.outputs["out_0"].dims)}


def bound(op: Pointwise, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    """Evaluate the mode at the ends of every operand's range, and add its own error."""
    row, y, xs, es = MODES[op.mode], outputs["out_0"], _operands(inputs), _operands(errors)
    spread = np.zeros(y.shape)
    if any(e.any() for e in es):
        for points in product(*map(_range_points, xs, es)):
            change = np.abs(_apply(op, list(points), ctx) - y)
            spread = np.maximum(spread, np.where(np.isnan(change), np.inf, change))
            if op.mode is _P.MOD and ctx.compute.is_float:
                spread = np.maximum(spread, _jump(points, xs, es, y))
    if op.mode in (_P.SIN, _P.COS):
        # The ends of a range of several turns tell nothing of what is between.
        spread = np.maximum(spread, np.minimum(es[0], 2.0))
    if op.mode is _P.TAN:
        first, last = (np.floor(end / np.pi + 0.5) for end in (xs[0] - es[0], xs[0] + es[0]))
        spread = np.where(first == last, spread, np.inf)  # a pole is between
    if op.mode in (_P.CMP_EQ, _P.CMP_NEQ):
        # The ends of two overlapping ranges need not be equal, but values inside them are.
        close = (np.abs(xs[0] - xs[1]) <= es[0] + es[1]) & (es[0] + es[1] > 0)
        spread = np.where(close, 1.0, spread)
    return {"out_0": spread + _own_error(op, row, y, xs, spread, ctx)}


def _jump(points: Sequence[Array], xs: list[Array], es: list[Array], y: Array) -> Array:
    """Return how far a remainder may be off where its quotient is not known."""
    a, b = xs
    reach = np.abs(b) + es[1] + np.where(np.abs(a) > es[0], 0.0, np.abs(y))
    return np.where(np.trunc(points[0] / points[1]) == np.trunc(a / b), 0.0, reach)


def _range_points(x: Array, e: Array) -> list[Array]:
    """Return the ends of ``x ± e``, and 0 where it is inside: modes bend and jump there."""
    if not e.any():
        return [x]
    points = [x - e, x + e]
    inside = np.abs(x) < e
    if inside.any():
        points.append(np.where(inside, 0.0, x))
    return points if x.dtype.kind == "f" else [np.rint(p).astype(np.int64) for p in points]


def _own_error(
    op: Pointwise, row: Row, y: Array, xs: list[Array], spread: Array, ctx: Context
) -> Array:
    """Return what the mode adds to the error of its operands."""
    if not ctx.compute.is_float or op.mode in _UNTOUCHED:
        return np.zeros(())
    if row.slack is None and ctx.compute is DataType.DOUBLE:
        # y has been rounded to this type already, and does not tell how far.
        return np.asarray(ctx.roundoff * np.abs(y))
    if row.slack is None:
        return rounding(y, spread, ctx.compute)
    amount = np.asarray(row.slack(op, y, *xs), dtype=np.float64)
    lost = ctx.tiny * row.flushed(op, *xs)
    return ctx.roundoff * amount + np.where((amount > 0) & (y != 0), lost, 0.0)


def domain(op: Pointwise, port: str, ctx: Context) -> Domain:
    domains = MODES[op.mode].domains
    found = domains[min(int(port[-1]), len(domains) - 1)]
    result = ctx.outputs["out_0"].data_type
    if op.mode is _P.IDENTITY and result is DataType.FP8_E8M0:
        return replace(found, low=2.0**-6, high=2.0**6)
    if op.mode is _P.IDENTITY and result.bits < 8 and result.is_float:
        # Some values saturate.
        return replace(found, low=-1.25 * result.largest, high=1.25 * result.largest)
    if op.mode is _P.IDENTITY and result.is_integer:
        # Some values saturate where the type is narrow; none is too large for the operand's.
        most = ctx.inputs[port].data_type.largest or math.inf
        high = min(1.5 * 2.0 ** min(result.bits, 8), most)
        return replace(found, low=max(-1.5 * 2.0**7, -most), high=high)
    if op.mode is not _P.RELU_FWD:
        return found
    # The clips are inside the values.
    low, high = op.relu_lower_clip or 0.0, op.relu_upper_clip or 0.0
    return replace(found, low=min(found.low, low - 2), high=max(found.high, high + 2))


def unsupported(op: Pointwise) -> str:
    return "" if op.mode in MODES else f"mode {op.mode.name} has no reference"


REFERENCE = Reference(
    evaluate=evaluate,
    bound=bound,
    domain=domain,
    exact_ports=exact_ports,
    unsupported=unsupported,
    adds=lambda op: op.mode is _P.ADD,
)
