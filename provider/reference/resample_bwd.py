"""Gradient of pooling: every window's share is scattered into the (padded) image.  Of resizing."""

# mypy: disable-error-code="no-any-return"
# (NumPy types arithmetic on arrays of any element type as Any.)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.enums import ResampleMode as Mode
from ...graph_api.enums import ResizeCoordinates as Coordinates
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides
from ...graph_api.ops.resample_bwd import ResampleBwd
from .analysis import accumulated, growth
from .base import Arrays, Context, Domain, Reference, Sample, Sampler, sampler
from .building import sample_graph
from .convert import Array
from .resample_fwd import counts
from .resize import CASES, LAYOUTS, adjoint, adjoint_bound, resizing

__all__ = ["REFERENCE", "sample_problems"]

Dims = tuple[int, ...]


def _scatter(op: ResampleBwd, dy: Array, index: Array | None, image: Dims) -> Array:
    """Return dx (N, C, spatial...)."""
    sides = list(zip(image[2:], op.pre_padding, op.post_padding, strict=True))
    wide = np.zeros((*image[:2], *(n + pre + post for n, pre, post in sides)), dtype=dy.dtype)
    own = np.pad(
        np.arange(np.prod(image[2:])).reshape(1, 1, *image[2:]),
        [(0, 0), (0, 0), *((pre, post) for _, pre, post in sides)],
        constant_values=-2,  # what no index says
    )
    if op.resample_mode is not Mode.MAXPOOL:
        dy = dy / counts(op, image)
    for tap in np.ndindex(*op.window):
        at = (
            slice(None),
            slice(None),
            *(
                slice(t, t + (n - 1) * s + 1, s)
                for t, n, s in zip(tap, dy.shape[2:], op.stride, strict=True)
            ),
        )
        wide[at] += dy if index is None else np.where(index == own[at], dy, 0)
    inner = (slice(pre, pre + n) for n, pre, _ in sides)
    return wide[(slice(None), slice(None), *inner)]


def evaluate(op: ResampleBwd, inputs: Arrays, ctx: Context) -> Arrays:
    image = ctx.outputs["dx"].dims
    if op.resizes:
        return {"dx": ctx.finish(adjoint(op, inputs["dy"], image))}
    dx = _scatter(op, inputs["dy"], inputs.get("index"), image)
    return {"dx": ctx.finish(dx)}


