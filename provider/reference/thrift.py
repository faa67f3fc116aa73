# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bounds of large products: an envelope for every element, exact bounds for a sample of features.

The bound of a sum of products needs Σ|x·w|, which takes as long as the sum itself.  By the
inequality of Cauchy and Schwarz it is at most √Σx² · √Σw², which takes hardly any time.  For
uniform operands that is 4/3 of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .convert import Array

__all__ = ["Dims", "Part", "Thrift", "grouped_features", "norm", "sampled_features"]

Dims = tuple[int, ...]
_EDGES = (0, 1, 7, 15, 16, 31, 32, 63, 64, 127, 128)  # of the tiles that compilers choose
_DRAWN = 4
_SEED = 11


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Some features of a product: operands that give them, their dims, where they are in it."""

    first: Array
    second: Array
    dims: Dims
    at: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Thrift:
    """What an op with sums of products provides for large problems.

    Attributes
    ----------
    envelope : callable
        From (op, |operand|, |operand|, dims of the result) to what no sum of their products
        exceeds.
    features : callable
        From (op, dims, dims, dims of the result) to the number of features: of results that one
        operand can be restricted to, in each group.
    restrict : callable
        From (op, operand, operand, dims of the result, indices of features) to that `Part`.
    """

    envelope: Callable[[Any, Array, Array, Dims], Array]
    features: Callable[[Any, Dims, Dims, Dims], int]
    restrict: Callable[[Any, Array, Array, Dims, Array], Part]


def sampled_features(count: int) -> Array:
    """Return the features that are bounded exactly: the first, the last, edges of tiles, others."""
    rng = np.random.default_rng([_SEED, count])
    drawn = rng.integers(0, count, _DRAWN)
    near = [each for each in (*_EDGES, count - 2, count - 1) if 0 <= each < count]
    return np.unique(np.concatenate([near, drawn])).astype(np.intp)


def norm(x: Array, axes: int | tuple[int, ...], *, keep: bool = False) -> Array:
    """Return the Euclidean norm over some axes, rounded up."""
    squares = np.square(x.astype(np.float64, copy=False))
    return np.asarray(np.sqrt(squares.sum(axes, keepdims=keep)) * (1 + 1e-9))


def grouped_features(groups: int, each: int, some: Array) -> Array:
    """Return the indices of some features of every group, one group after another."""
    return (np.arange(groups)[:, None] * each + some).ravel()
