# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Statistics of channels, shared by the ops of batch normalisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from ....graph_api.dtypes import DataType
from ...emit.builder import Builder, T, Value
from ...emit.dims import dynamic
from ...emit.layout import channels_last
from ...emit.tiled_sum import separate_product
from .. import sums

__all__ = [
    "Statistics",
    "as_images",
    "as_rows",
    "average",
    "by_rows",
    "converted",
    "inverse_deviation",
    "normalised",
    "standardised",
    "statistics",
    "total_of_products",
]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Mean and biased variance, (1, C, 1, ...), and x - mean, all in the compute type."""

    mean: Value
    variance: Value
    centred: Value
    count: int


def converted(b: Builder, inputs: Mapping[str, Value], compute: DataType) -> dict[str, Value]:
    """Return all inputs in the compute type; scalars with dims that broadcast to any rank."""
    values = {port: b.convert(value, compute) for port, value in inputs.items()}
    for port in {"epsilon", "momentum"} & set(values):
        values[port] = b.reshape(values[port], (1,))
    return values


def as_rows(b: Builder, values: Mapping[str, Value]) -> dict[str, Value]:
    """Return channels-last images as matrices, (positions, C), on a CPU; all else then is (1, C).

    Otherwise channels would be shared out, and each worker would read a few of each position.
    """
    x = values["x"]
    if not (channels_last(x) and b.target.is_cpu) or dynamic(x.shape):
        return dict(values)
    found = {}
    for port, v in values.items():
        moved = b.permute(v, (0, *range(2, v.rank), 1)) if v.rank == x.rank else v
        rows = (prod(moved.shape[:-1]), moved.shape[-1])
        found[port] = b.reshape(moved, rows) if v.rank == x.rank else v
    return found


def by_rows(b: Builder, x: Value) -> bool:
    """Return whether x is a matrix of `as_rows`."""
    return b.target.is_cpu and x.rank == 2


def as_images(
    b: Builder, results: Mapping[str, Value], dims: tuple[int, ...]
) -> Mapping[str, Value]:
    """Return the results of what `as_rows` made of an image of these dims."""
    if all(v.rank == len(dims) for v in results.values()):
        return results
    found, last = {}, len(dims) - 1
    for port, v in results.items():
        spatial = dims[2:] if v.shape[0] > 1 else (1,) * (last - 1)
        moved = b.reshape(v, (dims[0] if v.shape[0] > 1 else 1, *spatial, dims[1]))
        found[port] = b.permute(moved, (0, last, *range(1, last)))
    return found


def axes(x: Value) -> list[int]:
    """Return the dims that statistics are taken over: all but the channels."""
    return [0, *range(2, x.rank)]


def count(x: Value) -> int:
    """Return the number of elements of a channel."""
    return prod(x.shape[a] for a in axes(x))


def total(b: Builder, x: Value) -> Value:
    """Return the sum of each channel, (1, C, 1, ...)."""
    if by_rows(b, x):
        return sums.of_columns(b, x)
    return sums.total(b, x, axes(x))


def total_of_products(b: Builder, x: Value, y: Value) -> Value:
    """Return the sum of each channel's products."""
    return total(b, separate_product(b, x, y) if by_rows(b, x) else b.mul(x, y))


def average(b: Builder, x: Value) -> Value:
    """Return the mean of each channel, (1, C, 1, ...)."""
    return b.scale(total(b, x), 1 / count(x))


def statistics(b: Builder, x: Value) -> Statistics:
    """Return the statistics of x; the variance is the mean square of x - mean, never a difference.

    The CPU adds the elements of a channel one after the other (in a channels-last input at
    least), which makes the mean wrong by thousands of roundings where it is large beside the
    deviation: 50,176 floats around 1000 with deviation 1 came out 8e-3 off.  The mean of what is
    left after subtracting the first mean corrects it (3e-5, its own rounding), and x - mean is
    better still.  That is one more pass over data in the cache; GPUs add in trees.

    W-078: a copy of x - mean between the sums of short channels keeps them apart.
    """
    mean = average(b, x)
    centred = b.sub(x, mean)
    if b.strikes("W-078", count(x)):
        centred = b.materialise(centred)
    if b.target.is_cpu:
        rest = average(b, centred)
        mean = b.add(mean, rest)
        centred = b.sub(x, mean) if by_rows(b, x) else b.sub(centred, rest)
    # As rows both are computed anew: what several kernels take is stored, and they wait for memory.
    deviation = b.sub(mean, x) if by_rows(b, x) else centred
    variance = b.scale(total_of_products(b, deviation, deviation), 1 / count(x))
    return Statistics(mean, variance, centred, count(x))


def inverse_deviation(b: Builder, variance: Value, epsilon: Value) -> Value:
    """Return 1 / sqrt(variance + epsilon)."""
    return b.unary(T.AtenRsqrtOp, b.add(variance, epsilon))


def standardised(
    b: Builder, x: Value, found: Statistics, inverse: Value, scale: Value, bias: Value
) -> Value:
    """Return scale · (x - mean) · inverse + bias.

    W-079: a difference that is summed as well would be stored for this, four bytes an element;
    mean - x is the same number with another sign, and is computed anew.
    """
    if not b.strikes("W-079", found.count):
        return normalised(b, found.centred, inverse, scale, bias)
    factor = b.unary(T.AtenNegOp, b.mul(inverse, scale))
    return b.add(b.mul(b.sub(found.mean, x), factor), bias)


def normalised(b: Builder, centred: Value, inverse: Value, scale: Value, bias: Value) -> Value:
    """Return scale · centred · inverse + bias; the factors of a channel are multiplied first."""
    return b.add(b.mul(centred, b.mul(inverse, scale)), bias)
