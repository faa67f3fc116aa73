# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the strategies of weight gradients cost on CPUs, as `conv_cost` says it of forward ones."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from ...graph_api.ops.conv_fprop import ConvOp
from ..cpu_machine import cpu_machine
from ..target import Target
from .blocking import BLOCKED, Blocking, blocking
from .conv_cost import priced, tiled
from .conv_rates import Rates

__all__ = [
    "EXCHANGED",
    "NANOSECONDS",
    "WgradBlocks",
    "exchanges",
    "wgrad_blocks",
    "wgrad_costs",
    "wgrad_quantities",
]

Ints = tuple[int, ...]

EXCHANGED = "exchanged"
"""The strategy of blocks with the patches of dy."""


class WgradBlocks(NamedTuple):
    """How the patches of x and dy are multiplied in blocks.

    Attributes
    ----------
    blocks : Blocking
    by_sample : bool
        Whether there is a matmul for each sample, and their results are added up, instead of one
        for all, whose operands are copied sample inside channel.
    swapped : bool
        Whether the patches are packed, and dy is read as it is, instead of the other way round.
    multiplied, packed : int
        Multiply-adds with those of vectors that are not filled, and elements that are packed.
    """

    blocks: Blocking
    by_sample: bool
    swapped: bool
    multiplied: float
    packed: float


# Multiply-adds in the time of which an element is packed.
_PACKED = 60


def wgrad_blocks(target: Target, dw: Ints, samples: int, places: int, groups: int) -> WgradBlocks:
    """Return how it is done; ``places``: of a sample."""
    filters, columns = dw[0] // groups, prod(dw[1:])
    by_sample = groups == 1 and samples > 1 and filters <= places
    count, depth = (samples, places) if by_sample else (groups, samples * places)
    found = []
    for swapped in (False, True):
        m, n = (filters, columns) if swapped else (columns, filters)
        blocks = blocking(target, m, n, depth, count=count)
        width = blocks.panels * blocks.panel
        multiplied = count * blocks.overhead * m * width * depth
        found.append(WgradBlocks(blocks, by_sample, swapped, multiplied, count * depth * width))
    return min(found, key=lambda way: way.multiplied + _PACKED * way.packed)


def exchanges(op: ConvOp, size: Ints, groups: int) -> bool:
    """Return whether patches of dy can be gathered instead of x's.

    Each filter position meets x and dy shifted against each other; without strides it is all the
    same which one is.
    """
    reach = [(k - 1) * d for k, d in zip(size, op.dilation, strict=True)]
    padded = zip((*op.pre_padding, *op.post_padding), (*reach, *reach), strict=True)
    fits = groups == 1 and max(op.stride) == 1 and all(0 <= pad <= most for pad, most in padded)
    return fits and prod(size) > 1


# As in `conv_cost`: nanoseconds on one core, by strategy, whether x is channels-last, and whether
# operands are of 16 bits.  Those of float32 are fitted to an Intel Xeon, two of its cores
# (``tests/data/strategies/conv_wgrad_sapphirerapids.jsonl``), others to a Zen 5 EPYC.
_CORRELATED, _NARROW_CORRELATED = {"call": 19000, "singly": 1.2}, {"call": 10000, "singly": 0.44}
_GEMM = {
    "apart": 5.4, "call": 16000, "copied": 3.1, "loose": 3.3, "multiplied": 0.016, "packed": 2.8,
    "parts": 3300, "written": 2.9,
}  # fmt: skip
# Operands of 16 bits are converted to float32 for blocks.
_BLOCKED: Mapping[tuple[str, bool], Mapping[str, float]] = {
    (BLOCKED, False): {
        "added": 2.7, "apart": 2.2, "call": 24000, "copied": 1.5, "moved": 1.6,
        "multiplied": 0.016, "packed": 1.7, "written": 2.1,
    },
    (BLOCKED, True): {
        "added": 1.5, "apart": 2.4, "call": 27000, "copied": 1.2, "moved": 1.4,
        "multiplied": 0.017, "packed": 1.7, "turned": 0.87, "written": 2.2,
    },
    (EXCHANGED, False): {
        "added": 2.5, "call": 18000, "copied": 1.7, "moved": 1.6, "multiplied": 0.013,
        "packed": 2.1, "written": 9.1,
    },
    (EXCHANGED, True): {
        "added": 1.5, "call": 26000, "copied": 2.0, "moved": 3.6, "multiplied": 0.013,
        "turned": 1.1, "written": 8.1,
    },
}  # fmt: skip
NANOSECONDS: Rates = {
    ("gemm", False, False): _GEMM,
    ("gemm", True, False): _GEMM,
    ("gemm", False, True): {
        "apart": 1.8, "call": 49000, "copied": 2.2, "multiplied": 0.015, "packed": 1.9,
        "thin": 9.0, "written": 0.95,
    },
    ("gemm", True, True): {
        "apart": 4.2, "call": 8300, "copied": 1.3, "loose": 0.74, "multiplied": 0.015,
        "packed": 2, "parts": 980, "written": 0.46,
    },
    ("correlated", False, False): _CORRELATED,
    ("correlated", True, False): _CORRELATED,
    ("correlated", False, True): _NARROW_CORRELATED,
    ("correlated", True, True): _NARROW_CORRELATED,
    **{
        (name, last, narrow): rates
        for (name, last), rates in _BLOCKED.items()
        for narrow in (False, True)
    },
}  # fmt: skip


