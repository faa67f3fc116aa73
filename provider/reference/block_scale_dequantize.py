"""Block-scaled numbers: each element times the scale of its block, found by its index."""

# mypy: disable-error-code="no-any-return"
# (NumPy types arithmetic on arrays of any element type as Any.)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides
from ...graph_api.ops.block_scale_dequantize import BlockScaleDequantize
from .analysis import rounding
from .base import NARROW, Arrays, Context, Domain, Reference, Sample, sampler
from .convert import Array

__all__ = ["REFERENCE", "sample_problems"]

_MX = DataType.FP8_E8M0
Dims = tuple[int, ...]


def _repeated(scale: Array, dims: Dims) -> Array:
    scale = np.asarray(scale)
    places = [np.arange(m) // (m // n) for m, n in zip(dims, scale.shape, strict=True)]
    return scale[np.ix_(*places)]


def evaluate(op: BlockScaleDequantize, inputs: Arrays, ctx: Context) -> Arrays:
    x = inputs["x"]
    return {"y": x * _repeated(inputs["scale"], x.shape)}


def bound(
    op: BlockScaleDequantize, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context
) -> Arrays:
    """One correctly rounded product, and what the operands are off by."""
    x, scale = np.abs(inputs["x"]), np.abs(_repeated(inputs["scale"], inputs["x"].shape))
    of_x = np.broadcast_to(errors["x"], x.shape)
    of_scale = np.broadcast_to(errors["scale"], inputs["scale"].shape)
    passed = of_x * scale + (x + of_x) * _repeated(of_scale, x.shape)
    return {"y": passed + rounding(outputs["y"], passed, ctx.compute)}


def domain(op: BlockScaleDequantize, port: str, ctx: Context) -> Domain:
    return Domain(low=-4, high=4, ints=(-100, 100))


def unsupported(op: BlockScaleDequantize) -> str:
    return "is_negative_scale has no known meaning" if op.is_negative_scale else ""


def _dequantise(
    dims: Dims,
    blocks: Dims,
    *,
    factor: DataType = _MX,
    block_size: int | None = None,
    strides: Dims | None = None,
    result: DataType = DataType.FLOAT,
    compute: DataType = DataType.FLOAT,
) -> Callable[[DataType], Graph]:
    def build(data_type: DataType) -> Graph:
        g = Graph(io_data_type=data_type, compute_data_type=compute)
        x = g.tensor(dims=dims, strides=strides, name="x")
        scale = g.tensor(dims=blocks, data_type=factor, name="scale")
        y = g.block_scale_dequantize(x, scale, block_size=block_size)
        g.output(y, name="y", data_type=result)
        return g

    return build


def _matmul(data_type: DataType) -> Graph:
    """Return a product of two block-scaled matrices, both in blocks along the depth."""
    g = Graph(io_data_type=data_type, compute_data_type="float", intermediate_data_type="half")
    a, b = g.tensor(dims=(32, 64), name="a"), g.tensor(dims=(64, 32), strides=(1, 64), name="b")
    of_a = g.tensor(dims=(32, 2), data_type=_MX)
    of_b = g.tensor(dims=(2, 32), strides=(1, 2), data_type=_MX)
    left, right = g.block_scale_dequantize(a, of_a), g.block_scale_dequantize(b, of_b)
    g.output(g.matmul(left, right), name="c", data_type="float")
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of block-scaled numbers."""
    t, image = DataType, (2, 32, 3, 5)
    built = {
        "mx": _dequantise((5, 64), (5, 2), block_size=32),
        "nvfp4": _dequantise((5, 48), (5, 3), factor=t.FP8_E4M3, block_size=16, result=t.HALF),
        "float_scale": _dequantise((3, 5, 7), (3, 5, 1), factor=t.FLOAT, block_size=7),
        "first_axis": _dequantise((32, 7), (2, 7), block_size=16),
        "squares": _dequantise((6, 8, 9), (6, 2, 3), factor=t.HALF),
        "one_scale": _dequantise((5, 7), (1, 1), factor=t.FLOAT),
        "scale_each": _dequantise((5, 7), (5, 7)),
        "channels_nhwc": _dequantise(image, (2, 2, 3, 5), strides=channels_last_strides(image)),
        "compute_half": _dequantise((5, 32), (5, 2), compute=t.HALF, result=t.HALF),
        "to_bfloat16": _dequantise((5, 32), (5, 2), result=t.BFLOAT16),
        "compute_double": _dequantise(
            (5, 32), (5, 2), factor=t.DOUBLE, compute=t.DOUBLE, result=t.DOUBLE
        ),
        "matmul": _matmul,
    }
    sample = sampler("block_scale_dequantize", (*NARROW, t.FLOAT, t.HALF, t.INT8))
    return tuple(sample(name, build) for name, build in built.items())


REFERENCE = Reference(
    evaluate=evaluate,
    bound=bound,
    domain=domain,
    samples=sample_problems,
    unsupported=unsupported,
)
