"""Reductions: every mode works on rows, the reduced elements lying side by side."""

# mypy: disable-error-code="no-any-return"
# (NumPy types arithmetic on arrays of any element type as Any.)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.enums import ReductionMode
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides, strides_in_order
from ...graph_api.ops.reduction import Reduction
from .analysis import accumulated, sum_range
from .base import FLOATS, INTEGERS, NUMBERS, Arrays, Context, Domain, Reference, Sample, sampler
from .building import padded_strides, sample_graph, wide_type
from .convert import Array, wrap

__all__ = ["REFERENCE", "sample_problems"]

_M = ReductionMode
Dims = tuple[int, ...]


def _no_zeros(rows: Array) -> Array:
    return np.where(rows == 0, 1, rows)


_FLOAT: dict[ReductionMode, Callable[[Array], Array]] = {
    _M.ADD: lambda r: r.sum(-1),
    _M.MUL: lambda r: r.prod(-1),
    _M.MIN: lambda r: r.min(-1),
    _M.MAX: lambda r: r.max(-1),
    _M.AMAX: lambda r: np.abs(r).max(-1),
    _M.AVG: lambda r: r.mean(-1),
    _M.NORM1: lambda r: np.abs(r).sum(-1),
    _M.NORM2: lambda r: np.sqrt(np.square(r).sum(-1)),
    _M.MUL_NO_ZEROS: lambda r: _no_zeros(r).prod(-1),
}


def _integer(mode: ReductionMode, rows: Array, compute: DataType) -> Array:
    """Return a reduction in integers; |x|, sums and products wrap."""
    if mode in (_M.AMAX, _M.NORM1):
        rows, mode = wrap(np.abs(rows), compute), _M.MAX if mode is _M.AMAX else _M.ADD
    return wrap(_FLOAT[mode](rows), compute)


def _axes(ctx: Context) -> Dims:
    x, y = ctx.inputs["x"].dims, ctx.outputs["y"].dims
    return tuple(i for i, (m, n) in enumerate(zip(x, y, strict=True)) if n == 1 and m > 1)


def _rows(x: Array, ctx: Context) -> Array:
    """Return (kept..., n), contiguous, so that NumPy adds in pairs."""
    axes = _axes(ctx)
    moved = np.moveaxis(x, axes, range(-len(axes), 0)) if axes else x[..., None]
    return np.ascontiguousarray(moved).reshape(*moved.shape[: x.ndim - len(axes)], -1)


def evaluate(op: Reduction, inputs: Arrays, ctx: Context) -> Arrays:
    rows = _rows(inputs["x"], ctx)
    real = ctx.compute.is_float
    y = _FLOAT[op.mode](rows) if real else _integer(op.mode, rows, ctx.compute)
    return {"y": y.reshape(ctx.outputs["y"].dims)}


