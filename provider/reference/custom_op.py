# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Custom ops: code that only a compiler reads, checked against the function that came with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...graph_api.errors import GraphError, Problem
from ...graph_api.ops.custom_op import CustomOp
from .base import Arrays, Context, Domain, Reference
from .convert import Array, unit_roundoff

__all__ = ["REFERENCE", "RULES"]

RULES: dict[str, str] = {
    "REFOP-01": "the reference of a custom op returns an array of each output's dims",
}

# How often inputs are disturbed, and how much larger than the largest change an error may be.
_TRIALS, _MARGIN = 4, 4.0


def unsupported(op: CustomOp) -> str:
    if op.reference is not None:
        return ""
    return (
        f"the custom op {op.custom_op_id!r}, which is code without a meaning in NumPy "
        "(custom_op(reference=...) gives one): "
        "its results, and what is computed from them, cannot be verified"
    )


def evaluate(op: CustomOp, inputs: Arrays, ctx: Context) -> Arrays:
    assert op.reference is not None
    return _results(op, op.reference, inputs, ctx)


def _results(
    op: CustomOp, function: Callable[..., Any], inputs: Arrays, ctx: Context
) -> dict[str, Array]:
    found = function(*(inputs[f"inputs[{i}]"] for i in range(len(inputs))))
    arrays = [np.asarray(a) for a in (found if isinstance(found, tuple | list) else [found])]
    wanted = [spec.dims for spec in ctx.outputs.values()]
    if [a.shape for a in arrays] != wanted:
        problem = Problem(
            rule="REFOP-01",
            port="reference",
            got=f"dims {[list(a.shape) for a in arrays]}",
            wanted=f"{[list(dims) for dims in wanted]}",
        )
        raise GraphError(f"the reference of {op.custom_op_id!r} does not fit", [problem])
    kinds = [spec.data_type for spec in ctx.outputs.values()]
    return {
        port: a.astype(np.float64 if kind.is_float else np.int64)
        for port, a, kind in zip(ctx.outputs, arrays, kinds, strict=True)
    }


def bound(op: CustomOp, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    """Return how far results move when every input is off by its error and one rounding.

    Torch code is run with the error of each of its ops (``rounded``).  Of other code the steps
    are not known.  If it is backward stable it is as good as exact code on inputs that are rounded
    a little differently, so the function itself shows how much that may be.  Either way it is the
    largest change of some disturbances, at least their mean, with a margin.
    """
    specs = [*ctx.inputs.values(), *ctx.outputs.values()]
    unit = max((unit_roundoff(s.data_type) for s in specs if s.data_type.is_float), default=0.0)
    if not unit and not any(error.any() for error in errors.values()):
        return {port: np.zeros(a.shape) for port, a in outputs.items()}
    rng = np.random.default_rng(1)
    rounded = getattr(op.reference, "rounded", None)
    function = partial(rounded, rng, unit) if rounded else op.reference
    assert function is not None
    moved = {port: np.zeros(a.shape) for port, a in outputs.items()}
    for _ in range(_TRIALS):
        other = {port: _disturbed(rng, a, errors[port], unit) for port, a in inputs.items()}
        for port, a in _results(op, function, other, ctx).items():
            moved[port] = np.fmax(moved[port], np.abs(a - outputs[port]))
    return {
        port: _MARGIN * (np.fmax(change, _mean(change)) + unit * np.abs(outputs[port]))
        if ctx.outputs[port].data_type.is_float
        else change
        for port, change in moved.items()
    }


def _disturbed(rng: np.random.Generator, array: Array, error: Array, unit: float) -> Array:
    if array.dtype.kind != "f":
        return array
    return array + rng.choice([-1.0, 1.0], array.shape) * (error + unit * np.abs(array))


def _mean(change: Array) -> float:
    finite = change[np.isfinite(change)]
    return float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0


def domain(op: CustomOp, port: str, ctx: Context) -> Domain:
    return Domain()


REFERENCE = Reference(
    evaluate=evaluate,
    bound=bound,
    domain=domain,
    exact_ports=lambda op, ctx: frozenset(ctx.inputs),
    unsupported=unsupported,
)
