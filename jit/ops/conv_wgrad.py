# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weight gradient of a convolution."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ..node_context import NodeContext
from ..workarounds import strikes
from .convolution import MOST_POSITIONS, PLAIN_GRADIENT, RATE, conv_op, declines, work
from .hoisting import KEEP_EXPRESSIONS
from .op_info import OpInfo
from .strategy import Strategies, Strategy

__all__ = ["INFO"]


def _few_positions(context: NodeContext) -> bool:
    op, positions = conv_op(context), prod(context.dims("dw")[2:])
    if context.target.is_cpu and positions <= MOST_POSITIONS:
        return True
    padded = any((*op.pre_padding, *op.post_padding))
    return positions == 1 and set(op.stride) == {1} and not padded


def _rule(context: NodeContext) -> str:
    """Return the default strategy."""
    return "gemm" if _few_positions(context) else "correlated"


def _flags(context: NodeContext) -> Iterator[str]:
    """Keep padding an expression where it is concatenated."""
    op = conv_op(context)
    padding = (*op.pre_padding, *op.post_padding)
    if strikes("W-093", context.target, context.dims("x")[1:], padding):
        yield KEEP_EXPRESSIONS


INFO = OpInfo(
    work=work("dy", "dw"),
    cpu_efficiency=0.5,
    matrix_rate=RATE,
    declines=declines,
    flags=_flags,
    strategies=Strategies(
        (
            Strategy(
                name="gemm",
                help="a matmul of dy and the shifted input for each filter position",
                fits=_few_positions,
                why="filters of up to 49 positions on the CPU, of one without padding and stride "
                "elsewhere",
            ),
            Strategy(
                name="correlated",
                help="the input convolved with dy, batch and channels exchanged",
            ),
            PLAIN_GRADIENT,
        ),
        _rule,
    ),
)
