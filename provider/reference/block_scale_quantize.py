"""Quantisation in blocks: each block is a row of a matrix, with one scale."""

# mypy: disable-error-code="no-any-return"
# (NumPy types arithmetic on arrays of any element type as Any.)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides
from ...graph_api.ops.block_scale_quantize import BlockScaleQuantize
from .base import Arrays, Context, Domain, Reference, Sample, sampler
from .building import sample_graph
from .convert import Array, to_dtype, widen

__all__ = ["REFERENCE", "sample_problems"]

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


def _quantise(
    dims: Dims,
    block_size: int,
    element: DataType = DataType.FP8_E4M3,
    factor: DataType = _MX,
    *,
    axis: int | None = None,
    transpose: bool = False,
    strides: Dims | None = None,
    compute: DataType | None = None,
) -> Callable[[DataType], Graph]:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type, compute)
        x = g.tensor(dims=dims, strides=strides, name="x")
        y, scale = g.block_scale_quantize(x, block_size=block_size, axis=axis, transpose=transpose)
        g.output(y, name="y", data_type=element)
        g.output(scale, name="scale", data_type=factor)
        return g

    return build


def _after_relu(data_type: DataType) -> Graph:
    """Return a graph that quantises what it computed; a block is 0 altogether."""
    g = sample_graph(data_type)
    x = g.relu(g.tensor(dims=(4, 64), name="x"))
    y, scale = g.block_scale_quantize(x, block_size=2)
    g.output(y, name="y", data_type=DataType.FP8_E5M2)
    g.output(scale, name="scale", data_type=_MX)
    return g


def _there_and_back(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    y, scale = g.block_scale_quantize(g.tensor(dims=(6, 32), name="x"), block_size=16)
    y.set_data_type(DataType.FP6_E2M3)
    scale.set_data_type(_MX)
    g.output(g.block_scale_dequantize(y, scale, block_size=16), name="z")
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of quantisation in blocks."""
    t = DataType
    image = (2, 32, 3, 5)
    built = {
        "mxfp8_e4m3": _quantise((5, 64), 32),
        "mxfp8_e5m2": _quantise((5, 64), 32, t.FP8_E5M2),
        "mxfp6_e2m3": _quantise((3, 32), 32, t.FP6_E2M3),
        "mxfp6_e3m2": _quantise((3, 32), 32, t.FP6_E3M2),
        "mxfp4": _quantise((5, 64), 32, t.FP4_E2M1),
        "nvfp4": _quantise((5, 48), 16, t.FP4_E2M1, t.FP8_E4M3),
        "fnuz": _quantise((4, 32), 16, t.FP8_E4M3_FNUZ, t.FLOAT),
        "half_scale": _quantise((4, 32), 8, t.FP8_E5M2_FNUZ, t.HALF),
        "first_axis": _quantise((32, 7), 16, axis=0),
        "channels_nhwc": _quantise(image, 16, axis=1, strides=channels_last_strides(image)),
        "transposed": _quantise((3, 32, 5), 16, t.FP4_E2M1, axis=-2, transpose=True),
        "rank1": _quantise((13,), 13),
        "block_of_1": _quantise((3, 5), 1, t.FP4_E2M1),
        "one_block": _quantise((7, 33), 33),
        "after_relu": _after_relu,
        "there_and_back": _there_and_back,
    }
    sample = sampler("block_scale_quantize")
    return (
        *(sample(name, build) for name, build in built.items()),
        sample("compute_half", _quantise((4, 32), 16, compute=t.HALF), dtypes=(t.HALF,)),
    )


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain, samples=sample_problems)