def wgrad_costs(
    target: Target, x: Ints, dy: Ints, dw: Ints, op: ConvOp, *, last: bool, narrow: bool
) -> dict[str, float]:
    """Return estimates by the name of the strategy.

    Parameters
    ----------
    target : Target
        A CPU.
    x, dy, dw : tuple of int
        Dims, of one group.
    op : ConvOp
    last : bool
        Whether x is laid out channels-last.
    narrow : bool
        Whether operands are of 16 bits.

    Returns
    -------
    dict of str to float
        Microseconds on one core.
    """
    found = wgrad_quantities(target, x, dy, dw, op, last=last)
    return priced(found, NANOSECONDS, last=last, narrow=narrow)


def wgrad_quantities(
    target: Target, x: Ints, dy: Ints, dw: Ints, op: ConvOp, *, last: bool
) -> dict[str, Mapping[str, float]]:
    """Return what each strategy does, in numbers, of one group; parameters as of `wgrad_costs`."""
    filters, channels, *size = dw
    depth, positions = dy[0] * prod(dy[2:]), prod(size)
    patches, strided = depth * channels * positions, max(op.stride) > 1
    lanes = cpu_machine(target).lanes
    found: dict[str, Mapping[str, float]] = {
        "gemm": {
            **_common(patches, dw, strided=strided),
            # Elements are copied singly: channels-last those that fill no vector, channels-first
            # all where there are few channels.
            "loose": patches * (channels % lanes) / channels if last else 0,
            "thin": patches if channels < lanes // 2 and not last else 0,
            "parts": positions,
            "multiplied": tiled(lanes, filters, channels, depth) * positions,
            "packed": filters * depth,
        },
        BLOCKED: _in_blocks(target, x, dy, dw, last=last, strided=strided),
    }
    if exchanges(op, tuple(size), 1):
        of_dy = (channels, filters, *size)
        found[EXCHANGED] = _in_blocks(target, dy, x, of_dy, last=last, strided=False)
    if positions > 1:
        found["correlated"] = {"call": 1, "singly": patches * filters}
    return found


def _common(patches: int, dw: Ints, *, strided: bool) -> Mapping[str, float]:
    copied = {"copied": 0 if strided else patches, "apart": patches if strided else 0}
    return {"call": 1, **copied, "written": prod(dw)}


def _in_blocks(
    target: Target, x: Ints, dy: Ints, dw: Ints, *, last: bool, strided: bool
) -> Mapping[str, float]:
    """Return what it is to multiply dy with the patches of x."""
    samples, places = dy[0], prod(dy[2:])
    way = wgrad_blocks(target, dw, samples, places, 1)
    patches = samples * places * prod(dw[1:])
    return {
        # Of filters of one position x is the operand as it lies.
        **_common(patches if prod(dw[2:]) > 1 or strided else 0, dw, strided=strided),
        "turned": prod(x) + prod(dy) if last else 0,
        "moved": 0 if way.by_sample or samples == 1 else patches + prod(dy),
        "added": samples * prod(dw) if way.by_sample else 0,
        "multiplied": way.multiplied,
        "packed": way.packed,
    }
