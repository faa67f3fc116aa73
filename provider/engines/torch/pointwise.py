# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pointwise modes: one row each, with the function of PyTorch that computes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ....graph_api.dtypes import DataType
from ....graph_api.enums import PointwiseMode
from ....graph_api.errors import Problem
from ....graph_api.ops.pointwise import Pointwise
from .torch_op import NARROW, Kernel, NodeContext, TorchOp, dtype

__all__ = ["MODES"]

_P = PointwiseMode
Make = Callable[[Any, Pointwise], Callable[..., Any]]
_SQRT2_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


@dataclass(frozen=True, slots=True)
class Row:
    """A mode.

    Attributes
    ----------
    make : callable
        From the module ``torch`` and the op to a function of the operands.
    takes_out : bool
        Whether that function takes ``out=``.
    whole : bool
        Whether it is right for integers, which wrap around.
    narrow : bool
        Whether on operands of 16 bits it computes in FLOAT inside and rounds once.
    """

    make: Make
    takes_out: bool = False
    whole: bool = False
    narrow: bool = False


def _named(path: str, *, whole: bool = False, narrow: bool = True) -> Row:
    """Return the row of a function of ``torch`` that takes ``out=``."""

    def make(torch: Any, op: Pointwise) -> Callable[..., Any]:
        found = torch
        for part in path.split("."):
            found = getattr(found, part)
        function: Callable[..., Any] = found
        return function

    return Row(make, takes_out=True, whole=whole, narrow=narrow)


def _formula(make: Make, *, whole: bool = False) -> Row:
    return Row(make, whole=whole)


def _relu(torch: Any, op: Pointwise) -> Callable[..., Any]:
    low, high, slope = op.relu_lower_clip or 0.0, op.relu_upper_clip, op.relu_lower_clip_slope
    if not slope:
        if high is None:
            return lambda x, out=None: torch.clamp_min(x, low if low else 0, out=out)
        return lambda x, out=None: torch.clamp(x, low, high, out=out)

    def leaky(x: Any, out: Any = None) -> Any:
        above = x if high is None else torch.clamp_max(x, high)
        return torch.where(x <= low, low + slope * (x - low), above, out=out)

    return leaky


def _inside(op: Pointwise, torch: Any, x: Any) -> Any:
    """Return the slope of the clipped ReLU."""
    below = x <= (op.relu_lower_clip or 0.0)
    one = torch.ones((), dtype=x.dtype)
    flat = torch.where(x >= op.relu_upper_clip, 0.0, one) if op.relu_upper_clip is not None else one
    return torch.where(below, op.relu_lower_clip_slope or 0.0, flat)


def _beta(value: float | None) -> float:
    return 1.0 if value is None else value


def _swish(torch: Any, op: Pointwise) -> Callable[..., Any]:
    beta = _beta(op.swish_beta)
    if beta == 1:
        return lambda x, out=None: (
            torch.ops.aten.silu.out(x, out=out)
            if out is not None
            else (torch.nn.functional.silu(x))
        )
    return lambda x, out=None: torch.mul(x, torch.sigmoid(beta * x), out=out)


def _swish_bwd(torch: Any, op: Pointwise) -> Callable[..., Any]:
    beta = _beta(op.swish_beta)

    def run(dy: Any, x: Any) -> Any:
        z = beta * x
        s = torch.sigmoid(z)
        return dy * s * (1 + z * torch.sigmoid(-z))

    return run


def _elu_bwd(torch: Any, op: Pointwise) -> Callable[..., Any]:
    alpha = _beta(op.elu_alpha)
    return lambda dy, x: dy * torch.where(x > 0, 1.0, alpha * torch.exp(torch.clamp_max(x, 0)))


def _softplus(torch: Any, op: Pointwise) -> Callable[..., Any]:
    beta = _beta(op.softplus_beta)

    def run(x: Any) -> Any:
        z = beta * x
        return torch.logaddexp(z, torch.zeros((), dtype=z.dtype)) / beta

    return run


