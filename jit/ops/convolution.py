# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the three convolutions share: strategies of forward ones, counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import NamedTuple

from ...graph_api.dtypes import DataType
from ...graph_api.ops.conv_fprop import ConvOp
from ...graph_api.tensor import TensorSpec
from ..cpu_machine import cpu_machine
from ..emit.dims import Dim
from ..node_context import NodeContext
from ..target import Target
from ..workarounds import strikes
from .blocking import BLOCKED
from .conv_cost import KN2ROW, ROWS, WIDENING, conv_costs
from .direct_tiles import DIRECT_NHWC, direct_tiles
from .group_cost import PER_GROUP, group_costs, per_group_cost
from .group_tiles import MOST_OFFSETS
from .multiply_types import up_to_float
from .op_info import Dims, DynamicAxes, Marks, dynamic_axes
from .strategy import Strategy

__all__ = [
    "CHANNELS_LAST",
    "GATHERING",
    "GEMM_NEEDS",
    "MOST_GROUPS",
    "MOST_PANELS",
    "MOST_POSITIONS",
    "PLAIN_GRADIENT",
    "RATE",
    "REVERSING",
    "Forward",
    "as_blocks",
    "as_direct_nhwc",
    "as_gemm",
    "as_groups_in_blocks",
    "as_groups_in_rows",
    "as_products",
    "batch_only",
    "cheapest_without_flags",
    "conv_op",
    "forward_costs",
    "forward_strategy",
    "group_count",
    "in_windows",
    "is_depthwise",
    "is_last",
    "needs_groups",
    "read_as_it_lies",
    "strided",
    "work",
]

Ints = tuple[int, ...]

CHANNELS_LAST = "channels_last"
"""The strategy of depthwise convolutions, and their gradients, channels-last."""

GATHERING = frozenset({ROWS, "im2col_gemm", BLOCKED})
"""The strategies that gather patches: of filters of few positions (`_gathered`)."""

REVERSING = GATHERING | {KN2ROW, DIRECT_NHWC}
"""The strategies that take care of a filter whose positions are reversed
(``ConvMode.CONVOLUTION``): most go through them in reverse, as a reversed copy is read number by
number."""

# Beyond it the many small convolutions take longer to compile (6 s for 32) than they save.
MOST_GROUPS = 16
# A sum over filter positions has a term for each; above this many the code grows more than it
# gains.
MOST_POSITIONS = 49
# Each panel of filters is a dispatch of its own.
MOST_PANELS = 64
# Patches are gathered dim by dim, with a copy for each position of a dim.
_MOST_GATHERED, _LONGEST = 512, 16
# What needs flags for the whole graph.
_FLAGGED = "img2col"
# Operations a microsecond on one core of a CPU.
RATE = 55e3


def work(result: str, filter: str) -> Callable[[object, Dims], tuple[int, int]]:
    """Count each filter position once for each position of the forward result."""
    return lambda op, dims: (2 * prod(dims[result]) * prod(dims[filter][1:]), 0)


def batch_only(port: str) -> DynamicAxes:
    """Return what refuses every dynamic dim but the batch of one port."""

    def refused(context: NodeContext, marks: Marks) -> Iterator[tuple[str, int]]:
        yield from (found for found in dynamic_axes(marks, port, "w") if found != (port, 0))

    return refused


# ---------------------------------------------------------------------------- strategies


class Forward(NamedTuple):
    """A forward convolution for which a strategy is wanted.

    Attributes
    ----------
    target : Target
    x, w : tuple of int
        Dims of input and filter.
    op : ConvOp
    compute, multiplied : DataType
        The compute type, and that in which both operands are multiplied.
    last : bool
        Whether x is laid out channels-last.
    as_it_is : bool
        Whether operands are of that type, and need not be converted to it.
    floats : bool
        Whether they are floats of 16 or 32 bits, of which blocks are made.
    virtual : bool
        Whether what follows reads the result.
    """

    target: Target
    x: Ints
    w: Ints
    op: ConvOp
    compute: DataType
    multiplied: DataType
    last: bool
    as_it_is: bool = True
    floats: bool = True
    virtual: bool = False


def forward_strategy(conv: Forward, *, flags: bool = False) -> str:
    """Return the strategy of a forward convolution by rule.

    ``flags``: whether it may be one that the compiler needs flags for.
    """
    target, x, w, op, compute, _, last, as_it_is, *_ = conv
    groups = x[1] // w[1]
    alone = needs_groups(target, x, w, compute)
    if not target.is_cpu:
        return PER_GROUP if alone else "direct"
    if groups > 1:
        if w[0] == groups and w[1] == 1:
            converted = not (as_it_is or cpu_machine(target).has_avx512)
            last = last or converted
            return _depthwise_strategy(x, w, op, compute, last=last, alone=alone)
        few = w[1] > 1 and groups <= MOST_GROUPS
        usual = PER_GROUP if few or alone else "direct"
        costs = forward_costs(conv)
        known = {name: cost for name, cost in costs.items() if name != "direct" or not alone}
        return min(known, key=known.__getitem__) if usual in known else usual
    costs = forward_costs(conv)
    others = {name: cost for name, cost in costs.items() if flags or name != _FLAGGED}
    return min(others, key=others.__getitem__, default="direct")