def bound(op: Reduction, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    x = _rows(inputs["x"], ctx)
    e = _rows(np.broadcast_to(errors["x"], inputs["x"].shape), ctx)
    y = outputs["y"].reshape(x.shape[:-1]).astype(np.float64)
    return {"y": _BOUNDS[op.mode](x, e, y, ctx).reshape(ctx.outputs["y"].dims)}


def _sum_bound(x: Array, e: Array, y: Array, ctx: Context) -> Array:
    error = e.sum(-1)
    if not ctx.compute.is_float:
        return error
    return error + accumulated(np.abs(x).sum(-1), x.shape[-1], ctx, x)


def _mean_bound(x: Array, e: Array, y: Array, ctx: Context) -> Array:
    # Two more roundings where the sum is multiplied by a rounded 1/n.
    return _sum_bound(x, e, y, ctx) / x.shape[-1] + 2 * ctx.roundoff * np.abs(y)


def _product_bound(x: Array, e: Array, y: Array, ctx: Context) -> Array:
    size = np.abs(x).astype(np.float64)
    each = np.prod(size + e, -1)
    return each - np.prod(size, -1) + x.shape[-1] * ctx.roundoff * each


def _no_zeros_bound(x: Array, e: Array, y: Array, ctx: Context) -> Array:
    known = _product_bound(_no_zeros(x), np.where(x == 0, 0.0, e), y, ctx)
    # Where an error decides whether an element counts as zero, nothing can be said.
    return np.where(((e > 0) & (np.abs(x) <= e)).any(-1), np.inf, known)


def _norm_bound(x: Array, e: Array, y: Array, ctx: Context) -> Array:
    squares = np.square(x.astype(np.float64)).sum(-1)
    error = accumulated(squares, x.shape[-1], ctx, x)
    # |sqrt(s + d) - sqrt(s)| <= d / sqrt(s); the root itself is good to 3 units.
    root = np.where(y > 0, error / np.where(y > 0, y, 1.0), np.sqrt(error))
    return root + np.sqrt(np.square(e).sum(-1)) + 3 * ctx.roundoff * y


def _largest_bound(x: Array, e: Array, y: Array, ctx: Context) -> Array:
    return e.max(-1)


_BOUNDS: dict[ReductionMode, Callable[[Array, Array, Array, Context], Array]] = {
    _M.ADD: _sum_bound,
    _M.MUL: _product_bound,
    _M.MIN: _largest_bound,
    _M.MAX: _largest_bound,
    _M.AMAX: _largest_bound,
    _M.AVG: _mean_bound,
    _M.NORM1: _sum_bound,
    _M.NORM2: _norm_bound,
    _M.MUL_NO_ZEROS: _no_zeros_bound,
}


def domain(op: Reduction, port: str, ctx: Context) -> Domain:
    n = int(np.prod([ctx.inputs["x"].dims[a] for a in _axes(ctx)], dtype=np.int64))
    if op.mode in (_M.MUL, _M.MUL_NO_ZEROS):
        spread = min(0.25, 2.0 / n**0.5)
        zeros = 0.25 if op.mode is _M.MUL_NO_ZEROS else 0.0
        top = 2 if n <= 24 else 1
        return Domain(
            low=-1 - spread,
            high=1 + spread,
            away=1 - spread,
            zeros=zeros,
            ints=(-top, top),
            strict=True,
        )
    return Domain(ints=sum_range(n, ctx, "x", factors=1))


def _reduce(
    mode: ReductionMode,
    dims: Dims,
    axes: Dims,
    *,
    strides: Dims | None = None,
    result_strides: Dims | None = None,
    result: DataType | None = None,
    compute: DataType | None = None,
) -> Callable[[DataType], Graph]:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type, compute)
        x = g.tensor(dims=dims, strides=strides, name="x")
        y = g.output(g.reduction(x, mode=mode, axes=axes), name="y", data_type=result or "")
        if result_strides:
            y.set_stride(result_strides)
        if result is None and not data_type.is_float:
            y.set_data_type(wide_type(data_type))
        return g

    return build