def _softplus_bwd(torch: Any, op: Pointwise) -> Callable[..., Any]:
    beta = _beta(op.softplus_beta)
    return lambda dy, x: dy * torch.sigmoid(beta * x)


def _gelu_bwd(torch: Any, op: Pointwise) -> Callable[..., Any]:
    def run(dy: Any, x: Any) -> Any:
        density = torch.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
        return dy * (0.5 * torch.erfc(x * -math.sqrt(0.5)) + x * density)

    return run


def _gelu_tanh_bwd(torch: Any, op: Pointwise) -> Callable[..., Any]:
    def run(dy: Any, x: Any) -> Any:
        t = torch.tanh(_SQRT2_PI * (x + _CUBIC * x * x * x))
        inner = _SQRT2_PI * (1 + 3 * _CUBIC * x * x)
        return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner)

    return run


def _gelu(approximate: str) -> Make:
    def make(torch: Any, op: Pointwise) -> Callable[..., Any]:
        gelu = torch.nn.functional.gelu
        into = torch.ops.aten.gelu.out

        def run(x: Any, out: Any = None) -> Any:
            if out is None:
                return gelu(x, approximate=approximate)
            return into(x, approximate=approximate, out=out)

        return run

    return make


def _elu(torch: Any, op: Pointwise) -> Callable[..., Any]:
    alpha = _beta(op.elu_alpha)
    return lambda x: torch.nn.functional.elu(x, alpha)


def _truth(torch: Any, x: Any) -> Any:
    return x if x.dtype is torch.bool else x != 0


MODES: dict[PointwiseMode, Row] = {
    _P.ABS: _named("abs", whole=True),
    _P.NEG: _named("neg", whole=True),
    _P.CEIL: _named("ceil", whole=True),
    _P.FLOOR: _named("floor", whole=True),
    _P.ADD: _named("add", whole=True),
    _P.SUB: _named("sub", whole=True),
    _P.MUL: _named("mul", whole=True),
    _P.ADD_SQUARE: _formula(lambda t, op: lambda a, b: a + b * b, whole=True),
    _P.DIV: _named("div"),
    _P.MOD: _named("fmod"),
    _P.POW: _named("pow"),
    _P.MAX: _named("maximum", whole=True),
    _P.MIN: _named("minimum", whole=True),
    _P.CMP_EQ: _formula(lambda t, op: t.eq, whole=True),
    _P.CMP_NEQ: _formula(lambda t, op: t.ne, whole=True),
    _P.CMP_GT: _formula(lambda t, op: t.gt, whole=True),
    _P.CMP_GE: _formula(lambda t, op: t.ge, whole=True),
    _P.CMP_LT: _formula(lambda t, op: t.lt, whole=True),
    _P.CMP_LE: _formula(lambda t, op: t.le, whole=True),
    _P.LOGICAL_AND: _formula(lambda t, op: lambda a, b: _truth(t, a) & _truth(t, b), whole=True),
    _P.LOGICAL_OR: _formula(lambda t, op: lambda a, b: _truth(t, a) | _truth(t, b), whole=True),
    _P.LOGICAL_NOT: _formula(lambda t, op: lambda a: ~_truth(t, a), whole=True),
    _P.BINARY_SELECT: _formula(
        lambda t, op: lambda a, b, mask: t.where(_truth(t, mask), a, b), whole=True
    ),
    _P.SQRT: _named("sqrt"),
    _P.RSQRT: _named("rsqrt", narrow=False),  # the inverse of a rounded root
    _P.RECIPROCAL: _named("reciprocal"),
    _P.EXP: _named("exp"),
    _P.LOG: _named("log"),
    _P.SIN: _named("sin"),
    _P.COS: _named("cos"),
    _P.TAN: _named("tan"),
    _P.ERF: _named("erf"),
    _P.TANH_FWD: _named("tanh"),
    _P.SIGMOID_FWD: _named("sigmoid"),
    _P.GELU_FWD: Row(_gelu("none"), takes_out=True, narrow=True),
    _P.GELU_APPROX_TANH_FWD: Row(_gelu("tanh"), takes_out=True, narrow=True),
    _P.RELU_FWD: Row(_relu, takes_out=True, whole=True),
    _P.ELU_FWD: _formula(_elu),
    _P.SOFTPLUS_FWD: _formula(_softplus),
    _P.SWISH_FWD: Row(_swish, takes_out=True),
    _P.RELU_BWD: _formula(lambda t, op: lambda dy, x: dy * _inside(op, t, x)),
    _P.ELU_BWD: _formula(_elu_bwd),
    _P.SIGMOID_BWD: _formula(lambda t, op: lambda dy, x: dy * t.sigmoid(x) * t.sigmoid(-x)),
    _P.TANH_BWD: _formula(lambda t, op: lambda dy, x: dy / t.cosh(x) ** 2),
    _P.SOFTPLUS_BWD: _formula(_softplus_bwd),
    _P.SWISH_BWD: _formula(_swish_bwd),
    _P.GELU_BWD: _formula(_gelu_bwd),
    _P.GELU_APPROX_TANH_BWD: _formula(_gelu_tanh_bwd),
}