def forward_costs(conv: Forward) -> dict[str, float]:
    """Return estimates in microseconds of the strategies that fit a forward convolution.

    Empty where nothing is known: on GPUs, of integers, of depthwise convolutions, and of dynamic
    dims.  Those of doubles are as of floats: all takes twice as long.
    """
    target, x, w, op, compute, multiplied, last, _, floats, virtual = conv
    dynamic = any(isinstance(d, Dim) for d in x)
    known = compute in (DataType.FLOAT, DataType.DOUBLE) and multiplied.is_float and not dynamic
    if not known or not target.is_cpu:
        return {}
    floats = floats and compute is DataType.FLOAT
    if x[1] != w[1]:
        return _costs_of_groups(conv._replace(floats=floats))
    # Halves are converted to float32 (W-013).
    narrow = multiplied is DataType.BFLOAT16
    costs = conv_costs(target, x, w, op, last=last, narrow=narrow, virtual=virtual)
    fits = {name: _gathered(w) for name in GATHERING}
    # Of one place, one column of a panel is a result, which is read number by number.
    fits[BLOCKED] = fits[BLOCKED] and x[0] * prod(op.output_extents(x[2:], w[2:])) > 1
    fits |= {KN2ROW: _summed(w), DIRECT_NHWC: _tiled(target, x, w, op)}
    fits |= {name: fits[name] and floats for name in WIDENING}
    return {name: cost for name, cost in costs.items() if fits.get(name, True)}


def cheapest_without_flags(conv: Forward) -> tuple[float, str]:
    """Return the least estimate of a forward convolution inside another op, and its strategy."""
    return min((cost, name) for name, cost in forward_costs(conv).items() if name != _FLAGGED)


