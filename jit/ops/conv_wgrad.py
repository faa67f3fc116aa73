# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weight gradient of a convolution."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ..node_context import NodeContext
from ..workarounds import strikes
from .blocking import BLOCKED
from .convolution import (
    CHANNELS_LAST,
    MOST_POSITIONS,
    PLAIN_GRADIENT,
    RATE,
    conv_op,
    group_count,
    is_depthwise,
    is_last,
    work,
)
from .hoisting import KEEP_EXPRESSIONS
from .multiply_types import up_to_float
from .op_info import OpInfo
from .strategy import Strategies, Strategy
from .wgrad_cost import EXCHANGED, exchanges, wgrad_costs

__all__ = ["INFO"]


def _few_positions(context: NodeContext) -> bool:
    op, positions = conv_op(context), prod(context.dims("dw")[2:])
    if context.target.is_cpu and positions <= MOST_POSITIONS:
        return True
    padded = any((*op.pre_padding, *op.post_padding))
    return positions == 1 and set(op.stride) == {1} and not padded


def _as_blocks(context: NodeContext) -> bool:
    single = up_to_float(context, "x", "dy")
    few = prod(context.dims("dw")[2:]) <= MOST_POSITIONS
    return context.target.is_cpu and single and few and not context.dynamic


def _exchanges(context: NodeContext) -> bool:
    size = context.dims("dw")[2:]
    return _as_blocks(context) and exchanges(conv_op(context), size, group_count(context))


def _costs(context: NodeContext) -> dict[str, float]:
    """Return estimates of the strategies, on a CPU and of one group."""
    if group_count(context) > 1 or not _as_blocks(context):
        return {}
    x, dy, dw = (context.dims(port) for port in ("x", "dy", "dw"))
    last = is_last(context.spec("x"))
    narrow = context.kind("x").bits < 32
    op = conv_op(context)
    return wgrad_costs(context.target, x, dy, dw, op, last=last, narrow=narrow)


def _rule(context: NodeContext) -> str:
    """Return the default strategy."""
    if costs := _costs(context):
        return min(costs, key=costs.__getitem__)
    if is_depthwise(context):
        return CHANNELS_LAST
    return "gemm" if _few_positions(context) else "correlated"


def _flags(context: NodeContext) -> Iterator[str]:
    """Keep padding an expression where it is concatenated."""
    op = conv_op(context)
    padding = (*op.pre_padding, *op.post_padding)
    if strikes("W-093", context.target, context.dims("x")[1:], padding):
        yield KEEP_EXPRESSIONS


INFO = OpInfo(
    work=work("dy", "dw"),
    adds_up=True,
    cpu_efficiency=0.5,
    matrix_rate=RATE,
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
            Strategy(
                name=BLOCKED,
                help="the patches and a matmul in blocks for the target's registers and caches, "
                "of all samples or of each, whose results are added up",
                fits=_as_blocks,
                why="floats of up to 32 bits, float compute, filters of up to 49 positions, CPU",
                portable=False,
            ),
            Strategy(
                name=EXCHANGED,
                help="the same with the patches of dy, of a convolution with few filters",
                fits=_exchanges,
                why="as of `blocked`, of one group, without strides, padding less than filters",
                portable=False,
            ),
            Strategy(
                name=CHANNELS_LAST,
                help="of a depthwise convolution, channels-last: sums over runs of dy's rows of "
                "what they meet in x, which is zero beyond the edges, and sums of these",
                fits=is_depthwise,
                why="depthwise convolutions with as many filters as channels, float or double "
                "compute, fixed dims, on the CPU",
                portable=False,
            ),
            PLAIN_GRADIENT,
        ),
        _rule,
        _costs,
    ),
)
