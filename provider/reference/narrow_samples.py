"""Sample problems with types of 8 bits and less, for the ops that the others are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...graph_api.dtypes import DataType
from ...graph_api.enums import PointwiseMode, ReductionMode
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides
from .base import FP8, NARROW, PACKED, Sample
from .building import padded_strides, sample_graph, wide_type

__all__ = ["sample_problems"]

Dims = tuple[int, ...]
Build = Callable[[DataType], Graph]
_HALF, _FLOAT, _SCALE = DataType.HALF, DataType.FLOAT, DataType.FP8_E8M0


def _matmul(
    a: Dims,
    b: Dims,
    *,
    result: DataType | None = _FLOAT,
    right: DataType | None = None,
    **strides: Dims,
) -> Build:
    """Return a builder of a · b; ``result`` None is the type of a, ``right`` the type of b."""

    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        x = g.tensor(dims=a, strides=strides.get("of_a"), name="a")
        y = g.tensor(dims=b, strides=strides.get("of_b"), name="b", data_type=right or data_type)
        c = g.output(g.matmul(x, y), name="c", data_type=result or data_type)
        if "of_c" in strides:
            c.set_stride(strides["of_c"])
        return g

    return build


def _conv(x: Dims, w: Dims, *, result: DataType | None = _FLOAT, nhwc: bool = False) -> Build:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        strides = [channels_last_strides(d) if nhwc else None for d in (x, w)]
        image = g.tensor(dims=x, strides=strides[0], name="x")
        taps = g.tensor(dims=w, strides=strides[1], name="w")
        y = g.conv_fprop(image, taps, padding=1)
        g.output(y, name="y", data_type=result or data_type)
        return g

    return build


def _apply(
    mode: PointwiseMode,
    *dims: Dims,
    source: DataType | None = None,
    result: DataType | None = None,
    strides: Dims | None = None,
    **attributes: Any,
) -> Build:
    """Return a builder of one mode; operands have the type of the sample or of ``source``.

    The result has the type ``result``, or that of the sample.
    """

    def build(data_type: DataType) -> Graph:
        wide = _FLOAT if source or result or data_type.is_float else wide_type(data_type)
        g = sample_graph(data_type, wide)
        operands = [g.tensor(dims=d, data_type=source or data_type, strides=strides) for d in dims]
        y = g.pointwise(*operands, mode=mode, **attributes)
        g.output(y, name="out_0", data_type=result or data_type)
        return g

    return build


def _reduce(
    mode: ReductionMode,
    dims: Dims,
    axes: Dims,
    result: DataType | None,
    strides: Dims | None = None,
) -> Build:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        x = g.tensor(dims=dims, strides=strides, name="x")
        kept = data_type if result is None else result
        g.output(g.reduction(x, mode=mode, axes=axes), name="y", data_type=kept)
        return g

    return build


def _quantise(data_type: DataType) -> Graph:
    """Return a graph that rounds to the type in between; where that is small, it saturates."""
    g = Graph(io_data_type="float", compute_data_type="float")
    x = g.tensor(dims=(5, 13), name="x")
    steps = g.mul(x, 4.0)
    steps.set_data_type(data_type)
    g.output(g.mul(steps, 0.5), name="y")
    return g


def _scaled(data_type: DataType) -> Graph:
    """Return a graph that multiplies each row by a power of two."""
    g = sample_graph(data_type)
    x, scale = g.tensor(dims=(4, 32)), g.tensor(dims=(4, 1), data_type=_SCALE)
    g.output(g.mul(x, scale), name="y", data_type=_FLOAT)
    return g


def _scalar(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x = g.tensor(dims=(3, 7))
    g.output(g.add(x, g.scalar(3, data_type=data_type)), name="y", data_type=_FLOAT)
    return g


# One problem of each of the other ops, which are the same in these types.
_BORROWED = (
    "batchnorm.permuted",
    "batchnorm_backward.one_per_channel",
    "batchnorm_inference.nchw_to_nhwc",
    "concatenate.padded",
    "conv_dgrad.stride_dilation",
    "conv_wgrad.3x3_dilation2",
    "layernorm.rows_training",
    "layernorm_backward.rows_without_statistics",
    "pad.before",
    "reshape.nhwc",
    "rmsnorm.rows_training",
    "rmsnorm_backward.bias",
    "sdpa.scale_tensor",
    "sdpa_backward.scale_tensor",
    "slice.padded",
    "transpose.broadcast",
)


def sample_problems(others: Iterable[Sample] = ()) -> tuple[Sample, ...]:
    """Return the sample problems with narrow types; some are among those of the ops."""
    add, identity, relu = PointwiseMode.ADD, PointwiseMode.IDENTITY, PointwiseMode.RELU_FWD
    padded = tuple(padded_strides((3, 5, 7), range(3), (0, 1, 2)))
    scales = (*NARROW, _SCALE)
    floats = (*FP8, DataType.FP4_E2M1, DataType.FP6_E2M3, DataType.FP6_E3M2)
    borrowed = [sample for sample in others if sample.name in _BORROWED]

    def sample(
        name: str, build: Build, tags: str = "", dtypes: tuple[DataType, ...] = NARROW
    ) -> Sample:
        return Sample(
            name=name, build=build, tags=frozenset(("narrow", *tags.split())), dtypes=dtypes
        )

    return (
        # An odd number of packed elements ends within a byte.
        sample("matmul.narrow_primes", _matmul((13, 29), (29, 17)), "prime"),
        sample("matmul.narrow_tiles", _matmul((32, 64), (64, 48)), "tile"),
        sample("matmul.narrow_batch", _matmul((3, 16, 32), (3, 32, 16)), "batch tile"),
        sample("matmul.narrow_result", _matmul((32, 64), (64, 48), result=None), "mixed"),
        sample(
            "matmul.narrow_transposed",
            _matmul((2, 9, 14), (2, 14, 5), of_b=(70, 1, 14), of_c=(45, 1, 9)),
            "transposed",
        ),
        sample("matmul.narrow_by_half", _matmul((9, 50), (50, 13), right=_HALF), "mixed"),
        sample(
            "matmul.narrow_by_bfloat16",
            _matmul((9, 50), (50, 13), right=DataType.BFLOAT16),
            "mixed",
        ),
        sample("matmul.narrow_by_e5m2", _matmul((9, 5), (5, 3), right=DataType.FP8_E5M2), "mixed"),
        sample("conv_fprop.narrow", _conv((2, 5, 7, 7), (3, 5, 3, 3)), "prime"),
        sample("conv_fprop.narrow_nhwc", _conv((1, 16, 6, 6), (16, 16, 3, 3), nhwc=True), "nhwc"),
        sample(
            "conv_fprop.narrow_result", _conv((1, 16, 6, 6), (16, 16, 3, 3), result=None), "mixed"
        ),
        sample("pointwise.narrow_add", _apply(add, (3, 5, 7), (3, 5, 7))),
        sample("pointwise.narrow_relu_nhwc", _apply(relu, (3, 5, 7), strides=(35, 1, 5)), "nhwc"),
        sample("pointwise.narrow_padded", _apply(relu, (3, 5, 7), result=_FLOAT, strides=padded)),
        sample(
            "pointwise.narrow_broadcast",
            _apply(identity, (3, 5, 7), result=_FLOAT, strides=(7, 0, 1)),
            "broadcast",
        ),
        sample("pointwise.narrow_copy", _apply(identity, (3, 5, 7)), "", scales),
        sample("pointwise.narrow_transpose", _apply(identity, (5, 7), strides=(1, 5)), "", scales),
        sample("pointwise.narrow_scalar", _scalar, "scalar"),
        sample("pointwise.narrow_to_float", _apply(identity, (4, 33), result=_FLOAT), "", scales),
        sample("pointwise.narrow_to_half", _apply(identity, (4, 33), result=_HALF), "", scales),
        sample("pointwise.narrow_to_int8", _apply(identity, (33,), result=DataType.INT8)),
        sample("pointwise.narrow_to_boolean", _apply(identity, (33,), result=DataType.BOOLEAN)),
        sample("pointwise.narrow_to_e5m2", _apply(identity, (33,), result=DataType.FP8_E5M2)),
        sample("pointwise.float_to_narrow", _apply(identity, (5, 41), source=_FLOAT), "", scales),
        sample("pointwise.half_to_narrow", _apply(identity, (5, 41), source=_HALF), "", scales),
        sample(
            "pointwise.double_to_narrow",
            _apply(identity, (5, 41), source=DataType.DOUBLE),
            "",
            scales,
        ),
        sample("pointwise.int8_to_narrow", _apply(identity, (41,), source=DataType.INT8)),
        sample("pointwise.through_narrow", _quantise, "chain"),
        sample("pointwise.scaled_rows", _scaled, "broadcast", (*FP8, *PACKED)),
        sample("reduction.narrow_add", _reduce(ReductionMode.ADD, (5, 33), (1,), _FLOAT)),
        sample(
            "reduction.narrow_max", _reduce(ReductionMode.MAX, (5, 7, 3), (0, 2), None), "", scales
        ),
        sample(
            "reduction.narrow_amax_nhwc",
            _reduce(ReductionMode.AMAX, (2, 6, 5, 7), (1,), None, (210, 1, 42, 6)),
            "nhwc",
        ),
        *(sample(f"{s.name}_narrow", s.build, " ".join(s.tags), floats) for s in borrowed),
    )
