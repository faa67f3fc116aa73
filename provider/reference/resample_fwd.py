"""Pooling: all windows of the padded image side by side, as one more dim.  Resizing."""

# mypy: disable-error-code="no-any-return"
# (NumPy types arithmetic on arrays of any element type as Any.)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.enums import PaddingMode
from ...graph_api.enums import ResampleMode as Mode
from ...graph_api.enums import ResizeCoordinates as Coordinates
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides, strides_in_order
from ...graph_api.ops.resample_fwd import ResampleFwd, ResampleOp
from .analysis import accumulated
from .base import (
    FLOATS,
    FP8,
    INTEGERS,
    NUMBERS,
    PACKED,
    Arrays,
    Context,
    Domain,
    Reference,
    Sample,
    Sampler,
    sampler,
)
from .building import padded_strides, sample_graph
from .convert import Array, int_range
from .resize import CASES, IMAGE, LAYOUTS, resized, resized_bound, resizing

__all__ = ["REFERENCE", "counts", "sample_problems", "windows"]

Dims = tuple[int, ...]


def windows(op: ResampleOp, x: Array, fill: float) -> Array:
    """Return (N, C, windows..., elements): what each window sees, row by row."""
    rank = x.ndim - 2
    around = [(0, 0), (0, 0), *zip(op.pre_padding, op.post_padding, strict=True)]
    wide = np.pad(x, around, constant_values=fill)
    seen = np.lib.stride_tricks.sliding_window_view(wide, op.window, axis=tuple(range(2, x.ndim)))
    stepped = seen[(slice(None), slice(None), *(slice(None, None, s) for s in op.stride))]
    return stepped.reshape(*stepped.shape[: 2 + rank], -1)


def counts(op: ResampleOp, image: Dims) -> Array:
    """Return what each window's sum is divided by, with dims (1, 1, windows...)."""
    if op.resample_mode is Mode.AVGPOOL_INCLUDE_PADDING:
        return np.full((1,) * len(image), float(np.prod(op.window)))
    return windows(op, np.ones((1, 1, *image[2:])), 0).sum(-1)


def _places(op: ResampleOp, image: Dims) -> Array:
    """Return the positions that each window sees, counted row by row; -1 for padding."""
    line = np.arange(np.prod(image[2:], dtype=np.int64)).reshape(1, 1, *image[2:])
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
        places = np.broadcast_to(_places(op, x.shape), seen.shape)
        found["index"] = np.take_along_axis(places, chosen, -1)[..., 0]
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
        seen, places = windows(op, x, _fill(op, x)), _places(op, x.shape)
        # Another element might be the largest one, where it comes within the errors of both.
        rival = places != outputs["index"][..., None]
        close = seen + off >= (y - off.max(-1))[..., None]
        unsure = (rival & close & (off + off.max(-1)[..., None] > 0)).any(-1)
        found["index"] = np.where(unsure, np.inf, 0.0)
    return found


def domain(op: ResampleFwd, port: str, ctx: Context) -> Domain:
    # A grid makes ties, among which the index has to be the first.
    if op.resizes:
        return Domain()
    return Domain(grid=0.0625 if op.generate_index else 0.0, ints=(-100, 100))


