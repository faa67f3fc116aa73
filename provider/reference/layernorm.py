"""Layer normalisation."""

# mypy: disable-error-code="no-any-return"
# (NumPy types arithmetic on arrays of any element type as Any.)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides, strides_in_order
from ...graph_api.ops.layernorm import Layernorm
from .base import Arrays, Context, Domain, Reference, Sample, sampler
from .building import padded_strides, sample_graph
from .convert import Array
from .row_norms import Row, affine, inverse, product, widened
from .row_norms import domain as row_domain

__all__ = ["REFERENCE", "normalised", "sample_problems"]

Dims = tuple[int, ...]


def evaluate(op: Layernorm, inputs: Arrays, ctx: Context) -> Arrays:
    row, x = Row.of(ctx, op.normalized_dim_count), inputs["x"]
    mean = x.mean(axis=row.axes, keepdims=True)
    deviation = np.sqrt(x.var(axis=row.axes, keepdims=True) + inputs["epsilon"].reshape(()))
    y = (x - mean) / deviation * widened(inputs, "scale", ctx) + widened(inputs, "bias", ctx)
    found = {"y": y, "mean": mean, "inv_variance": 1 / deviation}
    return {port: found[port] for port in ctx.outputs}


def normalised(
    inputs: Arrays, errors: Arrays, row: Row
) -> tuple[tuple[Array, Array], tuple[Array, Array], tuple[Array, Array]]:
    """Return mean, 1/σ and x̂ with their errors, for the variance taken from x - mean.

    That all elements are off by the same amount, as the mean is, counts only squared in the
    variance: Σ(x - mean) is 0.
    """
    x, u = inputs["x"], row.unit
    ex = np.broadcast_to(errors["x"], x.shape)
    epsilon, off = inputs["epsilon"].reshape(()), errors["epsilon"].reshape(-1)[:1].sum()
    mean = row.mean(x)
    emean = row.mean(ex) + row.summed(np.abs(x) + ex)
    d = x - mean
    own = ex + u * (np.abs(d) + ex + emean) + row.tiny
    square = row.mean(np.square(d))
    esquare = row.mean(2 * np.abs(d) * own + np.square(own + emean))
    esquare = esquare + row.summed(np.square(np.abs(d) + own + emean))
    inv = 1 / np.sqrt(square + epsilon)
    einv = inverse(square, esquare, epsilon, off, row)
    h = d * inv
    eh = product(d, own + emean, inv, einv)
    return (mean, emean), (inv, einv), (h, eh + u * (np.abs(h) + eh) + row.tiny)


def bound(op: Layernorm, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    row = Row.of(ctx, op.normalized_dim_count)
    (_, emean), (_, einv), (h, eh) = normalised(inputs, errors, row)
    y = affine(h, eh, inputs, errors, ctx, row)
    found = {"y": y, "mean": emean, "inv_variance": einv}
    return {port: found[port] for port in outputs}


def domain(op: Layernorm, port: str, ctx: Context) -> Domain:
    return row_domain(port)


def _norm(
    dims: Dims,
    scale: Dims,
    *,
    training: bool = False,
    strides: Dims | None = None,
    affine_strides: Dims | None = None,
    result_strides: Dims | None = None,
    statistics: DataType | None = None,
    parameters: DataType | None = None,
    compute: DataType | None = None,
    epsilon: float = 1e-5,
    count: int = 0,
) -> Callable[[DataType], Graph]:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type, compute)
        x = g.tensor(dims=dims, strides=strides, name="x")
        s, b = (
            g.tensor(dims=scale, strides=affine_strides, data_type=parameters or "unset", name=n)
            for n in ("scale", "bias")
        )
        phase = "training" if training else "inference"
        y, mean, inv = g.layernorm(
            x, s, b, epsilon=epsilon, forward_phase=phase, normalized_dim_count=count
        )
        y.set_output()
        if result_strides:
            y.set_stride(result_strides)
        for t in (mean, inv):
            if t is not None:
                t.set_output()
                if statistics:
                    t.set_data_type(statistics)
        return g

    return build


