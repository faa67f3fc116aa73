# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pooling: all windows of the padded input side by side, as one more dim.  Resizing."""

from __future__ import annotations

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.enums import PaddingMode
from ...graph_api.enums import ResampleMode as Mode
from ...graph_api.ops.resample_fwd import ResampleFwd, ResampleOp
from .analysis import accumulated
from .base import (
    Arrays,
    Context,
    Domain,
    Reference,
)
from .convert import Array, int_range
from .resize import resized, resized_bound

__all__ = ["REFERENCE", "counts", "windows"]

Dims = tuple[int, ...]


def windows(op: ResampleOp, x: Array, fill: float) -> Array:
    """Return (N, C, windows..., elements): the elements of each window, row by row."""
    rank = x.ndim - 2
    around = [(0, 0), (0, 0), *zip(op.pre_padding, op.post_padding, strict=True)]
    wide = np.pad(x, around, constant_values=fill)
    seen = np.lib.stride_tricks.sliding_window_view(wide, op.window, axis=tuple(range(2, x.ndim)))
    stepped = seen[(slice(None), slice(None), *(slice(None, None, s) for s in op.stride))]
    return stepped.reshape(*stepped.shape[: 2 + rank], -1)


def counts(op: ResampleOp, input_dims: Dims) -> Array:
    """Return what each window's sum is divided by, with dims (1, 1, windows...)."""
    if op.resample_mode is Mode.AVGPOOL_INCLUDE_PADDING:
        return np.full((1,) * len(input_dims), float(np.prod(op.window)))
    return windows(op, np.ones((1, 1, *input_dims[2:])), 0).sum(-1)


def _indices(op: ResampleOp, input_dims: Dims) -> Array:
    """Return the indices of the elements of each window, counted row by row; -1 for padding."""
    line = np.arange(np.prod(input_dims[2:], dtype=np.int64)).reshape(1, 1, *input_dims[2:])
    return windows(op, line, -1)


def _fill(op: ResampleOp, x: Array) -> float:
    if op.resample_mode is not Mode.MAXPOOL or op.padding_mode is PaddingMode.ZERO_PAD:
        return 0
    return -np.inf if x.dtype.kind == "f" else int_range(DataType.INT64)[0]


def evaluate(op: ResampleFwd, inputs: Arrays, ctx: Context) -> Arrays:
    x = inputs["x"]
    if op.resizes:
        return {"y": resized(op, x, ctx.outputs["y"].dims)}
    seen = windows(op, x, _fill(op, x))
    if op.averages:
        return {"y": seen.sum(-1) / counts(op, x.shape)}
    chosen = seen.argmax(-1)[..., None]
    found = {"y": np.take_along_axis(seen, chosen, -1)[..., 0]}
    if op.generate_index:
        indices = np.broadcast_to(_indices(op, x.shape), seen.shape)
        found["index"] = np.take_along_axis(indices, chosen, -1)[..., 0]
    return found


def bound(op: ResampleFwd, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    x, y = inputs["x"], outputs["y"]
    e = np.broadcast_to(errors["x"], x.shape).astype(np.float64)
    if op.resizes:
        return {"y": resized_bound(op, x, e, y.shape, ctx)}
    off = windows(op, e, 0)
    if op.averages:
        size = windows(op, np.abs(x).astype(np.float64), 0).sum(-1)
        sums = accumulated(size, int(np.prod(op.window)), ctx, x) + off.sum(-1)
        return {"y": sums / counts(op, x.shape) + ctx.roundoff * np.abs(y)}
    found = {"y": off.max(-1)}
    if op.generate_index:
        seen, indices = windows(op, x, _fill(op, x)), _indices(op, x.shape)
        # Another element might be the largest one, where it comes within the errors of both.
        rival = indices != outputs["index"][..., None]
        close = seen + off >= (y - off.max(-1))[..., None]
        unsure = (rival & close & (off + off.max(-1)[..., None] > 0)).any(-1)
        found["index"] = np.where(unsure, np.inf, 0.0)
    return found


def domain(op: ResampleFwd, port: str, ctx: Context) -> Domain:
    # A grid makes ties, among which the index has to be the first.
    if op.resizes:
        return Domain()
    return Domain(grid=0.0625 if op.generate_index else 0.0, ints=(-100, 100))


def _as_it_is(op: ResampleFwd, ctx: Context) -> frozenset[str]:
    return frozenset({"x"} if op.resample_mode is Mode.NEAREST else ())


REFERENCE = Reference(
    evaluate=evaluate,
    bound=bound,
    domain=domain,
    exact_ports=_as_it_is,
)
