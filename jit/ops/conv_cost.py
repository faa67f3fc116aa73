# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the strategies of forward convolutions of one group cost on CPUs.

An estimate is a sum: of each quantity of a strategy (elements that are copied, multiply-adds, ...),
times the nanoseconds that one of it takes on one core.  They are fitted to measured times of
drawn convolutions and layers of networks on an AMD EPYC (Zen 5), with two threads, times two:
``tests/data/strategies``, ``scripts/fit_costs`` and ``docs/design/0007-strategies.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import NamedTuple

from ...graph_api.ops.conv_fprop import ConvOp
from ..cpu_machine import cpu_machine
from ..target import Target
from .blocking import BLOCKED, blocking

__all__ = [
    "MEASURED_LANES",
    "NANOSECONDS",
    "conv_costs",
    "grouped_costs",
    "priced",
    "quantities",
    "tiled",
]

Ints = tuple[int, ...]


class _Conv(NamedTuple):
    """A convolution in numbers.

    Attributes
    ----------
    samples, channels, filters : int
    size, extents, padded : tuple of int
        Spatial dims of the filter, of the result, and of the input with its padding.
    strided : bool
        Whether some stride is larger than 1.
    dilated : bool
        Whether some dilation is.
    last : bool
        Whether the input is laid out channels-last.
    narrow : bool
        Whether operands are multiplied in 16 bits.
    lanes : int
        Elements of 32 bits in the target's vectors.
    """

    samples: int
    channels: int
    filters: int
    size: Ints
    extents: Ints
    padded: Ints
    strided: bool
    dilated: bool
    last: bool
    narrow: bool
    lanes: int

    @property
    def positions(self) -> int:
        return prod(self.size)

    @property
    def results(self) -> int:
        return self.samples * self.filters * prod(self.extents)

    @property
    def patches(self) -> int:
        """Elements of the input for all results of one filter."""
        return self.samples * prod(self.extents) * self.channels * self.positions

    @property
    def weights(self) -> int:
        return self.filters * self.channels * self.positions

    def tiled(self, m: int, n: int, k: int) -> float:
        return tiled(self.lanes, m, n, k)

    def loose(self, extent: int) -> float:
        """Share of the elements along a dim that are in no whole vector: they are copied singly."""
        return extent % self.lanes / extent


def tiled(lanes: int, m: int, n: int, k: int) -> float:
    """Return the multiply-adds of a matmul whose tiles are filled, for vectors of 16."""
    return _filled(m, lanes) * _filled(n, lanes) * k * MEASURED_LANES / lanes


