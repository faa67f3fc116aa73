# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the arithmetic of an op is counted, and what some functions cost."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...graph_api.enums import PointwiseMode
from .op_info import Dims

__all__ = ["COSTS", "Count", "no_arithmetic", "per_element"]

Count = Callable[[object, Dims], tuple[int, int]]

COSTS: dict[PointwiseMode, int] = {
    **dict.fromkeys((PointwiseMode.IDENTITY, PointwiseMode.GEN_INDEX), 0),
    PointwiseMode.ADD_SQUARE: 2,
    **dict.fromkeys((PointwiseMode.DIV, PointwiseMode.RECIPROCAL, PointwiseMode.SQRT), 4),
    **dict.fromkeys((PointwiseMode.RSQRT, PointwiseMode.MOD), 6),
    **dict.fromkeys((PointwiseMode.EXP, PointwiseMode.LOG), 12),
    **dict.fromkeys((PointwiseMode.SIN, PointwiseMode.COS, PointwiseMode.ERF), 20),
    **dict.fromkeys((PointwiseMode.TAN, PointwiseMode.POW), 28),
    **dict.fromkeys((PointwiseMode.ELU_FWD, PointwiseMode.ELU_BWD), 16),
    **dict.fromkeys((PointwiseMode.SIGMOID_FWD, PointwiseMode.TANH_FWD), 18),
    **dict.fromkeys((PointwiseMode.SIGMOID_BWD, PointwiseMode.TANH_BWD), 20),
    **dict.fromkeys((PointwiseMode.SWISH_FWD, PointwiseMode.SWISH_BWD), 24),
    **dict.fromkeys((PointwiseMode.SOFTPLUS_FWD, PointwiseMode.SOFTPLUS_BWD), 26),
    **dict.fromkeys((PointwiseMode.GELU_FWD, PointwiseMode.GELU_APPROX_TANH_FWD), 26),
    **dict.fromkeys((PointwiseMode.GELU_BWD, PointwiseMode.GELU_APPROX_TANH_BWD), 44),
}
"""Operations per element of a pointwise mode; 1 for those that are not listed.

Rounded counts of the polynomials and range reductions of MLIR's math approximations in float32.
"""


def no_arithmetic(op: object, dims: Dims) -> tuple[int, int]:
    """Count ops that only move elements."""
    return 0, 0


def per_element(port: str, cost: int) -> Count:
    """Return a count of a fixed number of operations for each element of one tensor."""
    return lambda op, dims: (0, cost * prod(dims[port]))
