# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Block-scaled numbers: each element times the scale of its block, found by its index."""

from __future__ import annotations

import numpy as np

from ...graph_api.ops.block_scale_dequantize import BlockScaleDequantize
from .analysis import rounding
from .base import Arrays, Context, Domain, Reference
from .convert import Array

__all__ = ["REFERENCE"]

Dims = tuple[int, ...]


def _repeated(scale: Array, dims: Dims) -> Array:
    scale = np.asarray(scale)
    indices = [np.arange(m) // (m // n) for m, n in zip(dims, scale.shape, strict=True)]
    return scale[np.ix_(*indices)]


def evaluate(op: BlockScaleDequantize, inputs: Arrays, ctx: Context) -> Arrays:
    x = inputs["x"]
    return {"y": x * _repeated(inputs["scale"], x.shape)}


def bound(
    op: BlockScaleDequantize, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context
) -> Arrays:
    """One correctly rounded product, plus the errors of the operands."""
    x, scale = np.abs(inputs["x"]), np.abs(_repeated(inputs["scale"], inputs["x"].shape))
    of_x = np.broadcast_to(errors["x"], x.shape)
    of_scale = np.broadcast_to(errors["scale"], inputs["scale"].shape)
    passed = of_x * scale + (x + of_x) * _repeated(of_scale, x.shape)
    return {"y": passed + rounding(outputs["y"], passed, ctx.compute)}


def domain(op: BlockScaleDequantize, port: str, ctx: Context) -> Domain:
    return Domain(low=-4, high=4, ints=(-100, 100))


def unsupported(op: BlockScaleDequantize) -> str:
    return "is_negative_scale has no known meaning" if op.is_negative_scale else ""


REFERENCE = Reference(
    evaluate=evaluate,
    bound=bound,
    domain=domain,
    unsupported=unsupported,
)