def _filled(extent: int, lanes: int) -> int:
    return 1 << (extent - 1).bit_length() if extent < lanes else -(-extent // lanes) * lanes


MEASURED_LANES = 16
"""Elements of the vectors of the CPU that all was measured on."""
# Nanoseconds on one core, by strategy, whether the input is channels-last, and whether operands are
# multiplied in 16 bits.  A quantity that is not here adds nothing that could be told apart.  "call"
# is all that is done once.  Those of `direct` that is no matmul are the slow half of what was
# measured, as its vectors depend on more than these quantities.
_DIRECT = {
    "call": 5000, "singly": 0.75, "copied": 0.44, "apart": 2.2, "multiplied": 0.013,
    "written": 0.14,
}  # fmt: skip
_NARROW_DIRECT = {
    "call": 5000, "singly": 2.1, "copied": 0.18, "apart": 14, "multiplied": 0.013, "packed": 1.3,
    "written": 0.25,
}  # fmt: skip
NANOSECONDS: dict[tuple[str, bool, bool], dict[str, float]] = {
    ("direct", False, False): _DIRECT,
    ("direct", True, False): _DIRECT,
    ("direct", False, True): _NARROW_DIRECT,
    ("direct", True, True): _NARROW_DIRECT,
    ("row_im2col", False, False): {
        "call": 7700, "copied": 1.3, "multiplied": 0.01, "packed": 1.6, "columns": 0.38,
        "added": 0.15,
    },
    ("row_im2col", True, False): {
        "call": 7700, "copied": 0.93, "multiplied": 0.0098, "packed": 1.6, "columns": 0.067,
        "added": 0.3,
    },
    ("row_im2col", False, True): {
        "call": 14000, "copied": 0.087, "loose": 0.84, "multiplied": 0.014, "packed": 1.2,
        "columns": 0.12, "written": 2.4,
    },
    ("row_im2col", True, True): {
        "call": 7800, "copied": 0.66, "loose": 4.5, "multiplied": 0.0058, "columns": 0.3,
    },
    ("im2col_gemm", False, False): {
        "call": 7700, "turned": 1.5, "copied": 1.1, "apart": 0.45, "multiplied": 0.013,
        "packed": 0.85, "written": 0.3,
    },
    ("im2col_gemm", True, False): {
        "call": 9800, "copied": 1.2, "multiplied": 0.014, "packed": 2.3, "written": 0.41,
    },
    ("im2col_gemm", False, True): {
        "call": 12000, "turned": 3.3, "copied": 0.32, "apart": 0.14, "multiplied": 0.0091,
        "packed": 1.5, "written": 0.76,
    },
    ("im2col_gemm", True, True): {
        "call": 11000, "copied": 1.5, "apart": 0.13, "multiplied": 0.0031, "packed": 0.92,
        "written": 0.28,
    },
    ("img2col", False, False): {
        "call": 5000, "copied": 0.43, "loose": 0.84, "apart": 0.51, "multiplied": 0.02,
        "packed": 0.4, "loosely written": 0.73,
    },
    ("img2col", False, True): {
        "call": 8900, "copied": 0.55, "loose": 1.8, "apart": 0.42, "multiplied": 0.0058,
        "packed": 1.2, "written": 0.54,
    },
    (BLOCKED, False, False): {
        "call": 9600, "copied": 0.95, "loose": 1.8, "apart": 1.0, "multiplied": 0.0082,
        "written": 0.4,
    },
    (BLOCKED, True, False): {
        "call": 3500, "copied": 1.2, "loose": 0.36, "multiplied": 0.0064, "packed": 1.8,
        "padded": 0.65, "written": 0.23,
    },
    (BLOCKED, False, True): {
        "call": 11000, "copied": 0.44, "loose": 0.2, "apart": 1.2, "multiplied": 0.022,
        "packed": 0.12,
    },
}  # fmt: skip

_Quantities = Mapping[str, float]


def _direct(conv: _Conv) -> _Quantities:
    """Channels-last, or of one sample, filters of one position are a matmul's operand."""
    one = conv.positions == 1
    if not one or not (conv.last or (conv.samples == 1 and not conv.strided)):
        return {"singly": conv.results * conv.channels * conv.positions}
    rows = conv.samples * prod(conv.extents)
    return {
        "multiplied": conv.tiled(rows, conv.filters, conv.channels),
        "apart" if conv.strided else "copied": conv.patches,
        "packed": conv.weights,
        "written": conv.results,
    }


def _row_im2col(conv: _Conv) -> _Quantities:
    """Of one column there is no sum that parts the matmul from the result's change of layout.

    Of several samples, channels-first, it has no tiles then (1x1, 512 to 128 channels of 28x28,
    batch of 8: 20 ms, 5.0 by `im2col_gemm`).
    """
    *others, last = conv.size
    if last == 1 and not conv.last and conv.samples > 1:
        return {}
    rows = conv.samples * prod(conv.extents[:-1]) * conv.padded[-1]
    depth, columns = conv.channels * prod(others), conv.filters * last
    return {
        "copied": rows * depth,
        "loose": rows * depth * conv.loose(conv.channels),
        "multiplied": conv.tiled(rows, columns, depth),
        "packed": conv.weights,
        "columns": rows * columns,
        "added": conv.results * last,
        "written": conv.results,
    }


def _im2col_gemm(conv: _Conv) -> _Quantities:
    """Of several samples, channels-first, the result's change of layout is fused with the matmul.

    It has no tiles then, and takes up to eight times as long as `row_im2col`.
    """
    one = conv.positions == 1
    if not one and not conv.last and conv.samples > 1:
        return {}
    given = conv.samples * conv.channels * prod(conv.padded)
    return {
        "turned": 0 if one or conv.last else given,
        "apart" if one else "copied": conv.patches,
        "multiplied": conv.tiled(
            conv.samples * prod(conv.extents), conv.filters, conv.channels * conv.positions
        ),
        "packed": conv.weights,
        "written": conv.results,
    }


def _img2col(conv: _Conv) -> _Quantities:
    """The compiler's pass leaves dilated convolutions as they are.

    Channels-last it is no better than others, and of several samples in 16 bits up to seven times
    as slow.
    """
    if len(conv.size) != 2 or conv.dilated or conv.last or (conv.narrow and conv.samples > 1):
        return {}
    rows = conv.samples * prod(conv.extents)
    return {
        "copied": conv.patches,
        "loose": conv.patches * conv.loose(conv.extents[-1]),
        "apart": conv.patches if conv.strided else 0,
        "multiplied": conv.tiled(rows, conv.filters, conv.channels * conv.positions),
        "packed": conv.weights,
        "written": conv.results,
        "loosely written": conv.results * conv.loose(conv.extents[-1]),
    }


def _blocked(target: Target, conv: _Conv) -> _Quantities:
    """Nothing is known of it for other vectors than those of AVX-512."""
    if conv.lanes != MEASURED_LANES:
        return {}
    depth, extent = conv.channels * conv.positions, prod(conv.extents)
    count, m, n = conv.samples, conv.filters, extent
    if conv.last:
        count, m, n = 1, conv.samples * extent, conv.filters
    blocks = blocking(target, m, n, depth)
    width = blocks.panels * blocks.panel
    return {
        "copied": conv.patches,
        "loose": conv.patches * conv.loose(conv.channels if conv.last else conv.extents[-1]),
        "apart": conv.patches if conv.strided else 0,
        "padded": width * depth if width != n else 0,
        "multiplied": count * blocks.overhead * m * width * depth,
        "packed": count * width * depth,
        "written": count * m * width,
    }


_QUANTITIES: dict[str, Callable[[Target, _Conv], _Quantities]] = {
    "direct": lambda target, conv: _direct(conv),
    "row_im2col": lambda target, conv: _row_im2col(conv),
    "im2col_gemm": lambda target, conv: _im2col_gemm(conv),
    "img2col": lambda target, conv: _img2col(conv),
    BLOCKED: _blocked,
}


def conv_costs(
    target: Target, x: Ints, w: Ints, op: ConvOp, *, last: bool, narrow: bool
) -> dict[str, float]:
    """Return estimates by the name of the strategy, where something is known of it.

    Parameters
    ----------
    target : Target
        A CPU.
    x, w : tuple of int
        Dims of input and filter, of one group.
    op : ConvOp
    last : bool
        Whether x is laid out channels-last.
    narrow : bool
        Whether operands are multiplied in 16 bits.

    Returns
    -------
    dict of str to float
        Microseconds on one core.
    """
    found = quantities(target, x, w, op, last=last, narrow=narrow)
    return priced(found, NANOSECONDS, last=last, narrow=narrow)


def priced(
    quantities: Mapping[str, Mapping[str, float]],
    table: Mapping[tuple[str, bool, bool], Mapping[str, float]],
    *,
    last: bool,
    narrow: bool,
) -> dict[str, float]:
    """Return microseconds of the strategies that a table of nanoseconds knows."""
    return {
        name: sum(n * rates.get(what, 0.0) for what, n in found.items()) / 1e3
        for name, found in quantities.items()
        if (rates := table.get((name, last, narrow)))
    }


# Of several groups: a multiply-add of one op, and of one position channels-last, otherwise, and in
# 16 bits; an element of the patches that stay in the caches, beyond them, and with a stride more;
# a multiply-add in blocks.
_GROUPED, _BY_CHANNELS, _BY_PLANES, _IN_16_BITS = 0.45, 0.2, 0.9, 1.5
_NEAR_PATCH, _FAR_PATCH, _STRIDED_PATCH, _IN_BLOCKS = 1.2, 2.2, 0.6, 0.02
_NEAR = 4  # times the second cache
_CALL, _BLOCKS = 5e3, 10e3


def grouped_costs(
    target: Target, x: Ints, w: Ints, op: ConvOp, *, last: bool, narrow: bool
) -> dict[str, float]:
    """Return estimates of several groups as one op and in blocks; all as of `conv_costs`."""
    places, positions = x[0] * prod(op.output_extents(x[2:], w[2:])), prod(w[2:])
    multiply_adds, patches = places * prod(w), places * x[1] * positions
    one = _IN_16_BITS if narrow else _BY_CHANNELS if last else _BY_PLANES
    costs = {"direct": _CALL + multiply_adds * (one if positions == 1 else _GROUPED)}
    machine = cpu_machine(target)
    if machine.lanes == MEASURED_LANES:
        near = 4 * patches <= _NEAR * machine.l2_bytes
        each = (_NEAR_PATCH if near else _FAR_PATCH) + _STRIDED_PATCH * (max(op.stride) > 1)
        costs[BLOCKED] = _BLOCKS + patches * each + multiply_adds * _IN_BLOCKS
    return {name: ns / 1e3 for name, ns in costs.items()}


def quantities(
    target: Target, x: Ints, w: Ints, op: ConvOp, *, last: bool, narrow: bool
) -> dict[str, _Quantities]:
    """Return what each strategy does, in numbers; parameters as of `conv_costs`."""
    conv = _Conv(
        samples=x[0],
        channels=w[1],
        filters=w[0],
        size=w[2:],
        extents=op.output_extents(x[2:], w[2:]),
        padded=tuple(map(sum, zip(op.pre_padding, x[2:], op.post_padding, strict=True))),
        strided=max(op.stride) > 1,
        dilated=max(op.dilation) > 1,
        last=last,
        narrow=narrow,
        lanes=cpu_machine(target).lanes,
    )
    all_found = ((name, find(target, conv)) for name, find in _QUANTITIES.items())
    return {name: {"call": 1, **found} for name, found in all_found if found}