def bound(op: ResampleBwd, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    dy, index, image = inputs["dy"], inputs.get("index"), ctx.outputs["dx"].dims
    if op.resizes:
        e = np.broadcast_to(errors["dy"], dy.shape).astype(np.float64)
        return {"dx": adjoint_bound(op, dy, e, image, ctx)}
    size = _scatter(op, np.abs(dy).astype(np.float64), index, image)
    off = np.broadcast_to(errors["dy"], dy.shape).astype(np.float64)
    found = _scatter(op, off, index, image)
    if np.any(errors.get("index", 0)):
        return {"dx": np.full(image, np.inf)}
    if not ctx.compute.is_float:
        return {"dx": found}
    terms = [-(-w // s) for w, s in zip(op.window, op.stride, strict=True)]
    sums = accumulated(size, int(np.prod(terms)), ctx, dy)
    if op.averages:
        # The shares are not whole numbers, and rounded once.
        sums = ctx.roundoff * (growth(int(np.prod(terms))) + 1) * size + ctx.tiny * (size > 0)
    return {"dx": found + sums}


def domain(op: ResampleBwd, port: str, ctx: Context) -> Domain:
    if port == "index":
        return Domain(ints=(-1, int(np.prod(ctx.outputs["dx"].dims[2:])) - 1))
    return Domain(ints=(-100, 100))


_SAME: dict[str, Any] = {"window": 3, "stride": 2, "pre_padding": 1, "post_padding": 1}
_Case = tuple[str, Dims, dict[str, Any], str]
_CASES: tuple[_Case, ...] = (
    ("2x2", (2, 3, 8, 6), {"window": 2, "stride": 2}, ""),
    ("ones", (1, 1, 1, 1), {"window": 1}, "size1"),
    ("3x3_stride2", (1, 5, 11, 13), _SAME, "padding prime"),
    ("overlapping", (2, 4, 7, 9), {"window": (3, 2)}, ""),
    ("step_above_window", (1, 3, 13, 12), {"window": 2, "stride": (5, 3)}, ""),
    (
        "asymmetric",
        (1, 3, 9, 10),
        {"window": (4, 3), "stride": (3, 2), "pre_padding": (3, 0), "post_padding": (1, 2)},
        "padding asymmetric",
    ),
    ("global", (2, 5, 7, 9), {"window": (7, 9)}, ""),
    ("1d", (2, 3, 17), _SAME, "1d padding"),
    ("3d", (1, 2, 5, 6, 7), _SAME, "3d padding"),
)
_X = (2, 6, 7, 9)


def _gradient(
    mode: Mode,
    dims: Dims,
    parameters: dict[str, Any],
    *,
    nhwc: bool = False,
    compute: DataType | None = None,
    result: DataType | None = None,
    drawn: bool = False,
) -> Callable[[DataType], Graph]:
    """Return the builder of a gradient; MAXPOOL's index is computed, or ``drawn`` at random."""

    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type, compute)
        padding = {"padding_mode": "neg_inf_pad" if mode is Mode.MAXPOOL else "zero_pad"}
        options = {"resample_mode": mode, **padding, **parameters}
        lies = channels_last_strides if nhwc else (lambda d: None)
        probe = Graph(io_data_type=data_type, compute_data_type="float")
        y = probe.resample_fwd(probe.tensor(dims=dims), **options).y.set_output()
        shape = probe.freeze().tensors[y.uid].dims
        dy = g.tensor(dims=shape, strides=lies(shape), name="dy")
        index = None
        if mode is Mode.MAXPOOL and drawn:
            index = g.tensor(dims=shape, data_type="int32", name="index")
        elif mode is Mode.MAXPOOL:
            x = g.tensor(dims=dims, strides=lies(dims), name="x")
            index = g.resample_fwd(x, **options, generate_index=True).index
        dx = g.resample_bwd(dy, index=index, dx_dims=dims, **options)
        g.output(dx, name="dx", data_type=result or "")
        return g

    return build


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of the gradient of pooling."""
    largest, inside, over = Mode.MAXPOOL, Mode.AVGPOOL_EXCLUDE_PADDING, Mode.AVGPOOL_INCLUDE_PADDING
    half, double = DataType.HALF, DataType.DOUBLE
    sample = sampler("resample_bwd")
    return (
        *(
            sample(f"max_{c[0]}", _gradient(largest, c[1], c[2]), c[3] + " chain")
            for c in _CASES
            if c[0] != "global"
        ),
        *(sample(f"avg_{c[0]}", _gradient(inside, c[1], c[2]), c[3]) for c in _CASES[4:]),
        *(sample(f"sum_{c[0]}", _gradient(over, c[1], c[2]), c[3]) for c in _CASES[2:4]),
        sample("max_nhwc", _gradient(largest, _X, _SAME, nhwc=True), "nhwc chain"),
        sample("avg_nhwc", _gradient(inside, _X, _SAME, nhwc=True), "nhwc"),
        sample("any_index", _gradient(largest, (2, 3, 4, 5), _SAME, drawn=True)),
        sample("float_to_half", _gradient(inside, _X, _SAME, result=half), "", (DataType.FLOAT,)),
        sample("half_to_float", _gradient(over, _X, _SAME, result=DataType.FLOAT), "", (half,)),
        sample("compute_half", _gradient(over, _X, _SAME, compute=half), "compute", (half,)),
        sample("compute_double", _gradient(inside, _X, _SAME, compute=double), "compute"),
        *_resizes(sample),
    )


def _resizes(sample: Sampler) -> tuple[Sample, ...]:
    """Return the sample problems of the gradients of BILINEAR and NEAREST."""
    linear, nearest, half = Mode.BILINEAR, Mode.NEAREST, DataType.HALF

    def gradient(
        mode: Mode, case: str, tags: str = "", dtypes: tuple[DataType, ...] = (), **options: Any
    ) -> Sample:
        name, (dims, size, more) = f"{mode.json}_{case}", CASES[case]
        name += "".join(f"_{option}_{v.json}" for option, v in options.items())
        build = resizing(mode, dims, size, backward=True, **options)
        return sample(name, build, f"{more} {tags}", dtypes)

    def lying(mode: Mode, layout: str) -> Sample:
        strides, tags = LAYOUTS[layout]
        build = resizing(mode, (*_X[:2], 3, 4), (5, 7), strides=strides, backward=True)
        return sample(f"{mode.json}_{layout}", build, tags)

    linears = ("double", "smaller", "from_one", "sevenfold", "1d", "3d")
    return (
        *(gradient(linear, case) for case in linears),
        *(gradient(nearest, case) for case in ("double", "to_prime", "smaller")),
        gradient(linear, "up_and_down", coordinates=Coordinates.ALIGN_CORNERS),
        gradient(nearest, "to_prime", coordinates=Coordinates.ASYMMETRIC),
        *(lying(linear, layout) for layout in LAYOUTS),
        lying(nearest, "nhwc"),
        gradient(linear, "up_and_down", "compute", (half,), compute=half),
    )


REFERENCE = Reference(
    evaluate=evaluate,
    bound=bound,
    domain=domain,
    samples=sample_problems,
    exact_ports=lambda op, ctx: frozenset({"index"}),
)
