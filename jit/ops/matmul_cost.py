# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the strategies of matmuls cost on CPUs.

As in `conv_cost` an estimate is a sum of quantities times nanoseconds on one core.  They are fitted
to matmuls of ``suites/random.yaml``, with two threads, times two: ``tests/data/strategies`` and
``docs/design/0007-strategies.md``.
"""

from __future__ import annotations

from typing import NamedTuple

from ..cpu_machine import CpuMachine, cpu_machine
from ..target import Target
from .blocking import BLOCKED, blocking, passes, reads_columns
from .conv_cost import filled, price
from .dots import DOTS, dots, fits_dots
from .rows import ROWS, rows

__all__ = [
    "GEMM",
    "UNTILED",
    "Product",
    "cheapest_tiles",
    "product_costs",
    "product_nanoseconds",
    "product_quantities",
]

GEMM, UNTILED = "gemm", "untiled"

# An AMD EPYC of Zen 3, 69 matmuls.
_AVX2: dict[str, dict[str, float]] = {
    GEMM: {
        "call": 46000, "left": 3.3, "left by columns": 3.3, "right": 1.1, "right by columns": 1.1,
        "multiplied": 0.074, "ragged": 2.0,
    },
    UNTILED: {
        "call": 15000, "along rows": 0.086, "along rows singly": 0.086, "along columns": 0.12,
        "along columns singly": 0.12, "written": 0.21, "ragged": 0.42, "far": 0.8,
    },
    BLOCKED: {
        "call": 20500, "columns": 0.25, "padded": 0.97, "turned": 5.0, "multiplied": 0.058,
        "written": 0.93,
    },
    DOTS: {
        "call": 17700, "read": 0.084, "turned": 0.95, "multiplied": 0.11, "added up": 0.2,
        "sums": 1.8,
    },
    ROWS: {"call": 16000, "read": 0.4, "turned": 3.2, "multiplied": 0.054, "written": 3.3},
}  # fmt: skip

# Intel Xeons, 486 matmuls.  Without whole vectors `untiled` took 0.04 to 19 ns for a
# multiply-add: its rates "singly" are set by hand, so high that large ones do not get it.
_AVX512: dict[str, dict[str, float]] = {
    GEMM: {
        "call": 13000, "left": 1.0, "left by columns": 0.42, "right": 1.0,
        "right by columns": 1.2, "multiplied": 0.025, "ragged": 0.39, "followed": 0.49,
    },
    UNTILED: {
        "call": 7900, "along rows": 0.066, "along rows singly": 0.9, "along columns": 0.075,
        "along columns singly": 1.2, "ragged": 0.91, "far": 0.23,
    },
    BLOCKED: {
        "call": 16000, "columns": 1.3, "cut": 0.4, "packed": 0.6, "turned": 1.4,
        "multiplied": 0.0155, "written": 0.7, "converted": 0.55,
    },
    DOTS: {
        "call": 12000, "read": 0.12, "turned": 0.9, "multiplied": 0.014, "added up": 0.085,
        "sums": 0.94, "left over": 1.5,
    },
    ROWS: {"call": 13000, "read": 0.4, "turned": 1.4, "multiplied": 0.006, "written": 0.71},
}  # fmt: skip
# Where the CPU multiplies 16 bits; `blocked` converts its operands.
_IN_16_BITS: dict[str, dict[str, float]] = {
    GEMM: {
        "call": 17000, "left": 1.1, "left by columns": 0.36, "right": 0.55,
        "right by columns": 0.66, "multiplied": 0.028, "ragged": 0.3, "followed": 1.0,
    },
    DOTS: {
        "call": 14000, "read": 0.084, "turned": 0.65, "multiplied": 0.018, "added up": 0.086,
        "sums": 0.89, "converted": 0.56, "left over": 1.1,
    },
    ROWS: {
        "call": 15000, "read": 0.19, "turned": 0.52, "multiplied": 0.0079, "written": 0.85,
        "converted": 0.95,
    },
}  # fmt: skip
# Rows of the left operand for which a row of the right one, beyond the caches, is read once.
_AT_A_TIME = 8


class Product(NamedTuple):
    """A batch of matmuls.

    Attributes
    ----------
    matrices, m, k, n : int
    along : tuple of bool
        Whether the elements along k of the left and the right operand are neighbours.
    constant : tuple of bool
        Whether they are known when the code is made.
    virtual : bool
        Whether what follows reads the result.
    narrow : bool
        Whether operands are multiplied in 16 bits, where they are not converted first.
    """

    matrices: int
    m: int
    k: int
    n: int
    along: tuple[bool, bool]
    constant: tuple[bool, bool]
    virtual: bool
    narrow: bool = False


def product_nanoseconds(machine: CpuMachine, *, narrow: bool) -> dict[str, dict[str, float]]:
    """Return the rates by the name of the strategy.

    ``narrow``: of operands in 16 bits that are not converted first.
    """
    if not machine.has_avx512:
        return _AVX2
    return _AVX512 | (_IN_16_BITS if narrow else {})


def product_costs(target: Target, product: Product) -> dict[str, float]:
    """Return estimates in microseconds by the name of the strategy."""
    rates = product_nanoseconds(cpu_machine(target), narrow=product.narrow)
    found = product_quantities(target, product)
    return {name: price(does, rates[name]) for name, does in found.items()}


def cheapest_tiles(target: Target, product: Product) -> tuple[float, str]:
    """Return the estimate in microseconds and the strategy of the cheapest tiles of our own."""
    costs = product_costs(target, product)
    return min((costs[name], name) for name in (BLOCKED, DOTS, ROWS) if name in costs)


def product_quantities(target: Target, product: Product) -> dict[str, dict[str, float]]:
    """Return what each strategy does, in numbers."""
    count, m, k, n, (by_rows, by_columns), (left, right), virtual, narrow = product
    machine = cpu_machine(target)
    lanes, blocks = machine.lanes, blocking(target, m, n, k)
    width, multiplied = blocks.panels * blocks.panel, m * n * k
    # The right operand is beyond the caches.
    large = 4 * n * k >= 2 * machine.l2_bytes
    far = large and not by_columns
    single = (k if by_columns else n) % lanes > 0  # there are no whole vectors
    written = passes(virtual=virtual) * m
    found: dict[str, dict[str, float]] = {
        GEMM: {
            "left" if by_rows else "left by columns": 0 if left else m * k,
            "right by columns" if by_columns else "right": 0 if right else n * k,
            "multiplied": filled(m, lanes) * filled(n, lanes) * k,
            "ragged": m * n if m % lanes or n % lanes else 0,
            "followed": m * n if virtual else 0,
        },
        UNTILED: {
            ("along columns" if by_columns else "along rows") + " singly" * single: multiplied,
            "ragged": m * k if n % lanes and not by_columns else 0,
            "far": n * k * max(1, m / _AT_A_TIME) if far else 0,
            "written": m * n,
        },
        BLOCKED: {
            "columns" if by_columns else "packed": 0 if right else width * k,
            "padded": width * k if width != n and not right else 0,
            "turned": 0 if by_rows or reads_columns(target, m, k) else m * k,
            "multiplied": blocks.overhead * m * width * k,
            "written": written * width,
            "cut": m * n if width != n else 0,
            "converted": (m * k + n * k) * narrow,
        },
        ROWS: {
            "read": -(-m // rows(target, m, n, k).rows) * n * k,
            "turned": (n * k if by_columns else 0) + (0 if by_rows else m * k),
            "multiplied": multiplied,
            "written": written * n,
            # The right operand is converted where it is read, as is the larger one of `dots`.
            "converted": m * k * narrow,
        },
    }
    if fits_dots(target, k):
        tiles = dots(target, m, n, k)
        apart = (not by_rows) * m + (not by_columns) * n
        found[DOTS] = {
            "read": max(m, n) * k,
            "turned": apart * k,
            "added up" if tiles.vectors else "multiplied": multiplied,
            # Code for what whole tiles leave is slow.
            "left over": k * (m % tiles.rows * n + n % tiles.columns * m) if tiles.vectors else 0,
            "sums": 0 if tiles.vectors else m * n * tiles.lanes,
            "converted": min(m, n) * k * narrow,
        }
    each = {name: {k: count * n for k, n in does.items()} for name, does in found.items()}
    return {name: {"call": 1, **does} for name, does in each.items()}
