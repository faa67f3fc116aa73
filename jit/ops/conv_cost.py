# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the strategies of forward convolutions of one group cost on CPUs.

An estimate is a sum: of each quantity of a strategy (elements that are copied, multiply-adds, ...),
times the nanoseconds that one of it takes on one core (`conv_rates`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import NamedTuple

from ...graph_api.ops.conv_fprop import ConvOp
from ..cpu_machine import cpu_machine
from ..target import Target
from .blocking import BLOCKED, blocking, passes
from .conv_rates import Rates, nanoseconds
from .direct_tiles import DIRECT_NHWC, direct_tiles
from .gemm_cost import TILED, raggedness

__all__ = [
    "KN2ROW",
    "ROWS",
    "WIDENING",
    "Conv",
    "Quantities",
    "blocked_of",
    "columns_at_once",
    "conv_costs",
    "filled",
    "numbers",
    "price",
    "priced",
    "quantities",
    "rates_of",
    "rows_of",
    "samples_side_by_side",
    "tiled",
]

Ints = tuple[int, ...]

ROWS, KN2ROW = "row_im2col", "kn2row"
WIDENING = frozenset({BLOCKED, KN2ROW, DIRECT_NHWC})
"""The strategies that multiply in float32 what comes in 16 bits: their rates are float32's."""


class Conv(NamedTuple):
    """A convolution in numbers.

    Attributes
    ----------
    samples, channels, filters : int
    size, extents, given, padded : tuple of int
        Spatial dims of the filter, of the result, and of the input without and with its padding.
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
    virtual : bool
        Whether what follows reads the result.
    """

    samples: int
    channels: int
    filters: int
    size: Ints
    extents: Ints
    given: Ints
    padded: Ints
    strided: bool
    dilated: bool
    last: bool
    narrow: bool
    lanes: int
    virtual: bool = False

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
    return filled(m, lanes) * filled(n, lanes) * k * _MEASURED_LANES / lanes


def filled(extent: int, lanes: int) -> int:
    """Return the extent of the tiles along a dim, which are filled up."""
    return 1 << (extent - 1).bit_length() if extent < lanes else -(-extent // lanes) * lanes


_MEASURED_LANES = 16
"""Elements of the vectors of the CPU that all was measured on."""
_AT_ONCE = 8
# Where a step of `direct` takes a steady time: so many columns, and filters and results from these
# on.  Channels-last a vector has to hold filters as well (of 8 columns and 66 filters a step takes
# ten times as long).
_FULL, _FEW, _MANY = (4, 5, 8), 4, 4000
_ODD = (6, 7)
"""Columns of which a step takes longest where there are few results."""
Quantities = Mapping[str, float]


def _direct(conv: Conv) -> Quantities:
    """Channels-last, or of one sample, filters of one position without strides are an operand.

    Others have no vectors: with strides a multiply-add takes 0.1 to 100 ns.
    """
    one = conv.positions == 1
    if not one or conv.strided or not (conv.last or conv.samples == 1):
        multiply_adds = conv.results * conv.channels * conv.positions
        if conv.narrow:
            return {"singly": multiply_adds}
        if one:
            return {"strided places" if conv.strided else "places": multiply_adds}
        columns = _columns(conv)
        return {_steps(conv, columns): multiply_adds / columns}
    rows = conv.samples * prod(conv.extents)
    return {
        "multiplied": conv.tiled(rows, conv.filters, conv.channels),
        "copied": conv.patches,
        "packed": conv.weights,
        "written": conv.results,
        **_followed(conv),
    }


def _steps(conv: Conv, columns: int) -> str:
    """Return the quantity of steps that compute so many columns."""
    if conv.strided:
        return "strided rows"
    many = conv.results >= _MANY
    if columns in _ODD and not many:
        return "odd rows"
    held = not conv.last or (columns == _AT_ONCE and conv.filters % _AT_ONCE == 0)
    full = columns in _FULL and conv.filters >= _FEW and many
    return "full rows" if full and held else "rows"


def _columns(conv: Conv) -> int:
    """Return how many columns a step computes: one by one, where few filters are strided."""
    alone = conv.last and conv.strided and conv.filters < _AT_ONCE
    return 1 if alone else columns_at_once(conv.extents[-1])


def columns_at_once(extent: int) -> int:
    """Return how many columns of the result the compiler computes at once in a convolution.

    They are the largest divisor of up to 8 (``getMaxVectorTileSize`` of IREE's LLVMCPU dispatch
    configuration), whatever the vectors: of 56 they are 8, of 53 it is one.
    """
    return next(n for n in range(min(extent, _AT_ONCE), 0, -1) if extent % n == 0)


def _row_im2col(conv: Conv) -> Quantities:
    """Of one column there is no sum that parts the matmul from the result's change of layout.

    Of several samples, channels-first, it has no tiles then (1x1, 512 to 128 channels of 28x28,
    batch of 8: 20 ms, 5.0 by `im2col_gemm`).
    """
    if conv.size[-1] == 1 and not conv.last and conv.samples > 1:
        return {}
    return rows_of(conv)


def rows_of(conv: Conv) -> Quantities:
    *others, last = conv.size
    rows = conv.samples * prod(conv.extents[:-1]) * conv.padded[-1]
    depth, columns = conv.channels * prod(others), conv.filters * last
    # Of filters of one position the input is the operand as it lies.
    moved = "read" if conv.positions == 1 and not conv.strided else "copied"
    return {
        moved: rows * depth,
        "loose": rows * depth * conv.loose(conv.channels),
        "multiplied": conv.tiled(rows, columns, depth),
        "packed": conv.weights,
        "columns": rows * columns,
        "added": conv.results * last,
        "written": conv.results,
        **_followed(conv),
    }


def _followed(conv: Conv) -> Quantities:
    """Channels-last, of several samples, what follows has other loops than a matmul of all places.

    8x40x28x28 to 240 channels with Swish behind it: 6.9 ms, in blocks 1.2, on a Xeon.
    """
    others = conv.positions == 1 and conv.last and conv.samples > 1 and conv.virtual
    return {"followed": conv.results} if others else {}


# Nanoseconds on one core: a multiply-add of a batch of matmuls that are not packed; copying and
# packing an element of what goes in and comes out.
_BATCHED, _COPIED = 0.05, 2.4


def samples_side_by_side(target: Target, filters: int, channels: int) -> bool:
    """Return whether samples are copied side by side for one matmul of filters of one position.

    Otherwise they are a batch of matmuls that are not packed.
    """
    # In nanoseconds for each position of the result, on one core.
    pairs = filters * channels
    packed = pairs * TILED + _COPIED * (filters + channels)
    return packed < pairs * _BATCHED * raggedness(target, filters, channels)


def _im2col_gemm(target: Target, conv: Conv) -> Quantities:
    """Of several samples, channels-first, the result's change of layout is fused with the matmul.

    It has no tiles then, and takes up to eight times as long as `row_im2col`.  Those of filters of
    one position are copied side by side, or a batch of matmuls that are not packed.  Channels-last
    those with strides have no tiles either, sometimes (750x317x299 in 16 bits: 72 ms, in blocks 1).
    """
    one = conv.positions == 1
    if (conv.samples > 1 and not (one or conv.last)) or (one and conv.strided and conv.last):
        return {}
    given = conv.samples * conv.channels * prod(conv.padded)
    beside = samples_side_by_side(target, conv.filters, conv.channels)
    if one and conv.samples > 1 and not beside:
        ragged = raggedness(target, conv.filters, conv.channels)
        return {
            "apart": conv.patches,
            "batched": conv.results * conv.channels * ragged,
            "written": conv.results,
            **_followed(conv),
        }
    moved = conv.samples > 1 if one else not conv.last
    return {
        "turned": given if moved else 0,
        "apart" if one else "copied": conv.patches,
        "multiplied": conv.tiled(
            conv.samples * prod(conv.extents), conv.filters, conv.channels * conv.positions
        ),
        "packed": conv.weights,
        "written": conv.results,
        "ragged": conv.results if conv.filters % cpu_machine(target).lanes else 0,
        "turned back": 0 if one or conv.last else conv.results,
        **_followed(conv),
    }


def _img2col(conv: Conv) -> Quantities:
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


def blocked_of(target: Target, conv: Conv) -> Quantities:
    depth = conv.channels * conv.positions
    count, m, n = _product(conv, conv.filters, prod(conv.extents))
    blocks = blocking(target, m, n, depth)
    width = blocks.panels * blocks.panel
    # Of filters of one position the input is the operand as it lies.
    gathered = conv.patches if conv.positions > 1 or conv.strided else 0
    return {
        "copied": gathered,
        "loose": gathered * conv.loose(conv.channels if conv.last else conv.extents[-1]),
        "apart": conv.patches if conv.strided else 0,
        "padded": width * depth if width != n else 0,
        "multiplied": count * blocks.overhead * m * width * depth,
        "packed": count * width * depth,
        "written": passes(virtual=conv.virtual) * count * m * width,
        "cut": count * m * n if width != n else 0,
    }


def _product(conv: Conv, filters: int, places: int) -> tuple[int, int, int]:
    """Return how many matmuls there are of filters and places of a sample; rows and columns."""
    if conv.last:
        return 1, conv.samples * places, filters
    return conv.samples, filters, places


def _kn2row(target: Target, conv: Conv) -> Quantities:
    products, places = conv.filters * conv.positions, prod(conv.given)
    count, m, n = _product(conv, products, places)
    blocks = blocking(target, m, n, conv.channels)
    width, added = blocks.panels * blocks.panel, conv.results * conv.positions
    return {
        "copied": 0 if conv.last else conv.samples * conv.channels * places,
        "packed": conv.channels * products,
        "multiplied": count * blocks.overhead * m * width * conv.channels,
        "columns": conv.samples * products * prod(conv.padded),
        "added": added,
        "loose": added * conv.loose(conv.filters if conv.last else conv.extents[-1]),
    }


def _direct_nhwc(target: Target, conv: Conv) -> Quantities:
    """An image that is channels-last is copied where it has padding, or is cut."""
    if len(conv.size) != 2:
        return {}
    work = conv.channels * conv.positions
    tiles = direct_tiles(target, conv.samples, conv.channels, conv.filters, conv.size, conv.extents)
    rows, image = conv.samples * tiles.cuts * tiles.rows, conv.channels * prod(conv.padded)
    apart = not conv.last or conv.padded != conv.given or tiles.cuts > 1
    steps = tiles.overhead * rows * tiles.columns * tiles.filters * work
    # What the kernel writes is the result, and nothing is cut off, turned or joined.
    written = (tiles.cuts * tiles.rows, tiles.columns, tiles.panel)
    whole = conv.last and written == (*conv.extents, conv.filters)
    return {
        "panels": tiles.filters // tiles.panel,
        "copied": conv.samples * image if apart else 0,
        "loose": conv.samples * image * conv.loose(conv.channels),
        "packed": work * tiles.filters,
        "multiplied": steps,
        "stepped": steps / tiles.depth,
        "written": 0 if whole else conv.results,
    }


_QUANTITIES: dict[str, Callable[[Target, Conv], Quantities]] = {
    "direct": lambda target, conv: _direct(conv),
    ROWS: lambda target, conv: _row_im2col(conv),
    "im2col_gemm": _im2col_gemm,
    "img2col": lambda target, conv: _img2col(conv),
    BLOCKED: blocked_of,
    KN2ROW: _kn2row,
    DIRECT_NHWC: _direct_nhwc,
}


def conv_costs(
    target: Target, x: Ints, w: Ints, op: ConvOp, *, last: bool, narrow: bool, virtual: bool = False
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
    virtual : bool
        Whether what follows reads the result.

    Returns
    -------
    dict of str to float
        Microseconds on one core.
    """
    found = quantities(target, x, w, op, last=last, narrow=narrow, virtual=virtual)
    rates = nanoseconds(cpu_machine(target))
    return priced(found, rates, last=last, narrow=narrow)


def price(quantities: Quantities, rates: Mapping[str, float]) -> float:
    """Return microseconds of what a strategy does, by nanoseconds of each quantity."""
    return sum(n * rates.get(what, 0.0) for what, n in quantities.items()) / 1e3


def priced(
    quantities: Mapping[str, Mapping[str, float]],
    table: Rates,
    *,
    last: bool,
    narrow: bool,
) -> dict[str, float]:
    """Return microseconds of the strategies that a table of nanoseconds knows."""
    return {
        name: price(found, rates)
        for name, found in quantities.items()
        if (rates := rates_of(table, name, last=last, narrow=narrow))
    }


def rates_of(table: Rates, name: str, *, last: bool, narrow: bool) -> Mapping[str, float] | None:
    """Return the nanoseconds of a strategy, if the table knows it: float32's, where it widens."""
    own = table.get((name, last, narrow))
    return table.get((name, last, False)) if own is None and name in WIDENING else own


def quantities(
    target: Target, x: Ints, w: Ints, op: ConvOp, *, last: bool, narrow: bool, virtual: bool = False
) -> dict[str, Quantities]:
    """Return what each strategy does, in numbers; parameters as of `conv_costs`."""
    conv = numbers(target, x, w, op, last=last, narrow=narrow)._replace(virtual=virtual)
    all_found = ((name, find(target, conv)) for name, find in _QUANTITIES.items())
    converted = {"converted": prod(x) + prod(w)} if narrow else {}
    return {
        name: {"call": 1, **found, **(converted if name in WIDENING else {})}
        for name, found in all_found
        if found
    }


def numbers(target: Target, x: Ints, w: Ints, op: ConvOp, *, last: bool, narrow: bool) -> Conv:
    return Conv(
        samples=x[0],
        channels=w[1],
        filters=w[0],
        size=w[2:],
        extents=op.output_extents(x[2:], w[2:]),
        given=x[2:],
        padded=tuple(map(sum, zip(op.pre_padding, x[2:], op.post_padding, strict=True))),
        strided=max(op.stride) > 1,
        dilated=max(op.dilation) > 1,
        last=last,
        narrow=narrow,
        lanes=cpu_machine(target).lanes,
    )
