# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What multiply-adds of matmuls cost on CPUs, in nanoseconds on one core.

Measured on an Intel Xeon with AVX-512, in float32: ``docs/design/0007-strategies.md``.
"""

from __future__ import annotations

from math import gcd

from ..cpu_machine import cpu_machine
from ..target import Target

__all__ = ["TILED", "raggedness"]

TILED = 0.028
"""Of operands that are packed into tiles."""

# What is left over of a vector is computed number by number; half a vector is one of half the size.
_HALF, _RAGGED = 1.5, 12.0


def raggedness(target: Target, *extents: int) -> float:
    """Return how many times as long a multiply-add takes without tiles where vectors are not full.

    ``extents`` are those of the dims that vectors lie along.
    """
    common, lanes = gcd(*extents), cpu_machine(target).lanes
    if common % lanes == 0:
        return 1.0
    return _HALF if common % (lanes // 2) == 0 else _RAGGED