def _by_result_dims(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    y = g.reduction(g.tensor(dims=(4, 6, 5)), mode=_M.ADD)
    y.set_dim((4, 1, 1)).set_output()
    return g


def _variance(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x = g.tensor(dims=(6, 40))
    centred = g.sub(x, g.reduction(x, mode=_M.AVG, axes=1))
    g.reduction(g.mul(centred, centred), mode=_M.AVG, axes=1).set_output()
    return g


def _softmax(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x = g.tensor(dims=(7, 33))
    e = g.exp(g.sub(x, g.reduction(x, mode=_M.MAX, axes=1)))
    g.div(e, g.reduction(e, mode=_M.ADD, axes=1)).set_output()
    return g


_SHAPES: tuple[tuple[str, Dims, Dims, str], ...] = (
    ("last", (5, 7, 32), (2,), "prime"),
    ("first", (31, 4, 6), (0,), "prime"),
    ("middle", (4, 17, 6), (1,), "tile prime"),
    ("outer_and_inner", (4, 6, 9), (0, 2), ""),
    ("spatial", (2, 8, 6, 6), (2, 3), ""),
    ("batch_and_spatial", (3, 5, 7, 7), (0, 2, 3), "prime"),
    ("all", (3, 5, 7), (0, 1, 2), "prime full"),
    ("rank1", (63,), (0,), "tile full"),
    ("extent1", (4, 1, 6), (1,), "size1"),
    ("single", (1,), (0,), "size1 full"),
    ("tile_plus1", (3, 65), (1,), "tile"),
    ("rank6", (2, 3, 2, 2, 3, 2), (1, 4), ""),
    ("long", (2, 8192), (1,), "long"),
    ("long_columns", (4099, 3), (0,), "long prime"),
)
_X = (2, 6, 5, 7)
_LAYOUTS: tuple[tuple[str, Dims, dict[str, Any], str], ...] = (
    ("nhwc", (2, 3), {"strides": channels_last_strides(_X)}, "nhwc"),
    ("nhwc_channels", (1,), {"strides": channels_last_strides(_X)}, "nhwc"),
    ("odd_permutation", (0, 2), {"strides": strides_in_order(_X, (2, 0, 3, 1))}, "permuted"),
    (
        "result_permuted",
        (2,),
        {"result_strides": strides_in_order((2, 6, 1, 7), (3, 0, 2, 1))},
        "mixed_layout",
    ),
    ("padded", (3,), {"strides": tuple(padded_strides(_X, range(4), (0, 1, 0, 2)))}, "padded"),
    ("broadcast_kept", (3,), {"strides": (35, 0, 7, 1)}, "broadcast"),
    ("broadcast_reduced", (1, 3), {"strides": (35, 0, 7, 1)}, "broadcast"),
)


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of the reductions."""
    half, float_, double = DataType.HALF, DataType.FLOAT, DataType.DOUBLE
    int32 = DataType.INT32
    sample = sampler("reduction", NUMBERS)
    modes: dict[ReductionMode, tuple[DataType, ...]] = {
        m: NUMBERS for m in _M if m is not _M.NOT_SET
    }
    modes |= {_M.AVG: FLOATS, _M.NORM2: FLOATS}
    low, long = (half, DataType.BFLOAT16), (2, 8192)
    return (
        *(sample(m.json, _reduce(m, (4, 9, 11), (1,)), "mode", t) for m, t in modes.items()),
        *(
            sample(f"{m.json}_all", _reduce(m, (5, 33), (0, 1)), "mode full", t)
            for m, t in modes.items()
        ),
        *(sample(name, _reduce(_M.ADD, dims, axes), tags) for name, dims, axes, tags in _SHAPES),
        *(
            sample(name, _reduce(_M.ADD, _X, axes, **strides), tags)
            for name, axes, strides, tags in _LAYOUTS
        ),
        *(
            sample(
                f"{m.json}_nhwc", _reduce(m, _X, (1,), strides=channels_last_strides(_X)), "nhwc"
            )
            for m in (_M.MAX, _M.AMAX, _M.NORM1, _M.MUL)
        ),
        sample("by_result_dims", _by_result_dims, "", FLOATS),
        sample("mean_long", _reduce(_M.AVG, long, (1,)), "long", FLOATS),
        sample("norm2_long", _reduce(_M.NORM2, long, (1,)), "long", FLOATS),
        sample("mul_long", _reduce(_M.MUL, (2, 1000), (1,)), "long", FLOATS),
        sample("half_to_float", _reduce(_M.ADD, (5, 64), (1,), result=float_), "mixed", low),
        sample("float_to_half", _reduce(_M.AVG, (5, 64), (1,), result=half), "mixed", (float_,)),
        sample("compute_half", _reduce(_M.ADD, (5, 64), (1,), compute=half), "compute", (half,)),
        sample("compute_double", _reduce(_M.ADD, (5, 64), (1,), compute=double), "compute", FLOATS),
        sample(
            "narrow_result",
            _reduce(_M.ADD, (9, 64), (1,), result=DataType.INT8),
            "mixed saturate",
            INTEGERS,
        ),
        sample("float_to_int", _reduce(_M.ADD, (9, 64), (1,), result=int32), "mixed", FLOATS),
        sample(
            "int_mean_in_float",
            _reduce(_M.AVG, (9, 64), (1,), result=float_, compute=float_),
            "mixed compute",
            INTEGERS,
        ),
        sample("variance", _variance, "chain broadcast", FLOATS),
        sample("softmax", _softmax, "chain broadcast", FLOATS),
    )


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain, samples=sample_problems)
