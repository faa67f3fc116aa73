# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pointwise modes: one row each, computed in the compute type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import pi, sqrt
from typing import Any

from ...graph_api.dtypes import DataType
from ...graph_api.enums import PointwiseMode as Mode
from ...graph_api.frozen import FrozenNode
from ...graph_api.ops.pointwise import Pointwise
from ..emit.builder import Builder, T, Value
from . import angles, double_math
from .exact_math import divide, power, remainder

__all__ = ["BACKWARD", "COMPARISONS", "MATH", "lower"]

Rule = Callable[..., Value]


def _op(op: Any, *operands: object) -> Rule:
    """Row of a mode that is one Torch op on one operand."""
    return lambda b, p, x: b.unary(op, x, *operands)


def _double(op: Any, double: Callable[[Builder, Value], Value]) -> Rule:
    """Row of a function that needs separate code for doubles on the CPU."""
    return lambda b, p, x: double(b, x) if double_math.needed(b, x) else b.unary(op, x)


def _angle(op: Any, exact: Callable[[Builder, Value], Value]) -> Rule:
    """Row of a function of an angle, which needs separate code on the CPU."""
    return lambda b, p, x: exact(b, x) if angles.needed(b, x) else b.unary(op, x)


def _op2(op: Any, *operands: object) -> Rule:
    """Row of a mode that is one Torch op on two operands."""
    return lambda b, p, x, y: b.binary(op, x, y, *operands)


def _number(b: Builder, like: Value, value: float) -> Value:
    return b.literal(value, like.dtype, ())


def _whole(op: Any) -> Rule:
    """Row of a rounding mode, which leaves integers alone."""
    return lambda b, p, x: b.unary(op, x) if x.dtype.is_float else x


def _relu(b: Builder, p: Pointwise, x: Value) -> Value:
    lower, slope = p.relu_lower_clip or 0.0, p.relu_lower_clip_slope or 0.0
    upper = p.relu_upper_clip
    # NaN stays: where x is NaN no comparison holds.
    if not lower and not slope:
        y = b.unary(T.AtenReluOp, x)
    elif slope:
        at = _number(b, x, lower)
        below = b.add(at, b.scale(b.sub(x, at), slope))
        y = b.where(b.compare(T.AtenGtTensorOp, x, at), x, below)
    else:
        y = b.clipped(x, lower, above=False)
    return y if upper is None else b.clipped(y, upper, above=True)


def _elu(b: Builder, p: Pointwise, x: Value) -> Value:
    alpha = 1.0 if p.elu_alpha is None else p.elu_alpha
    # expm1 keeps the digits of small negative x that exp(x) - 1 cancels.
    below = b.scale(b.unary(T.AtenExpm1Op, x), alpha)
    return b.where(b.compare(T.AtenGtTensorOp, x, _number(b, x, 0)), x, below)


def _softplus(b: Builder, p: Pointwise, x: Value) -> Value:
    beta = 1.0 if p.softplus_beta is None else p.softplus_beta
    z = b.scale(x, beta)
    # log(1 + e^z) = max(z, 0) + log1p(e^-|z|): neither overflows nor cancels.
    small = b.unary(T.AtenExpOp, b.unary(T.AtenNegOp, b.unary(T.AtenAbsOp, z)))
    tail = _double(T.AtenLog1pOp, double_math.log1p)(b, p, small)
    return b.scale(b.add(b.unary(T.AtenReluOp, z), tail), 1 / beta)


def _swish(b: Builder, p: Pointwise, x: Value) -> Value:
    beta = 1.0 if p.swish_beta is None else p.swish_beta
    return b.mul(x, b.unary(T.AtenSigmoidOp, b.scale(x, beta)))


_erf = _double(T.AtenErfOp, double_math.erf)
_tanh = _double(T.AtenTanhOp, double_math.tanh)


def _gelu(b: Builder, p: Pointwise, x: Value) -> Value:
    # Torch's own op divides by the root of 2, for as long as a CPU takes for all the rest.
    if not (double_math.needed(b, x) or (b.target.is_cpu and x.dtype is DataType.FLOAT)):
        return b.unary(T.AtenGeluOp, x, "none")
    bell = b.add(_erf(b, p, b.scale(x, sqrt(0.5))), _number(b, x, 1))
    return b.mul(b.scale(x, 0.5), bell)


def _gelu_tanh(b: Builder, p: Pointwise, x: Value) -> Value:
    # W-009: Torch's own op is off by 4e-5: its lowering rounds the constants.
    cubic = b.add(x, b.scale(b.mul(x, b.mul(x, x)), 0.044715))
    bell = b.add(_tanh(b, p, b.scale(cubic, sqrt(2 / pi))), _number(b, x, 1))
    return b.mul(b.scale(x, 0.5), bell)