def _plain(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    g.layernorm(g.tensor(dims=(6, 40)), 1.0, 0.0, normalized_dim_count=1).y.set_output()
    return g


def _alias(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    s = g.tensor(dims=(40,))
    g.layernorm(g.tensor(dims=(6, 40)), s, s).y.set_output()
    return g


def _epsilon_tensor(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    s, b = g.tensor(dims=(24,)), g.tensor(dims=(24,))
    g.layernorm(g.tensor(dims=(5, 24)), s, b, epsilon=g.tensor(dims=(1,))).y.set_output()
    return g


def _residual(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    a, r = g.tensor(dims=(2, 5, 48)), g.tensor(dims=(2, 5, 48))
    s, b = g.tensor(dims=(48,)), g.tensor(dims=(48,))
    g.gelu(g.layernorm(g.add(a, r), s, b).y).set_output()
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of the layer normalisation."""
    x4 = (2, 6, 5, 7)
    float_, low = DataType.FLOAT, (DataType.HALF, DataType.BFLOAT16)
    sample = sampler("layernorm")
    nhwc = channels_last_strides(x4)
    return (
        sample("rows", _norm((5, 64), (64,)), "tile"),
        sample("rows_training", _norm((5, 65), (65,), training=True), "tile training"),
        sample("tokens", _norm((2, 7, 63), (1, 1, 63), training=True), "tile prime training"),
        sample("two_dims", _norm((3, 4, 5, 6), (5, 6), training=True), "training"),
        sample("image", _norm(x4, (1, *x4[1:]), training=True), "training"),
        sample(
            "image_nhwc",
            _norm(
                x4,
                (1, *x4[1:]),
                training=True,
                strides=nhwc,
                affine_strides=channels_last_strides((1, *x4[1:])),
            ),
            "nhwc training",
        ),
        sample("image_nhwc_scale_nchw", _norm(x4, (1, *x4[1:]), strides=nhwc), "nhwc mixed_layout"),
        sample(
            "odd_permutation",
            _norm(
                x4,
                x4[2:],
                strides=strides_in_order(x4, (3, 0, 2, 1)),
                result_strides=strides_in_order(x4, (1, 3, 0, 2)),
            ),
            "permuted mixed_layout",
        ),
        sample("channels", _norm(x4, (1, 6, 1, 1), training=True), "inner training"),
        sample("rank5", _norm((2, 3, 2, 3, 5), (3, 2, 3, 5), training=True), "training"),
        sample("row_of_1", _norm((4, 1), (1,), training=True), "size1 training"),
        sample("one_row", _norm((1, 31), (31,), training=True), "size1 prime training"),
        sample("extents_of_1", _norm((1, 4, 1, 9), (4, 1, 9), training=True), "size1 training"),
        sample("count", _norm((4, 1, 6), (1, 6), count=2, training=True), "count training"),
        sample("without_affine", _plain, "count scalar"),
        sample("scale_is_bias", _alias, "alias"),
        sample("epsilon_tensor", _epsilon_tensor, "scalar"),
        sample("large_epsilon", _norm((5, 24), (24,), epsilon=0.5, training=True), ""),
        sample(
            "padded",
            _norm(x4, x4[2:], strides=tuple(padded_strides(x4, range(4), (0, 1, 0, 2)))),
            "padded",
        ),
        sample("broadcast_row", _norm(x4, x4[1:], strides=(210, 0, 7, 1)), "broadcast"),
        sample("long", _norm((2, 4096), (4096,), training=True), "long training"),
        sample(
            "float_statistics",
            _norm((6, 96), (96,), training=True, statistics=float_, parameters=float_),
            "mixed training",
            low,
        ),
        sample("compute_double", _norm((5, 40), (40,), compute=DataType.DOUBLE), "compute"),
        sample("residual", _residual, "chain"),
    )


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain, samples=sample_problems)
