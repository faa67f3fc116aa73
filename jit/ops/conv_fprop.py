# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forward convolution.

Ratios are of time on two cores of a Zen 5 EPYC to oneDNN's, float32, one thread;
``docs/strategies.md`` has the measurements.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ..emit.dims import Dim
from ..node_context import NodeContext
from ..workarounds import strikes
from .blocking import BLOCKED
from .conv_cost import KN2ROW, ROWS
from .conv_geometry import Convolution
from .convolution import (
    CHANNELS_LAST,
    GEMM_NEEDS,
    MOST_GROUPS,
    MOST_PANELS,
    MOST_POSITIONS,
    RATE,
    Forward,
    as_blocks,
    as_direct_nhwc,
    as_gemm,
    as_groups_in_blocks,
    as_groups_in_rows,
    as_products,
    batch_only,
    conv_op,
    forward_costs,
    forward_strategy,
    group_count,
    in_windows,
    is_depthwise,
    is_last,
    needs_groups,
    strided,
    work,
)
from .direct_tiles import DIRECT_NHWC
from .group_cost import PER_GROUP
from .hoisting import KEEP_EXPRESSIONS
from .multiply_types import multiply_type, up_to_float
from .op_info import OpInfo
from .strategy import Strategies, Strategy

__all__ = ["INFO"]

IMG2COL = (
    "--iree-preprocessing-pass-pipeline="
    "builtin.module(util.func(iree-global-opt-convert-conv2d-to-img2col))"
)


def _needs_groups(context: NodeContext) -> bool:
    x, w = context.dims("x"), context.dims("w")
    return needs_groups(context.target, x, w, context.compute)


def _direct(context: NodeContext) -> bool:
    return not _needs_groups(context)


def _one_group(context: NodeContext) -> bool:
    flat = len(context.dims("x")) == 4
    one = group_count(context) == 1
    return context.target.is_cpu and one and flat and context.compute.is_float


def _winograd(context: NodeContext) -> bool:
    op, size = conv_op(context), context.dims("w")[2:]
    near = set(op.stride) == {1} == set(op.dilation)
    return as_gemm(context) and size == (3, 3) and near


def _depthwise(context: NodeContext) -> bool:
    filters, channels, *size = context.dims("w")
    open_strides = context.dynamic and strided(conv_op(context))
    alone = channels == 1 and filters == group_count(context) > 1 and prod(size) <= MOST_POSITIONS
    return context.target.is_cpu and alone and not open_strides


def _channels_last(context: NodeContext) -> bool:
    return is_depthwise(context) and in_windows(context.dims("x"), context.dims("w"))


def _grouped(context: NodeContext) -> bool:
    few = 1 < group_count(context) <= MOST_GROUPS and context.dims("w")[1] > 1
    return few or _needs_groups(context)


def _rule(context: NodeContext) -> str:
    """Return the default strategy."""
    return forward_strategy(_forward(context), flags=True)


def _forward(context: NodeContext) -> Forward:
    x = context.dims("x")
    if context.dynamic:
        x = tuple(Dim(d, (str(i),)) if not i else d for i, d in enumerate(x))
    target, compute, kinds = context.target, context.compute, [context.kind(p) for p in "xw"]
    multiplied = multiply_type(target, compute, *kinds)
    as_it_is = {*kinds} == {multiplied}
    w, op = context.dims("w"), conv_op(context)
    floats, last = up_to_float(context, "x", "w"), is_last(context.spec("x"))
    virtual = context.spec("y").virtual
    return Forward(target, x, w, op, compute, multiplied, last, as_it_is, floats, virtual)


def _flags(context: NodeContext) -> Iterator[str]:
    """Keep padding an expression where it is concatenated, or holds a whole filter.

    In the second case there are results of no element of the input.
    """
    if not context.target.is_gfx9:
        return
    op, x, w = conv_op(context), context.dims("x"), context.dims("w")
    extents = [d * (k - 1) + 1 for d, k in zip(op.dilation, w[2:], strict=True)]
    padding = zip(op.pre_padding, op.post_padding, extents, strict=True)
    held = any(max(pre, post) >= extent for pre, post, extent in padding)
    if held or Convolution(x, w, op).explicit_padding(context.target):
        yield KEEP_EXPRESSIONS


