# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data gradient of a convolution."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ...graph_api.ops.conv_dgrad import ConvDgrad
from ..node_context import NodeContext
from ..workarounds import strikes
from .convolution import (
    CHANNELS_LAST,
    MOST_POSITIONS,
    PLAIN_GRADIENT,
    RATE,
    as_gemm,
    as_groups_in_blocks,
    batch_only,
    conv_op,
    group_count,
    is_depthwise,
    is_last,
    read_as_it_lies,
    work,
)
from .dgrad_cost import FLIPPED, GEMM_COL2IM, PHASES, dgrad_costs
from .hoisting import KEEP_EXPRESSIONS
from .multiply_types import multiply_type, up_to_float
from .op_info import OpInfo
from .strategy import Strategies, Strategy

__all__ = ["INFO"]


_MOST_PHASES = 256  # of the strides; each is a tensor of its own in the code


# Where each is a convolution with kernels of its own.
_MOST_CONVOLUTIONS = 9


def _summed_by_phase(context: NodeContext) -> bool:
    few = prod(context.dims("w")[2:]) <= MOST_POSITIONS
    return as_gemm(context) and few and prod(conv_op(context).stride) <= _MOST_PHASES


def _convolved_by_phase(context: NodeContext) -> bool:
    """Return whether a strided gradient of several groups is a few convolutions."""
    op, w = conv_op(context), context.dims("w")
    groups = as_groups_in_blocks(context, "dy") and not is_depthwise(context)
    return groups and read_as_it_lies(w, op) and 1 < prod(op.stride) <= _MOST_CONVOLUTIONS


def _transposable(context: NodeContext) -> bool:
    if not context.compute.is_float or group_count(context) > 1 or context.dynamic:
        return False
    sizes = (context.dims(port)[2:] for port in ("dx", "dy", "w"))
    return not strikes("W-122", context.target, *sizes, conv_op(context))


def _channels_last(context: NodeContext) -> bool:
    few = prod(context.dims("w")[2:]) <= MOST_POSITIONS
    return few and is_depthwise(context) and set(conv_op(context).dilation) == {1}


def _rule(context: NodeContext) -> str:
    """Return the default strategy."""
    if costs := _costs(context):
        return min(costs, key=costs.__getitem__)
    strided = prod(conv_op(context).stride) > 1
    last = is_last(context.spec("dy"))
    if _channels_last(context) and (last or strided or prod(context.dims("w")[2:]) > 9):
        return CHANNELS_LAST
    if _convolved_by_phase(context):
        return PHASES
    return (
        "transposed" if context.target.is_gfx9 and strided and _transposable(context) else FLIPPED
    )


def _costs(context: NodeContext) -> dict[str, float]:
    """Return estimates of the strategies, on a CPU, of one group and floats."""
    if not _summed_by_phase(context) or not up_to_float(context, "dy", "w"):
        return {}
    op, dy, w = context.op, context.dims("dy"), context.dims("w")
    assert isinstance(op, ConvDgrad)
    kinds = context.kind("dy"), context.kind("w")
    multiplied = multiply_type(context.target, context.compute, *kinds)
    last = is_last(context.spec("dy"))
    return dgrad_costs(context.target, dy, w, op, multiplied, last=last)


def _flags(context: NodeContext) -> Iterator[str]:
    """Keep the padding of one dilated channel of one dy an expression: it is concatenated."""
    op = conv_op(context)
    dilated = max(op.stride) == 1 < max(op.dilation)
    if context.target.is_gfx9 and dilated and context.dims("dy")[:2] == (1, 1):
        yield KEEP_EXPRESSIONS


def _avoids(context: NodeContext) -> Iterator[str]:
    if strikes("W-059", context.target, context.dims("dy")[1], conv_op(context).dilation):
        yield "W-059"


INFO = OpInfo(
    work=work("dy", "w"),
    cpu_efficiency=0.65,
    matrix_rate=RATE,
    dynamic=batch_only("dy"),
    flags=_flags,
    avoids=_avoids,
    strategies=Strategies(
        (
            Strategy(
                name=FLIPPED,
                help="a forward convolution of dy, zeros between its elements, with the filter "
                "flipped and its channels exchanged",
            ),
            Strategy(
                name=GEMM_COL2IM,
                help="one matmul for all filter positions, of floats in blocks, whose columns are "
                "added where they belong, phase by phase of the stride",
                fits=_summed_by_phase,
                why="one group, float or double compute, filters of up to 49 positions, fixed "
                f"dims, CPU, strides whose product is at most {_MOST_PHASES}",
            ),
            Strategy(
                name=PHASES,
                help="a forward convolution of dy, channels-last, for each phase of the stride; "
                "no zeros are between the elements of dy",
                fits=_convolved_by_phase,
                why="operands of floats of up to 32 bits, several groups of several channels or "
                f"filters, of up to {MOST_POSITIONS} positions, strides whose product is 2 to "
                f"{_MOST_CONVOLUTIONS}, fixed dims, CPU",
                portable=False,
            ),
            Strategy(
                name="transposed",
                help="one transposed convolution op",
                fits=_transposable,
                why="one group, a compute type of floats, fixed dims, no padding beyond what the "
                "filter reaches (W-122)",
            ),
            Strategy(
                name=CHANNELS_LAST,
                help="of a depthwise convolution: each element of a channels-last result a sum "
                "over what it meets of dy, without padding and zeros between its elements",
                fits=_channels_last,
                why="depthwise convolutions with as many filters as channels, of up to "
                f"{MOST_POSITIONS} positions, no dilation, float or double compute, fixed dims, "
                "on the CPU",
                portable=False,
            ),
            PLAIN_GRADIENT,
        ),
        _rule,
        _costs,
    ),
)