# Nothing is computed: operands stay in their own type.
_AS_THEY_ARE = (_P.IDENTITY, _P.GEN_INDEX, _P.LOGICAL_AND, _P.LOGICAL_OR, _P.LOGICAL_NOT)


def _problems(n: NodeContext) -> Iterator[Problem]:
    mode = n.op.mode
    if mode in _AS_THEY_ARE:
        return
    if mode not in MODES:
        yield n.problem("TORCH-ENG-07", "mode", mode.name, "a mode that PyTorch computes")
    elif n.compute.is_float or (mode is _P.BINARY_SELECT and _moved(n) is not None):
        return
    elif n.compute.is_bool or not MODES[mode].whole or n.op.given_attributes():
        wanted = f"a floating type for {mode.name}"
        yield n.problem("TORCH-ENG-06", "compute_data_type", n.compute.json, wanted)


def _moved(n: NodeContext) -> DataType | None:
    """Return the wider type of a select's two values, where one holds the other."""
    types = [n.inputs[p].data_type for p in ("in_0", "in_1")]
    return next((t for t in types if all(map(t.holds, types))), None)


def _as_they_are(n: NodeContext, torch: Any) -> Kernel:
    mode, own = n.op.mode, (None,) * len(n.inputs)
    if mode is _P.IDENTITY:
        return Kernel(run=lambda x: x, loads=own)
    if mode is not _P.GEN_INDEX:
        return Kernel(run=MODES[mode].make(torch, n.op), loads=own)
    dims, axis = n.outputs["out_0"].dims, n.op.axis
    line = torch.arange(dims[axis]).reshape(-1, *(1,) * (len(dims) - axis - 1))
    return Kernel(run=lambda x: line.expand(dims), loads=own)


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    mode = n.op.mode
    if mode in _AS_THEY_ARE:
        return _as_they_are(n, torch)
    row, kind = MODES[mode], dtype(torch, n.internal)
    run = row.make(torch, n.op)
    if mode is _P.BINARY_SELECT:
        moved = _moved(n)
        value = kind if moved is None else dtype(torch, moved)
        return Kernel(run=run, loads=(value, value, None))
    narrow = row.narrow or (mode is _P.RELU_FWD and not n.op.given_attributes())
    if narrow and n.internal is DataType.FLOAT and n.shared() in NARROW:
        kind = dtype(torch, next(iter(n.outputs.values())).data_type)
    return Kernel(run=run, loads=(kind,) * len(n.inputs), takes_out=row.takes_out)


TORCH = TorchOp(problems=_problems, kernel=_kernel, elementwise=True)
