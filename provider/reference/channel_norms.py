"""Statistics of channels: their meaning, their errors, and operands that suit them."""

# mypy: disable-error-code="no-any-return"
# (NumPy types arithmetic on arrays of any element type as Any.)

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides, strides_in_order
from ...graph_api.tensor import Tensor
from .analysis import growth
from .base import FLOATS, Context, Domain, Sample
from .building import padded_strides, sample_graph
from .convert import Array
from .running import Running

__all__ = [
    "CASES",
    "Case",
    "Statistics",
    "axes",
    "domain",
    "normalised",
    "per_channel",
    "samples_of",
    "statistics",
]

Dims = tuple[int, ...]
Statistics = tuple[Running, Running, Running]


def axes(x: Array) -> tuple[int, ...]:
    """Return all dims but the channels."""
    return (0, *range(2, x.ndim))


def one(array: Array) -> Array:
    """Return a scalar operand with dims that broadcast to any rank."""
    return array.reshape(1)


def statistics(x: Running) -> Statistics:
    """Return mean, biased variance and x - mean, each with its error.

    A wrong mean makes each deviation wrong by as much, but the variance only by its square: the
    deviations from the right mean add up to 0.
    """
    u, over = x.ctx.roundoff, axes(x.value)
    n = int(np.prod([x.value.shape[a] for a in over]))
    total = x.total(over)
    mean = total.scaled(1 / n)
    centred = x - mean
    from_x = x.error.mean(over, keepdims=True)
    own = mean.error - from_x
    each = x.error + from_x + u * np.abs(centred.value)
    size = np.abs(centred.value)
    variance = np.square(size).mean(over, keepdims=True)
    error = (2 * size * each + each**2).mean(over, keepdims=True)
    error += 2 * own * each.mean(over, keepdims=True) + own**2
    error += u * (growth(n) + 3) * (variance + error) + x.ctx.tiny
    return mean, Running(variance, error, x.ctx), centred


def normalised(centred: Running, inverse: Running, scale: Running, bias: Running) -> Running:
    """Return scale · centred · inverse + bias, multiplied in any order."""
    y = centred * (inverse * scale) + bias
    # One more rounding of the product covers the other orders.
    more = x_units(centred, inverse, scale)
    return Running(y.value, y.error + more, y.ctx)


def x_units(centred: Running, inverse: Running, scale: Running) -> Array:
    """Return one unit of roundoff of the product."""
    product = np.abs(centred.value * inverse.value * scale.value)
    return centred.ctx.roundoff * product


def domain(op: Any, port: str, ctx: Context) -> Domain:
    """Return operands near 1; deviations and what is added to variances are positive."""
    if port in ("inv_variance", "variance", "prev_running_variance"):
        return Domain(low=0.25, high=2.0, ints=(1, 4), strict=True)
    if port == "epsilon":
        return Domain(low=1e-3, high=0.1, ints=(1, 2), strict=True)
    if port == "momentum":
        return Domain(low=0.05, high=0.95, ints=(0, 1), strict=True)
    return Domain(ints=(-100, 100))


# Sample problems: name, dims of x, strides of x and of the result, tags.
Case = tuple[str, Dims, Mapping[str, Sequence[int]], str]
_X = (3, 5, 6, 7)
CASES: tuple[Case, ...] = (
    ("ones", (1, 1, 1, 1), {}, "size1"),
    ("one_per_channel", (1, 6, 1, 1), {}, "size1"),
    ("one_channel", (4, 1, 5, 3), {}, "size1"),
    ("rank2", (37, 11), {}, "prime"),
    ("rank3", (4, 6, 19), {}, "prime"),
    ("rank4", (3, 5, 6, 4), {}, ""),
    ("rank5", (2, 3, 4, 3, 5), {}, "3d"),
    ("rank5_ndhwc", (2, 3, 4, 3, 5), {"x": channels_last_strides((2, 3, 4, 3, 5))}, "3d nhwc"),
    ("tile_minus1", (2, 31, 15, 17), {}, "tile"),
    ("nhwc", _X, {"x": channels_last_strides(_X)}, "nhwc"),
    ("nhwc_tile", (2, 64, 8, 8), {"x": channels_last_strides((2, 64, 8, 8))}, "nhwc tile"),
    ("nchw_to_nhwc", _X, {"y": channels_last_strides(_X)}, "nhwc mixed_layout"),
    ("permuted", _X, {"x": strides_in_order(_X, (2, 0, 3, 1))}, "permuted"),
    ("padded", _X, {"x": padded_strides(_X, range(4), (0, 1, 0, 2))}, "padded"),
    ("broadcast", _X, {"x": (210, 42, 0, 1)}, "broadcast"),
    ("broadcast_channels", _X, {"x": (42, 0, 7, 1)}, "broadcast"),
)


def per_channel(g: Graph, dims: Dims, name: str, data_type: DataType | str = "") -> Tensor:
    """Return an input with dims (1, C, 1, ...)."""
    shape = (1, dims[1], *(1 for _ in dims[2:]))
    return g.tensor(dims=shape, name=name, data_type=data_type or DataType.UNSET)


Build = Callable[..., None]


def samples_of(op: str, build: Build, cases: Sequence[Case] = CASES) -> tuple[Sample, ...]:
    """Return samples over dims, layouts and types; ``build(g, x, result strides, type)``.

    ``type`` is that of parameters and statistics; "" stands for the type of x.
    """

    def made(case: Case, parameters: DataType | str, compute: DataType | None) -> Any:
        _, dims, strides, _ = case

        def graph(data_type: DataType) -> Graph:
            g = sample_graph(data_type, compute)
            x = g.tensor(dims=dims, strides=strides.get("x"), name="x")
            build(g, x, strides.get("y"), parameters)
            return g

        return graph

    def sample(
        case: Case, name: str = "", types: Any = FLOATS, tags: str = "", **given: Any
    ) -> Sample:
        return Sample(
            name=f"{op}.{name or case[0]}",
            build=made(case, given.get("parameters", ""), given.get("compute")),
            tags=frozenset((case[3] + " " + tags).split()),
            dtypes=types,
        )

    float_, half = DataType.FLOAT, DataType.HALF
    low = (half, DataType.BFLOAT16)
    plain: Case = ("", _X, {}, "")
    last: Case = ("", _X, {"x": channels_last_strides(_X)}, "nhwc")
    return (
        *(sample(case) for case in cases),
        sample(plain, "float_statistics", low, "mixed", parameters=float_),
        sample(last, "float_statistics_nhwc", low, "mixed", parameters=float_),
        sample(plain, "half_parameters", (float_,), "mixed", parameters=half),
        sample(plain, "compute_half", (half,), "compute", compute=half),
        sample(plain, "compute_double", FLOATS, "compute", compute=DataType.DOUBLE),
    )