_SAME: dict[str, Any] = {"window": 3, "stride": 2, "pre_padding": 1, "post_padding": 1}
_Case = tuple[str, Dims, dict[str, Any], str]
_CASES: tuple[_Case, ...] = (
    ("2x2", (2, 3, 8, 6), {"window": 2, "stride": 2}, ""),
    ("ones", (1, 1, 1, 1), {"window": 1}, "size1"),
    ("3x3_stride2", (1, 5, 11, 13), _SAME, "padding prime"),
    ("3x2_overlapping", (2, 4, 7, 9), {"window": (3, 2)}, ""),
    ("step_above_window", (1, 3, 13, 12), {"window": 2, "stride": (5, 3)}, ""),
    (
        "asymmetric",
        (1, 3, 9, 10),
        {"window": (4, 3), "stride": (3, 2), "pre_padding": (3, 0), "post_padding": (1, 2)},
        "padding asymmetric",
    ),
    ("global", (2, 5, 7, 9), {"window": (7, 9)}, ""),
    ("rows", (2, 3, 5, 17), {"window": (1, 4), "stride": (1, 4)}, "size1"),
    ("large", (1, 2, 15, 15), {"window": 8, "pre_padding": 4, "post_padding": 3}, "padding tile"),
    ("1d", (2, 3, 17), _SAME, "1d padding"),
    ("3d", (1, 2, 5, 6, 7), _SAME, "3d padding"),
)
_X = (2, 6, 7, 9)
_LAYOUTS: tuple[tuple[str, Dims, str], ...] = (
    ("nhwc", channels_last_strides(_X), "nhwc"),
    ("odd_permutation", strides_in_order(_X, (2, 0, 3, 1)), "permuted"),
    ("padded", tuple(padded_strides(_X, range(4), (0, 1, 0, 2))), "padded"),
    ("broadcast", (63, 0, 9, 1), "broadcast"),
)


def _pool(
    mode: Mode,
    dims: Dims,
    parameters: dict[str, Any],
    *,
    strides: Dims | None = None,
    index: str = "",
    compute: DataType | None = None,
    result: DataType | None = None,
) -> Callable[[DataType], Graph]:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type, compute)
        x = g.tensor(dims=dims, strides=strides, name="x")
        padding = {"padding_mode": "neg_inf_pad" if mode is Mode.MAXPOOL else "zero_pad"}
        found = g.resample_fwd(
            x, resample_mode=mode, generate_index=bool(index), **(padding | parameters)
        )
        g.output(found.y, name="y", data_type=result or "")
        if found.index is not None:
            g.output(found.index, name="index", data_type=index)
        return g

    return build