MATH: dict[Mode, Rule] = {
    Mode.ABS: _op(T.AtenAbsOp),
    Mode.ADD: _op2(T.AtenAddTensorOp, 1),
    Mode.ADD_SQUARE: lambda b, p, x, y: b.add(x, b.mul(y, y)),
    Mode.CEIL: _whole(T.AtenCeilOp),
    Mode.COS: _angle(T.AtenCosOp, angles.cos),
    Mode.DIV: lambda b, p, x, y: divide(b, x, y),
    Mode.ELU_FWD: _elu,
    Mode.ERF: _erf,
    Mode.EXP: _op(T.AtenExpOp),
    Mode.FLOOR: _whole(T.AtenFloorOp),
    Mode.GELU_APPROX_TANH_FWD: _gelu_tanh,
    Mode.GELU_FWD: _gelu,
    Mode.LOG: _op(T.AtenLogOp),
    Mode.MAX: lambda b, p, x, y: b.maximum(x, y),
    Mode.MIN: lambda b, p, x, y: b.minimum(x, y),
    Mode.MOD: lambda b, p, x, y: remainder(b, x, y),
    Mode.MUL: _op2(T.AtenMulTensorOp),
    Mode.NEG: lambda b, p, x: b.negate(x),
    Mode.POW: lambda b, p, x, y: power(b, x, y),
    Mode.RECIPROCAL: _op(T.AtenReciprocalOp),
    Mode.RELU_FWD: _relu,
    Mode.RSQRT: _op(T.AtenRsqrtOp),
    Mode.SIGMOID_FWD: _op(T.AtenSigmoidOp),
    Mode.SIN: _angle(T.AtenSinOp, angles.sin),
    Mode.SOFTPLUS_FWD: _softplus,
    Mode.SQRT: _op(T.AtenSqrtOp),
    Mode.SUB: _op2(T.AtenSubTensorOp, 1),
    Mode.SWISH_FWD: _swish,
    Mode.TAN: _angle(T.AtenTanOp, angles.tan),
    Mode.TANH_FWD: _tanh,
}


def _relu_bwd(b: Builder, p: Pointwise, dy: Value, x: Value) -> Value:
    lower, upper, slope = p.relu_lower_clip or 0.0, p.relu_upper_clip, p.relu_lower_clip_slope
    # Selected, as 0 · dy would not be 0 for all dy; where x is NaN dy stays.
    zero = _number(b, x, 0.0)
    below = b.scale(dy, slope) if slope else zero
    dx = b.where(b.compare(T.AtenLeTensorOp, x, _number(b, x, lower)), below, dy)
    if upper is None:
        return dx
    return b.where(b.compare(T.AtenGeTensorOp, x, _number(b, x, upper)), zero, dx)


def _elu_bwd(b: Builder, p: Pointwise, dy: Value, x: Value) -> Value:
    alpha = 1.0 if p.elu_alpha is None else p.elu_alpha
    below = b.mul(dy, b.scale(b.unary(T.AtenExpOp, x), alpha))
    return b.where(b.compare(T.AtenGtTensorOp, x, _number(b, x, 0)), dy, below)


def _sigmoid_of(b: Builder, x: Value, beta: float | None) -> Value:
    return b.unary(T.AtenSigmoidOp, b.scale(x, 1.0 if beta is None else beta))


def _sigmoid_bwd(b: Builder, p: Pointwise, dy: Value, x: Value) -> Value:
    # σ(x) σ(-x) instead of σ (1 - σ), which cancels for large x.
    return b.mul(dy, b.mul(_sigmoid_of(b, x, None), _sigmoid_of(b, x, -1.0)))


def _swish_bwd(b: Builder, p: Pointwise, dy: Value, x: Value) -> Value:
    beta = 1.0 if p.swish_beta is None else p.swish_beta
    s, rest = _sigmoid_of(b, x, beta), _sigmoid_of(b, x, -beta)
    return b.mul(dy, b.mul(s, b.add(_number(b, x, 1.0), b.mul(b.scale(x, beta), rest))))


def _tanh_bwd(b: Builder, p: Pointwise, dy: Value, x: Value) -> Value:
    # 1 - tanh² = 4 σ(2x) σ(-2x), without the cancellation.
    return b.mul(dy, b.scale(b.mul(_sigmoid_of(b, x, 2.0), _sigmoid_of(b, x, -2.0)), 4.0))


