# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Quantisation in blocks: each block is a row of a matrix, with one scale."""

from __future__ import annotations

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.ops.block_scale_quantize import BlockScaleQuantize
from .base import Arrays, Context, Domain, Reference
from .convert import Array, to_dtype, widen

__all__ = ["REFERENCE"]

_MX = DataType.FP8_E8M0
Dims = tuple[int, ...]


def _rows(x: Array, op: BlockScaleQuantize) -> Array:
    """Return (other dims..., blocks, block_size)."""
    assert op.axis is not None
    moved = np.moveaxis(np.asarray(x), op.axis, -1)
    return moved.reshape(*moved.shape[:-1], -1, op.block_size or 1)


def _back(rows: Array, op: BlockScaleQuantize, dims: Dims) -> Array:
    """Return rows (with or without their elements) with the dims of a tensor."""
    assert op.axis is not None
    last = dims[op.axis]
    others = rows.shape[: len(dims) - 1]
    return np.moveaxis(rows.reshape(*others, last), -1, op.axis)


def _wanted(largest: Array, op: BlockScaleQuantize, ctx: Context) -> Array:
    """Return the scales of blocks with these largest magnitudes, before they are rounded."""
    y, scale = (ctx.outputs[port].data_type for port in ("y", "scale"))
    if scale is _MX:
        top = np.floor(np.log2(y.largest))
        # frexp is exact, where a logarithm may be rounded up to the next power.
        power = np.where(largest > 0, np.frexp(largest)[1] - 1.0, -np.inf)
        return np.exp2(np.maximum(power - top, -127.0))
    return np.minimum(largest / y.largest, scale.largest)


def _held(wanted: Array, ctx: Context) -> Array:
    scale = ctx.outputs["scale"].data_type
    return widen(to_dtype(wanted, scale), scale)


def _over(rows: Array, scale: Array, top: float) -> Array:
    factor = scale[..., None]
    quotient = np.where(factor == 0, 0.0, rows / np.where(factor == 0, 1.0, factor))
    return np.clip(quotient, -top, top)


def evaluate(op: BlockScaleQuantize, inputs: Arrays, ctx: Context) -> Arrays:
    rows = _rows(inputs["x"], op)
    wanted = _wanted(np.abs(rows).max(-1), op, ctx)
    y = _over(rows, _held(wanted, ctx), ctx.outputs["y"].data_type.largest)
    return {
        "y": _back(y, op, ctx.outputs["y"].dims),
        "scale": _back(wanted, op, ctx.outputs["scale"].dims),
    }


def bound(
    op: BlockScaleQuantize, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context
) -> Arrays:
    """Take the scales at both ends of what each block's largest element may be.

    A power of two is exact, and so is division by it; other scales are a quotient, rounded (2
    units, as GPUs divide by a reciprocal), which their type may round to either neighbour.
    """
    x = inputs["x"]
    rows, error = _rows(x, op), _rows(np.broadcast_to(errors["x"], x.shape), op)
    size = np.abs(rows)
    low, high = np.maximum(size - error, 0.0).max(-1), (size + error).max(-1)
    divides = ctx.outputs["scale"].data_type is not _MX
    unit = 2 * ctx.roundoff if divides else 0.0
    ends = [
        _wanted(low, op, ctx) * (1 - unit),
        np.minimum(_wanted(high, op, ctx) * (1 + unit), ctx.outputs["scale"].data_type.largest),
    ]
    wanted = _wanted(size.max(-1), op, ctx)
    of_scale = np.maximum(wanted - ends[0], ends[1] - wanted)
    top = ctx.outputs["y"].data_type.largest
    y = _over(rows, _held(wanted, ctx), top)
    of_y = np.zeros(y.shape)
    for end in ends:
        for shifted in (rows - error, rows + error):
            of_y = np.maximum(of_y, np.abs(_over(shifted, _held(end, ctx), top) - y))
    of_y = of_y + unit * np.abs(y)
    return {
        "y": _back(of_y, op, ctx.outputs["y"].dims),
        "scale": _back(of_scale, op, ctx.outputs["scale"].dims),
    }


def domain(op: BlockScaleQuantize, port: str, ctx: Context) -> Domain:
    return Domain(low=-6, high=6, zeros=0.1)


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain)