def _block(data_type: DataType) -> Graph:
    # The stem of a residual network behind its convolution.
    g = sample_graph(data_type)
    dims = (1, 4, 9, 9)
    x = g.tensor(dims=dims, strides=channels_last_strides(dims), name="x")
    y = g.resample_fwd(
        g.relu(g.add(x, g.tensor(dims=(1, 4, 1, 1), name="bias"))),
        resample_mode=Mode.MAXPOOL,
        padding_mode="neg_inf_pad",
        **_SAME,
    ).y
    g.output(y, name="y")
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of pooling."""
    largest, inside, over = Mode.MAXPOOL, Mode.AVGPOOL_EXCLUDE_PADDING, Mode.AVGPOOL_INCLUDE_PADDING
    half, double = DataType.HALF, DataType.DOUBLE
    sample = sampler("resample_fwd")
    zero = {"padding_mode": "zero_pad"}
    return (
        *(sample(f"max_{c[0]}", _pool(largest, c[1], c[2]), c[3], NUMBERS) for c in _CASES),
        *(sample(f"avg_{c[0]}", _pool(inside, c[1], c[2]), c[3]) for c in _CASES[5:]),
        *(sample(f"sum_{c[0]}", _pool(over, c[1], c[2]), c[3]) for c in _CASES[2:4]),
        *(
            sample(f"index_{c[0]}", _pool(largest, c[1], c[2], index="int32"), c[3])
            for c in _CASES
            if c[0] in ("ones", "3x3_stride2", "3x2_overlapping", "asymmetric", "1d", "3d")
        ),
        *(
            sample(name, _pool(largest, _X, _SAME, strides=strides), tags)
            for name, strides, tags in _LAYOUTS
        ),
        *(
            sample(f"avg_{name}", _pool(inside, _X, _SAME, strides=strides), tags)
            for name, strides, tags in _LAYOUTS[:2]
        ),
        sample(
            "index_nhwc", _pool(largest, _X, _SAME, strides=_LAYOUTS[0][1], index="int32"), "nhwc"
        ),
        sample("max_zero_pad", _pool(largest, (1, 5, 6, 7), _SAME | zero), "padding", NUMBERS),
        sample("index_zero_pad", _pool(largest, (1, 5, 6, 7), _SAME | zero, index="int64")),
        sample("index_int8", _pool(largest, (1, 5, 8, 16), _SAME, index="int8"), "mixed"),
        sample("float_to_half", _pool(inside, _X, _SAME, result=half), "mixed", (DataType.FLOAT,)),
        sample("half_to_double", _pool(largest, _X, _SAME, result=double), "mixed", (half,)),
        sample("compute_half", _pool(inside, _X, _SAME, compute=half), "compute", (half,)),
        sample("compute_double", _pool(over, _X, _SAME, compute=double), "compute"),
        sample("block", _block, "chain nhwc"),
        *_resizes(sample),
    )


def _resizes(sample: Sampler) -> tuple[Sample, ...]:
    """Return the sample problems of BILINEAR and NEAREST."""
    linear, nearest, half = Mode.BILINEAR, Mode.NEAREST, DataType.HALF
    whole = (*INTEGERS, DataType.BOOLEAN, *FP8[:1], *PACKED[:2])

    def resize(
        mode: Mode, case: str, tags: str = "", dtypes: tuple[DataType, ...] = (), **options: Any
    ) -> Sample:
        name, (dims, size, more) = f"{mode.json}_{case}", CASES[case]
        name += "".join(f"_{option}_{v.json}" for option, v in options.items())
        return sample(name, resizing(mode, dims, size, **options), f"{more} {tags}", dtypes)

    def lying(mode: Mode, layout: str, size: Dims) -> Sample:
        strides, tags = LAYOUTS[layout]
        name = f"{mode.json}_{layout}_{size[0]}x{size[1]}"
        return sample(name, resizing(mode, IMAGE, size, strides=strides), tags)

    linears = ("double", "smaller", "up_and_down", "from_one", "1d", "3d")
    return (
        *(resize(linear, case) for case in linears),
        *(resize(nearest, case) for case in ("double", "same", "3d")),
        *(resize(nearest, case, dtypes=FLOATS + whole) for case in ("half", "to_prime")),
        resize(linear, "up_and_down", coordinates=Coordinates.ALIGN_CORNERS),
        resize(linear, "double", coordinates=Coordinates.ASYMMETRIC),
        resize(nearest, "smaller", coordinates=Coordinates.ALIGN_CORNERS),
        *(lying(linear, layout, (7, 3)) for layout in LAYOUTS),
        *(lying(nearest, "nhwc", size) for size in ((7, 3), (10, 14))),
        resize(linear, "double", "mixed", FLOATS[:1], result=half),
        resize(linear, "up_and_down", "compute", (half,), compute=half),
        sample("bilinear_block", _upsampling, "chain nhwc"),
    )


def _upsampling(data_type: DataType) -> Graph:
    # A decoder's step: the coarse image, enlarged, joined with the finer one.
    g = sample_graph(data_type)
    dims, fine = (1, 4, 5, 4), (1, 4, 10, 8)
    x = g.tensor(dims=dims, strides=channels_last_strides(dims), name="x")
    skip = g.tensor(dims=fine, strides=channels_last_strides(fine), name="skip")
    y = g.resample_fwd(g.relu(x), resample_mode=Mode.BILINEAR, size=fine[2:]).y
    g.output(g.add(y, skip), name="y")
    return g


def _as_it_is(op: ResampleFwd, ctx: Context) -> frozenset[str]:
    return frozenset({"x"} if op.resample_mode is Mode.NEAREST else ())


REFERENCE = Reference(
    evaluate=evaluate,
    bound=bound,
    domain=domain,
    samples=sample_problems,
    exact_ports=_as_it_is,
)