def _avoids(context: NodeContext) -> Iterator[str]:
    """Yield what depends on the geometry; the input is one that `workarounds` may have copied."""
    op, x, kind = conv_op(context), context.dims("x"), context.kind("x")
    target, layout = context.target, context.operands["x"]
    copied = layout.broadcast or not (layout.channels_first or layout.channels_last)
    converted = multiply_type(target, context.compute, kind, context.kind("w")) is not kind
    computed = converted or copied or not layout.argument
    yield from Convolution(x, context.dims("w"), op, computed).explicit_padding(target)
    if strikes("W-059", target, x[1], op.dilation):
        yield "W-059"


INFO = OpInfo(
    work=work("y", "w"),
    cpu_efficiency=0.85,
    matrix_rate=RATE,
    dynamic=batch_only("x"),
    flags=_flags,
    avoids=_avoids,
    strategies=Strategies(
        (
            Strategy(
                name="direct",
                help="one convolution op; a filter that is not channels-first is copied",
                fits=_direct,
                why="all but 3-D convolutions that are depthwise, or grouped and of integers",
            ),
            Strategy(
                name=ROWS,
                help="all filter positions but those of the last dim concatenated as channels, one "
                "matmul for all positions of the last dim, and a sum of its columns, shifted; of "
                "several groups a batch of matmuls",
                fits=lambda context: as_gemm(context) or as_groups_in_rows(context),
                why=f"{GEMM_NEEDS}, or several groups of floats of up to 32 bits",
            ),
            Strategy(
                name="im2col_gemm",
                help="all filter positions concatenated as channels, dim by dim, and one matmul",
                fits=as_gemm,
                why=GEMM_NEEDS,
            ),
            Strategy(
                name=BLOCKED,
                help="the patches and one matmul in blocks for the target's registers and caches; "
                "channels-first the filters are read as they lie",
                fits=lambda context: as_blocks(context) or as_groups_in_blocks(context),
                why=f"operands of floats of up to 32 bits; {GEMM_NEEDS}, or several groups",
                portable=False,
            ),
            Strategy(
                name=KN2ROW,
                help="one matmul of the input as it lies with all filter positions, in blocks as "
                "those of 'blocked', and a sum of its results, shifted",
                fits=as_products,
                why=f"operands of floats of up to 32 bits; {GEMM_NEEDS}, but up to "
                f"{MOST_POSITIONS} positions",
                portable=False,
            ),
            Strategy(
                name=DIRECT_NHWC,
                help="the padded image, channels-last, read as it lies by tiles for the target's "
                "registers: filters panel by panel, or all groups in one kernel",
                fits=as_direct_nhwc,
                why=f"operands of floats of up to 32 bits, filters of up to {MOST_POSITIONS} "
                f"positions; several groups of several channels or filters, or several channels, "
                f"rows and columns of up to {MOST_PANELS} panels of filters; {GEMM_NEEDS}",
                portable=False,
            ),
            Strategy(
                name="winograd",
                help="F(2x2, 3x3): 16 matmuls of transformed tiles; fewer multiplications, but "
                "errors relative to the largest value nearby, and infinities become NaN",
                fits=_winograd,
                why="3x3 filters without strides and dilation, and what 'row_im2col' fits",
                by_rule=False,
            ),
            Strategy(
                name="img2col",
                help="one convolution op, which IREE's pass makes a matmul of",
                fits=_one_group,
                why="2-D convolutions of floats with one group, on the CPU",
                flags=(IMG2COL,),
            ),
            Strategy(
                name="shifted_sum",
                help="the input, shifted, times one number per channel, summed over the filter's "
                "positions",
                fits=_depthwise,
                why="depthwise convolutions with as many filters as channels, on the CPU",
            ),
            Strategy(
                name=CHANNELS_LAST,
                help="each element of a channels-last result a sum over what its window meets, "
                "which is zero beyond the edges: without padding; of more than "
                f"{MOST_POSITIONS} positions linalg's depthwise convolution",
                fits=_channels_last,
                why="depthwise convolutions with as many filters as channels, float or double "
                "compute, fixed dims, on the CPU; one or two spatial dims, or at most "
                f"{MOST_POSITIONS} positions",
                portable=False,
            ),
            Strategy(
                name=PER_GROUP,
                help="one convolution per group, concatenated",
                fits=_grouped,
                why="2 to 16 groups of several channels",
            ),
            Strategy(
                name="plain",
                help="one convolution op on the operands as they come: for comparison (on gfx9 "
                "some are compiled wrongly, W-050 to W-059)",
                fits=_direct,
                why="all but 3-D convolutions that are depthwise, or grouped and of integers",
                tried=False,
            ),
        ),
        _rule,
        lambda context: forward_costs(_forward(context)),
    ),
)
