# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long what strategies of forward convolutions do takes on CPUs; `conv_cost` counts it.

Fitted by ``scripts/fit_costs`` to measured times of drawn convolutions and layers of networks, with
two threads, times two: ``tests/data/strategies`` and ``docs/design/0007-strategies.md``.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..cpu_machine import CpuMachine
from .blocking import BLOCKED
from .direct_tiles import DIRECT_NHWC

__all__ = ["Rates", "nanoseconds"]

Rates = Mapping[tuple[str, bool, bool], Mapping[str, float]]
"""Nanoseconds on one core, by strategy, whether the input is channels-last, and whether operands
are multiplied in 16 bits.

A quantity that is not here adds nothing that could be told apart.  "call" is all that is done once.
"singly" is of ``direct`` in 16 bits that is no matmul: the slow half of what was measured, as its
vectors depend on more than these quantities.
"""

# Vectors of 16 numbers: an AMD EPYC of Zen 5.  `kn2row` and `direct_nhwc` were measured on Intel's
# only (below).
_DIRECT = {
    "call": 5000, "rows": 0.62, "full rows": 0.62, "odd rows": 0.62, "strided rows": 2.0,
    "copied": 0.44, "apart": 2.2, "multiplied": 0.013, "written": 0.14,
}  # fmt: skip
_NARROW_DIRECT = {
    "call": 5000, "singly": 2.1, "copied": 0.18, "apart": 14, "multiplied": 0.013, "packed": 1.3,
    "written": 0.25,
}  # fmt: skip
_AVX512: Rates = {
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
        "call": 7700, "turned": 1.5, "copied": 1.1, "apart": 0.45, "batched": 0.02,
        "multiplied": 0.013, "packed": 0.85, "written": 0.3,
    },
    ("im2col_gemm", True, False): {
        "call": 9800, "turned": 1.5, "copied": 1.2, "batched": 0.02, "multiplied": 0.014,
        "packed": 2.3, "written": 0.41,
    },
    ("im2col_gemm", False, True): {
        "call": 12000, "turned": 3.3, "copied": 0.32, "apart": 0.14, "batched": 0.013,
        "multiplied": 0.0091, "packed": 1.5, "written": 0.76,
    },
    ("im2col_gemm", True, True): {
        "call": 11000, "turned": 1.5, "copied": 1.5, "apart": 0.13, "batched": 0.013,
        "multiplied": 0.0031, "packed": 0.92, "written": 0.28,
    },
    ("kn2row", False, False): {
        "call": 5500, "copied": 0.84, "multiplied": 0.0083, "packed": 0.44, "columns": 0.64,
    },
    ("kn2row", True, False): {
        "call": 10000, "loose": 3.4, "multiplied": 0.0094, "packed": 0.84, "columns": 0.64,
    },
    (DIRECT_NHWC, False, False): {
        "panels": 8800, "copied": 1.2, "loose": 0.56, "packed": 1.4, "multiplied": 0.0052,
        "stepped": 0.012, "written": 0.48,
    },
    (DIRECT_NHWC, True, False): {
        "panels": 10000, "copied": 0.4, "loose": 0.72, "packed": 1.6, "multiplied": 0.0072,
        "written": 0.84,
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

# Vectors of 16: two cores of an Intel Xeon with AMX.  Copies cost more beside multiply-adds than on
# AMD's.  All were divided by 2.5, as everything took so much longer there: what is compared with
# these (groups, gradients) was measured elsewhere.  Of 16 bits there were too few rows.
_INTEL_DIRECT = {
    "call": 5000, "rows": 0.64, "full rows": 0.64, "odd rows": 0.64, "strided rows": 1.2,
    "multiplied": 0.0087, "packed": 1.5, "written": 0.32,
}  # fmt: skip
_INTEL: Rates = {
    # Blocks of 16 bits are as those of float32 there, and conversions (`forward_costs`).
    **{key: rates for key, rates in _AVX512.items() if key != (BLOCKED, False, True)},
    ("direct", False, False): _INTEL_DIRECT,
    ("direct", True, False): _INTEL_DIRECT,
    ("row_im2col", False, False): {
        "call": 9700, "copied": 1.2, "multiplied": 0.016, "packed": 0.79, "columns": 0.32,
        "added": 0.27,
    },
    ("row_im2col", True, False): {
        "call": 7700, "copied": 0.88, "loose": 0.96, "multiplied": 0.0092, "packed": 1.6,
        "columns": 0.4,
    },
    ("im2col_gemm", False, False): {
        "call": 9700, "turned": 0.19, "copied": 2.0, "batched": 0.02, "multiplied": 0.017,
        "packed": 0.41, "written": 0.077,
    },
    ("im2col_gemm", True, False): {
        "call": 8400, "copied": 1.2, "apart": 0.56, "batched": 0.0092, "multiplied": 0.011,
        "packed": 1.7, "written": 0.13,
    },
    # Channels-last 16 bits took twice as long as on the EPYC (6 convolutions).
    ("row_im2col", True, True): {
        what: 2 * ns for what, ns in _AVX512["row_im2col", True, True].items()
    },
    ("kn2row", True, False): {
        "call": 10000, "loose": 2.5, "multiplied": 0.0094, "packed": 0.84, "columns": 0.4,
    },
    ("img2col", False, False): {
        "call": 8100, "copied": 1.0, "apart": 0.53, "multiplied": 0.012, "packed": 0.24,
        "written": 0.29,
    },
    (BLOCKED, False, False): {
        "call": 7200, "loose": 0.63, "apart": 1.2, "multiplied": 0.0077, "packed": 0.54,
        "written": 0.42,
    },
    (BLOCKED, True, False): {
        "call": 7200, "copied": 0.6, "apart": 0.34, "multiplied": 0.0076, "packed": 1.0,
        "written": 1.0,
    },
}  # fmt: skip

# Vectors of 8: an AMD EPYC of Zen 3.  Floats of 16 bits are multiplied as float32 there (W-151).
_SHORT_DIRECT = {
    "call": 5000, "rows": 2.6, "full rows": 0.88, "odd rows": 6.0, "strided rows": 6.4,
    "copied": 1.5, "apart": 1.3, "multiplied": 0.021, "packed": 1.3, "written": 1.3,
}  # fmt: skip
_AVX2: Rates = {
    ("direct", False, False): _SHORT_DIRECT,
    ("direct", True, False): _SHORT_DIRECT,
    ("row_im2col", False, False): {
        "call": 35000, "copied": 3.9, "loose": 1.5, "multiplied": 0.019, "packed": 7.1,
        "columns": 2.5,
    },
    ("row_im2col", True, False): {
        "call": 29000, "copied": 4.2, "loose": 2.9, "multiplied": 0.017, "packed": 6.1,
        "columns": 2.3,
    },
    ("im2col_gemm", False, False): {
        "call": 20000, "turned": 3.3, "copied": 6.8, "apart": 3.7, "batched": 0.013,
        "multiplied": 0.0091, "packed": 5.4, "written": 2.4,
    },
    ("im2col_gemm", True, False): {
        "call": 40000, "turned": 3.2, "copied": 4.3, "apart": 2.7, "batched": 0.012,
        "multiplied": 0.017, "packed": 6.7, "written": 1.3,
    },
    ("kn2row", False, False): {
        "call": 45000, "copied": 1.7, "multiplied": 0.029, "packed": 4.5, "columns": 2.2,
    },
    ("kn2row", True, False): {
        "call": 110000, "loose": 2.1, "multiplied": 0.024, "packed": 8.0, "columns": 1.1,
    },
    (DIRECT_NHWC, False, False): {
        "call": 34000, "panels": 6000, "copied": 2.3, "loose": 4.3, "packed": 4.7,
        "multiplied": 0.029, "stepped": 0.024, "written": 3.6,
    },
    (DIRECT_NHWC, True, False): {
        "call": 65000, "copied": 0.63, "loose": 6.5, "packed": 5.8, "multiplied": 0.031,
        "stepped": 0.026, "written": 0.68,
    },
    ("img2col", False, False): {
        "call": 16000, "copied": 1.8, "loose": 1.9, "apart": 1.3, "multiplied": 0.023,
        "packed": 4.5, "written": 0.55, "loosely written": 0.99,
    },
    (BLOCKED, False, False): {
        "call": 32000, "copied": 0.95, "loose": 2.0, "apart": 1.3, "multiplied": 0.034,
        "packed": 0.89, "padded": 3.0, "written": 1.1,
    },
    (BLOCKED, True, False): {
        "call": 21000, "copied": 0.96, "loose": 1.8, "apart": 1.7, "multiplied": 0.022,
        "packed": 8.0, "written": 0.85,
    },
}  # fmt: skip


def nanoseconds(machine: CpuMachine) -> Rates:
    """Return the rates for a CPU: those of the nearest that was measured, by vectors and maker."""
    if not machine.has_avx512:
        return _AVX2
    return _INTEL if machine.is_intel else _AVX512