def _gelu_bwd(b: Builder, p: Pointwise, dy: Value, x: Value) -> Value:
    area = b.scale(b.add(_erf(b, p, b.scale(x, sqrt(0.5))), _number(b, x, 1.0)), 0.5)
    density = b.unary(T.AtenExpOp, b.scale(b.mul(x, x), -0.5))
    return b.mul(dy, b.add(area, b.mul(b.scale(x, 1 / sqrt(2 * pi)), density)))


def _gelu_tanh_bwd(b: Builder, p: Pointwise, dy: Value, x: Value) -> Value:
    # x · σ(2u) with u = √(2/π) (x + 0.044715 x³): σ(2u) (1 + 2 x u' σ(-2u)).
    square, twice = b.mul(x, x), 2 * sqrt(2 / pi)
    u2 = b.mul(x, b.add(_number(b, x, twice), b.scale(square, twice * 0.044715)))
    slope = b.mul(x, b.add(_number(b, x, twice), b.scale(square, 3 * twice * 0.044715)))
    s, rest = _sigmoid_of(b, u2, None), _sigmoid_of(b, u2, -1.0)
    return b.mul(dy, b.mul(s, b.add(_number(b, x, 1.0), b.mul(slope, rest))))


BACKWARD: dict[Mode, Rule] = {
    Mode.ELU_BWD: _elu_bwd,
    Mode.GELU_APPROX_TANH_BWD: _gelu_tanh_bwd,
    Mode.GELU_BWD: _gelu_bwd,
    Mode.RELU_BWD: _relu_bwd,
    Mode.SIGMOID_BWD: _sigmoid_bwd,
    Mode.SOFTPLUS_BWD: lambda b, p, dy, x: b.mul(dy, _sigmoid_of(b, x, p.softplus_beta)),
    Mode.SWISH_BWD: _swish_bwd,
    Mode.TANH_BWD: _tanh_bwd,
}

COMPARISONS: dict[Mode, Any] = {
    Mode.CMP_EQ: T.AtenEqTensorOp,
    Mode.CMP_GE: T.AtenGeTensorOp,
    Mode.CMP_GT: T.AtenGtTensorOp,
    Mode.CMP_LE: T.AtenLeTensorOp,
    Mode.CMP_LT: T.AtenLtTensorOp,
    Mode.CMP_NEQ: T.AtenNeTensorOp,
}

_LOGICAL: dict[Mode, Any] = {
    Mode.LOGICAL_AND: T.AtenLogicalAndOp,
    Mode.LOGICAL_OR: T.AtenLogicalOrOp,
}


def _index(b: Builder, x: Value, axis: int) -> Value:
    """Return 0, 1, 2... along an axis, with x's dims."""
    n = x.shape[axis]
    dtype = DataType.INT64
    line = b.call(
        T.AtenArangeStartStepOp, (n,), dtype, 0, n, 1, dtype.value.torch_code, None, None, None
    )
    shape = tuple(n if i == axis else 1 for i in range(x.rank))
    return b.expand(b.reshape(line, shape), x.shape)


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit out_0 = mode(in_0, ...)."""
    op = node.op
    assert isinstance(op, Pointwise)
    operands = [inputs[p] for p in ("in_0", "in_1", "in_2") if p in inputs]
    return {"out_0": _emit(b, op, operands, node.compute_data_type)}


def _emit(b: Builder, op: Pointwise, operands: list[Value], compute: DataType) -> Value:
    mode = op.mode
    if mode is Mode.IDENTITY:
        # A conversion does not compute: a detour through the compute type would only lose digits.
        return operands[0]
    if mode is Mode.GEN_INDEX:
        assert op.axis is not None
        return _index(b, operands[0], op.axis)
    if mode is Mode.LOGICAL_NOT:
        return b.unary(T.AtenLogicalNotOp, b.truth(operands[0]))
    if mode in _LOGICAL:
        return b.compare(_LOGICAL[mode], *map(b.truth, operands))
    if mode is Mode.BINARY_SELECT:
        first, second, mask = operands
        pair = (first.dtype, second.dtype)
        common = next((t for t in pair if all(map(t.holds, pair))), compute)
        return b.where(b.truth(mask), b.convert(first, common), b.convert(second, common))
    values = [b.convert(v, compute) for v in operands]
    if mode is Mode.CMP_EQ and compute.is_float:
        # Torch folds x = x, which does not hold for NaN (W-108).
        return b.unary(T.AtenLogicalNotOp, b.compare(T.AtenNeTensorOp, *values))
    if mode in COMPARISONS:
        return b.compare(COMPARISONS[mode], *values)
    if mode in BACKWARD:
        return BACKWARD[mode](b, op, *values)
    return MATH[mode](b, op, *values)