def _costs_of_groups(conv: Forward) -> dict[str, float]:
    target, x, w, op, _, multiplied, last, _, floats, _ = conv
    groups, filters = x[1] // w[1], w[0]
    if w[1] == 1 and filters == groups:
        return {}
    costs = group_costs(target, x, w, op, last=last, narrow=multiplied.bits < 32)
    few = prod(w[2:]) <= MOST_POSITIONS and floats
    fits = {BLOCKED: few, ROWS: few, DIRECT_NHWC: few and read_as_it_lies(w, op)}
    costs = {name: cost for name, cost in costs.items() if fits.get(name, True)}
    if w[1] > 1 and groups <= MOST_GROUPS:
        one = (x[0], w[1], *x[2:]), (filters // groups, *w[1:])
        results = x[0] * filters * prod(op.output_extents(x[2:], w[2:]))
        each, _ = cheapest_without_flags(conv._replace(x=one[0], w=one[1]))
        costs[PER_GROUP] = per_group_cost(target, groups * each, prod(x) + results)
    return costs


def needs_groups(target: Target, x: Ints, w: Ints, compute: DataType) -> bool:
    """Return whether a convolution has no code unless each group is one of its own."""
    rank, groups = len(x), x[1] // w[1]
    depthwise = strikes("W-095", target, rank, groups, w[1])
    return depthwise or strikes("W-004", target, rank, groups, compute)


def _depthwise_strategy(
    x: Ints, w: Ints, op: ConvOp, compute: DataType, *, last: bool, alone: bool
) -> str:
    dynamic, positions = any(isinstance(d, Dim) for d in x), prod(w[2:])
    floats = compute in (DataType.FLOAT, DataType.DOUBLE)
    # Of more terms the sum falls into many loops (5x5: 2 ms of CPU time instead of 0.3).
    if (last or positions > 9) and floats and not dynamic and in_windows(x, w):
        return CHANNELS_LAST
    if positions <= MOST_POSITIONS and not (dynamic and strided(op)):
        return "shifted_sum"
    return PER_GROUP if alone else "direct"


def is_last(x: TensorSpec) -> bool:
    """Return whether an image is laid out channels-last, as is one of a single place."""
    return set(x.dims[2:]) == {1} or (len(x.dims) > 2 and x.strides[1] == 1 < x.strides[-1])


def is_depthwise(context: NodeContext) -> bool:
    """Return whether each channel has one filter, on a CPU and of floats that are summed as such.

    Dims are fixed.
    """
    filters, channels, *_ = context.dims("dw" if "dw" in context.node.outputs else "w")
    alone = channels == 1 and filters == group_count(context) > 1
    floats = context.compute in (DataType.FLOAT, DataType.DOUBLE)
    return context.target.is_cpu and alone and floats and not context.dynamic


def in_windows(x: Ints, w: Ints) -> bool:
    """Return whether `CHANNELS_LAST` has code for a depthwise convolution of these dims.

    Of many positions it is linalg's own, which has one or two spatial dims.
    """
    return len(x) <= 4 or prod(w[2:]) <= MOST_POSITIONS


def strided(op: ConvOp) -> bool:
    """Return whether some stride is larger than 1."""
    return max(op.stride, default=1) > 1


def conv_op(context: NodeContext) -> ConvOp:
    """Return the node's op."""
    op = context.op
    assert isinstance(op, ConvOp)
    return op


def group_count(context: NodeContext) -> int:
    """Return the number of groups."""
    channels = context.dims("dx" if "dx" in context.node.outputs else "x")[1]
    return channels // context.dims("dw" if "dw" in context.node.outputs else "w")[1]


def as_gemm(context: NodeContext) -> bool:
    """Return whether the strategies fit that make matmuls of a convolution's filter positions."""
    floats = context.compute in (DataType.FLOAT, DataType.DOUBLE)
    one, few = group_count(context) == 1, _gathered(context.dims("w"))
    return context.target.is_cpu and one and floats and few and not context.dynamic


def _gathered(w: Ints) -> bool:
    """Return whether a filter has so few positions that patches are gathered for all of them."""
    return prod(w[2:]) <= _MOST_GATHERED and max(w[2:]) <= _LONGEST


def as_blocks(context: NodeContext) -> bool:
    """Return whether the strategy fits that makes matmuls in blocks of our own choice."""
    return as_gemm(context) and up_to_float(context, "x", "w")


def as_products(context: NodeContext) -> bool:
    """Return whether a matmul of all filter positions fits, whose results are summed."""
    return as_blocks(context) and _summed(context.dims("w"))


def _summed(w: Ints) -> bool:
    return 1 < prod(w[2:]) <= MOST_POSITIONS


def as_direct_nhwc(context: NodeContext) -> bool:
    """Return whether tiles fit that read a channels-last image as it lies."""
    x, w = context.dims("x"), context.dims("w")
    if as_groups_in_blocks(context):
        return not is_depthwise(context) and read_as_it_lies(w, conv_op(context))
    return as_blocks(context) and _tiled(context.target, x, w, conv_op(context))


def _tiled(target: Target, x: Ints, w: Ints, op: ConvOp) -> bool:
    # The compiler drops dims of one element, and the tiles with them.
    if len(w) != 4 or min(w[1:]) == 1 or prod(w[2:]) > MOST_POSITIONS:
        return False
    tiles = direct_tiles(target, x[0], w[1], w[0], w[2:], op.output_extents(x[2:], w[2:]))
    return tiles.filters // tiles.panel <= MOST_PANELS


def read_as_it_lies(w: Ints, op: ConvOp) -> bool:
    """Return whether a kernel takes the starts of all positions of a filter as arguments."""
    along = zip(w[2:], op.dilation, strict=True)
    starts = {i * step for size, dilation in along for step in (1, dilation) for i in range(size)}
    return len(w) <= 5 and len(starts) <= MOST_OFFSETS


def as_groups_in_blocks(context: NodeContext, port: str = "x") -> bool:
    """Return whether that strategy fits several groups; ``port``: the image's."""
    few = prod(context.dims("w")[2:]) <= MOST_POSITIONS
    known = up_to_float(context, port, "w") and few and not context.dynamic
    return context.target.is_cpu and known and group_count(context) > 1


def as_groups_in_rows(context: NodeContext) -> bool:
    """Return whether `row_im2col` fits several groups: of a filter of several positions."""
    several = context.dims("w")[1] > 1 and prod(context.dims("w")[2:]) > 1
    return several and as_groups_in_blocks(context)


GEMM_NEEDS = (
    f"one group, float or double compute, filters of up to {_MOST_GATHERED} positions, and "
    f"{_LONGEST} along a dim, fixed dims, CPU"
)


def _symmetric(context: NodeContext) -> bool:
    op = conv_op(context)
    return op.pre_padding == op.post_padding


PLAIN_GRADIENT = Strategy(
    name="plain",
    help="one op for the gradient of a convolution, on the operands as they come: for "
    "comparison (W-087: on gfx9 some are compiled wrongly)",
    fits=lambda c: c.compute.is_float and not c.dynamic and _symmetric(c),
    why="a compute type of floats, equal padding on both sides, fixed dims",
    tried=False,
)
