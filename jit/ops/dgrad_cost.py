# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the strategies of data gradients cost on CPUs, as `conv_cost` says it of forward ones."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ...graph_api.dtypes import DataType
from ...graph_api.ops.conv_dgrad import ConvDgrad
from ..cpu_machine import CpuMachine, cpu_machine
from ..target import Target
from .blocking import blocking
from .conv_cost import KN2ROW, price
from .convolution import Forward, cheapest_without_flags
from .dgrad_geometry import (
    filters_overlap,
    flipped_convolution,
    pads_columns,
    pointwise_op,
    spread,
)
from .direct_tiles import DIRECT_NHWC

__all__ = [
    "FLIPPED",
    "GEMM_COL2IM",
    "PATCHES",
    "PHASES",
    "Rates",
    "dgrad_costs",
    "dgrad_quantities",
    "rates",
]

Ints = tuple[int, ...]

FLIPPED, GEMM_COL2IM, PHASES = "flipped", "gemm_col2im", "phases"
PATCHES = "patches"
"""What ``flipped`` is where filters do not overlap: their results are laid side by side."""

Rates = Mapping[str, Mapping[str, float]]
"""Nanoseconds on one core, by what is emitted, and quantity; of both layouts and all types, as
those of either alone chose no better for other rows.

"forward" multiplies the estimate of the forward convolution that ``flipped`` makes, of filters of
one position where they do not overlap.  Fitted by
``scripts/fit_costs`` to ``tests/data/strategies/conv_dgrad_sapphirerapids.jsonl``.
"""

# Vectors of 16 numbers: an Intel Xeon with AMX, two of its cores.
_AVX512: Rates = {
    FLIPPED: {"call": 18000, "forward": 2.7, "weights": 2.0, "zeros": 2.4},
    PATCHES: {"call": 6500, "forward": 2.2, "given": 1.0, "weights": 3.0, "written": 3.4},
    GEMM_COL2IM: {
        "call": 14000, "columns": 0.53, "copied": 1.4, "multiplied": 0.018, "packed": 1.3,
        "phases": 2600, "turned": 1.1, "written": 1.8,
    },
}  # fmt: skip
# Vectors of 8: an AMD EPYC of Zen 3, when ``gemm_col2im`` had the compiler's own tiles.
_AVX2: Rates = {
    FLIPPED: {"call": 22000, "forward": 1.6, "weights": 8.0, "zeros": 15},
    PATCHES: {"call": 19000, "forward": 1.3, "weights": 7.5, "written": 4.1},
    GEMM_COL2IM: {
        "call": 16000, "columns": 2.6, "copied": 6.8, "multiplied": 0.046, "packed": 5.3,
        "parts": 440, "phases": 3900, "turned": 4.2, "written": 2.0,
    },
}  # fmt: skip


def rates(machine: CpuMachine) -> Rates:
    """Return the rates for a CPU: those of the nearest vectors that were measured."""
    return _AVX512 if machine.has_avx512 else _AVX2


def dgrad_costs(
    target: Target, dy: Ints, w: Ints, op: ConvDgrad, multiplied: DataType, *, last: bool
) -> dict[str, float]:
    """Return estimates by the name of the strategy.

    Parameters
    ----------
    target : Target
        A CPU.
    dy, w : tuple of int
        Dims, of one group.
    op : ConvDgrad
    multiplied : DataType
        In which both operands are multiplied: floats of up to 32 bits.
    last : bool
        Whether dy is laid out channels-last.

    Returns
    -------
    dict of str to float
        Microseconds on one core.
    """
    known = rates(cpu_machine(target))
    found = dgrad_quantities(target, dy, w, op, multiplied, last=last)
    return {
        FLIPPED if name == PATCHES else name: price(one, known[name]) for name, one in found.items()
    }


def dgrad_quantities(
    target: Target, dy: Ints, w: Ints, op: ConvDgrad, multiplied: DataType, *, last: bool
) -> dict[str, Mapping[str, float]]:
    """Return what is done in numbers, by the names of the rates; parameters as of `dgrad_costs`."""
    filters, channels, *size = w
    dims, positions = op.dx_dims, prod(size)
    sizes = zip(dy[2:], dims[2:], size, op.stride, strict=True)
    rows = dy[0] * prod(max(o, -(-n // s) + (k - 1) // s) for o, n, k, s in sizes)
    columns = channels * positions
    overlap = filters_overlap(w, op)
    forward = (
        _flipped(target, dy, w, op, multiplied, last=last)
        if overlap
        else _of_one_position(target, dy, w, multiplied)
    )
    cost, strategy = cheapest_without_flags(forward) if forward else (0.0, "")
    # Those two transpose the filters as matrices, which is in their estimates.
    gathered = strategy not in (KN2ROW, DIRECT_NHWC)
    flipped = {"call": 1, "forward": 1e3 * cost, "weights": prod(w) if gathered else 0}
    if overlap:
        zeros = dy[0] * filters * prod(spread(dy[2:], op.stride))
        flipped["zeros"] = zeros if max(op.stride) > 1 else 0
    else:
        flipped |= {"given": prod(dy) if last else 0, "written": prod(dims)}
    given = dy[0] * prod(dy[2:])
    used = given if pads_columns(given, rows, filters) else rows
    blocks = blocking(target, used, columns, filters)
    width = blocks.panels * blocks.panel
    summed = {
        "call": 1,
        "copied": used * filters,
        "multiplied": blocks.overhead * used * width * filters,
        "packed": filters * width,
        "columns": rows * columns,
        "parts": positions,
        "phases": prod(op.stride),
        "turned": 0 if last else prod(dims),
        "written": prod(dims),
    }
    return {FLIPPED if overlap else PATCHES: flipped, GEMM_COL2IM: summed}


def _flipped(
    target: Target, dy: Ints, w: Ints, op: ConvDgrad, multiplied: DataType, *, last: bool
) -> Forward | None:
    """Return the convolution of dy with zeros by ``flipped``; None where it meets no filter."""
    found = flipped_convolution(dy, w, op)
    if found is None:
        return None
    _, conv = found
    return Forward(target, conv.x, conv.w, conv.op, DataType.FLOAT, multiplied, last)


def _of_one_position(target: Target, dy: Ints, w: Ints, multiplied: DataType) -> Forward:
    """Return the convolution that makes all patches of the result."""
    rank = len(dy) - 2
    op, turned = pointwise_op(rank), (prod(w[1:]), w[0], *(1,) * rank)
    return Forward(target, dy, turned, op, DataType.FLOAT, multiplied, last=False)
