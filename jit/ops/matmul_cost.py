# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the strategies of matmuls cost on CPUs with vectors of 8 numbers, as of AVX2, or fewer.

As in `conv_cost` an estimate is a sum of quantities times nanoseconds on one core.  They are fitted
to 69 matmuls on an AMD EPYC (Zen 3), with two threads, times two
(``docs/design/0007-strategies.md``); those for AVX-512 are in `matmul`.
"""

from __future__ import annotations

from typing import NamedTuple

from ..cpu_machine import cpu_machine
from ..target import Target
from .blocking import BLOCKED, blocking, passes
from .conv_cost import filled
from .dots import DOTS, dots, fits_dots
from .rows import ROWS, rows

__all__ = ["GEMM", "UNTILED", "Product", "product_costs"]

GEMM, UNTILED = "gemm", "untiled"

_NANOSECONDS: dict[str, dict[str, float]] = {
    GEMM: {"call": 46000, "left": 3.3, "right": 1.1, "multiplied": 0.074, "ragged": 2.0},
    UNTILED: {
        "call": 15000, "along rows": 0.086, "along columns": 0.12, "written": 0.21, "ragged": 0.42,
        "far": 0.8,
    },
    BLOCKED: {
        "call": 20500, "columns": 0.25, "padded": 0.97, "turned": 5.0, "multiplied": 0.058,
        "written": 0.93,
    },
    DOTS: {"call": 17700, "read": 0.084, "turned": 0.95, "multiplied": 0.11, "sums": 1.8},
    ROWS: {"call": 16000, "read": 0.4, "turned": 3.2, "multiplied": 0.054, "written": 3.3},
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
    """

    matrices: int
    m: int
    k: int
    n: int
    along: tuple[bool, bool]
    constant: tuple[bool, bool]
    virtual: bool


def product_costs(target: Target, product: Product) -> dict[str, float]:
    """Return estimates in microseconds by the name of the strategy."""
    count, m, k, n, (by_rows, by_columns), (left, right), virtual = product
    machine = cpu_machine(target)
    lanes, blocks = machine.lanes, blocking(target, m, n, k)
    width, multiplied = blocks.panels * blocks.panel, m * n * k
    far = 4 * n * k > 2 * machine.l2_bytes and not by_columns
    written = passes(virtual=virtual) * m
    found: dict[str, dict[str, float]] = {
        GEMM: {
            "left": 0 if left else m * k,
            "right": 0 if right else n * k,
            "multiplied": filled(m, lanes) * filled(n, lanes) * k,
            "ragged": m * n if m % lanes or n % lanes else 0,
        },
        UNTILED: {
            "along columns" if by_columns else "along rows": multiplied,
            "ragged": m * k if n % lanes and not by_columns else 0,
            "far": n * k * max(1, m / _AT_A_TIME) if far else 0,
            "written": m * n,
        },
        BLOCKED: {
            "columns": width * k if by_columns and not right else 0,
            "padded": width * k if width != n and not right else 0,
            "turned": 0 if by_rows else m * k,
            "multiplied": blocks.overhead * m * width * k,
            "written": written * width,
        },
        ROWS: {
            "read": -(-m // rows(target, m, n, k).rows) * n * k,
            "turned": (n * k if by_columns else 0) + (0 if by_rows else m * k),
            "multiplied": multiplied,
            "written": written * n,
        },
    }
    if fits_dots(k):
        apart = (not by_rows) * m + (not by_columns) * n
        found[DOTS] = {
            "read": max(m, n) * k,
            "turned": apart * k,
            "multiplied": multiplied,
            "sums": m * n * dots(target, m, n, k).lanes,
        }
    return {name: _priced(name, count, one) for name, one in found.items()}


def _priced(name: str, count: int, found: dict[str, float]) -> float:
    """Return microseconds; what is done once is done once for all matrices."""
    rates = _NANOSECONDS[name]
    return (rates["call"] + count * sum(rates[what] * n for what, n in found.items())) / 1e3
