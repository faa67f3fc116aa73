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
    "call": 5000, "copied": 0.58, "followed": 2.8, "full rows": 0.41,
    "multiplied": 0.017, "odd rows": 2.7, "places": 0.21, "rows": 0.61, "strided places": 0.65,
    "strided rows": 1.9, "written": 0.18,
}  # fmt: skip
_NARROW_DIRECT = {
    "call": 9000, "copied": 0.24, "followed": 2.8, "multiplied": 0.017, "packed": 1.8,
    "singly": 2.1, "written": 0.26,
}  # fmt: skip
_AVX512: Rates = {
    ("direct", False, False): _DIRECT,
    ("direct", True, False): _DIRECT,
    ("direct", False, True): _NARROW_DIRECT,
    ("direct", True, True): _NARROW_DIRECT,
    ("row_im2col", False, False): {
        "call": 8200, "added": 0.18, "columns": 0.37, "copied": 1.4, "multiplied": 0.011,
        "packed": 1.8, "read": 0.47,
    },
    ("row_im2col", True, False): {
        "call": 8200, "added": 0.25, "columns": 0.069, "copied": 0.94, "followed": 2.8,
        "multiplied": 0.012, "packed": 1.5, "read": 0.15,
    },
    ("row_im2col", False, True): {
        "call": 13000, "added": 0.72, "columns": 0.22, "copied": 0.83, "multiplied": 0.005,
        "packed": 1.9, "read": 0.18,
    },
    ("row_im2col", True, True): {
        "call": 9900, "columns": 0.24, "copied": 0.77, "followed": 2.8, "multiplied": 0.0059,
        "packed": 1.7, "read": 0.15,
    },
    ("im2col_gemm", False, False): {
        "call": 7700, "apart": 0.45, "batched": 0.02, "copied": 1.1, "multiplied": 0.013,
        "packed": 0.85, "turned": 1.5, "written": 0.3,
    },
    ("im2col_gemm", True, False): {
        "call": 9800, "batched": 0.02, "copied": 1.2, "followed": 1.2, "multiplied": 0.014,
        "packed": 2.3, "turned": 1.5, "written": 0.41,
    },
    ("im2col_gemm", False, True): {
        "call": 12000, "apart": 0.14, "batched": 0.05, "copied": 0.32, "multiplied": 0.0091,
        "packed": 1.5, "turned": 3.3, "written": 0.76,
    },
    ("im2col_gemm", True, True): {
        "call": 11000, "apart": 0.13, "batched": 0.05, "copied": 1.5, "followed": 1.2,
        "multiplied": 0.0031, "packed": 0.92, "turned": 1.5, "written": 0.28,
    },
    ("kn2row", False, False): {
        "call": 5500, "columns": 0.64, "converted": 0.5, "copied": 0.84, "multiplied": 0.0083,
        "packed": 0.44,
    },
    ("kn2row", True, False): {
        "call": 10000, "columns": 0.64, "converted": 0.5, "loose": 3.4, "multiplied": 0.0094,
        "packed": 0.84,
    },
    (DIRECT_NHWC, False, False): {
        "converted": 0.5, "copied": 1.2, "loose": 0.56, "multiplied": 0.0052, "packed": 1.4,
        "panels": 8800, "stepped": 0.012, "written": 0.48,
    },
    (DIRECT_NHWC, True, False): {
        "converted": 0.5, "copied": 0.4, "loose": 0.72, "multiplied": 0.0072, "packed": 1.6,
        "panels": 10000, "written": 0.84,
    },
    ("img2col", False, False): {
        "call": 5000, "apart": 0.51, "copied": 0.43, "loose": 0.84, "loosely written": 0.73,
        "multiplied": 0.02, "packed": 0.4,
    },
    ("img2col", False, True): {
        "call": 8900, "apart": 0.42, "copied": 0.55, "loose": 1.8, "multiplied": 0.0058,
        "packed": 1.2, "written": 0.54,
    },
    (BLOCKED, False, False): {
        "call": 9600, "apart": 1.0, "converted": 0.5, "copied": 0.95, "loose": 1.8,
        "multiplied": 0.0082, "written": 0.4,
    },
    (BLOCKED, True, False): {
        "call": 3500, "converted": 0.5, "copied": 1.2, "loose": 0.36, "multiplied": 0.0064,
        "packed": 1.8, "padded": 0.65, "written": 0.23,
    },
}  # fmt: skip

# Vectors of 16: two cores of Intel Xeons with AMX and without, 296 convolutions.  All were divided
# by 2.5, as everything took so much longer there: what is compared with these (groups, gradients)
# was measured elsewhere.
_INTEL_DIRECT = {
    "call": 7000, "copied": 0.36, "followed": 2.8, "full rows": 0.4, "multiplied": 0.013,
    "odd rows": 1.8, "packed": 1.8, "places": 0.24, "rows": 0.6, "strided places": 0.56,
    "strided rows": 1.6, "written": 0.28,
}  # fmt: skip
_INTEL_NARROW_DIRECT = {
    "call": 11000, "copied": 0.1, "followed": 2.8, "multiplied": 0.017, "packed": 0.76,
    "singly": 0.84,
}  # fmt: skip
_INTEL: Rates = {
    ("direct", False, False): _INTEL_DIRECT,
    ("direct", True, False): _INTEL_DIRECT,
    ("direct", False, True): _INTEL_NARROW_DIRECT,
    ("direct", True, True): _INTEL_NARROW_DIRECT,
    ("row_im2col", False, False): {
        "call": 11000, "added": 0.27, "columns": 0.3, "copied": 1.3, "multiplied": 0.011,
        "packed": 1.3, "read": 0.17,
    },
    ("row_im2col", True, False): {
        "call": 8400, "added": 0.092, "columns": 0.38, "copied": 1, "followed": 2.8,
        "multiplied": 0.0096, "packed": 1.6, "read": 0.17,
    },
    ("row_im2col", False, True): {
        "call": 7600, "added": 0.52, "copied": 0.8, "loose": 0.3, "multiplied": 0.017,
        "packed": 0.76,
    },
    ("row_im2col", True, True): {
        "call": 5200, "added": 0.29, "columns": 0.22, "copied": 0.6, "followed": 2.8, "loose": 0.88,
        "multiplied": 0.012, "packed": 1.1, "read": 0.33,
    },
    ("im2col_gemm", False, False): {
        "call": 9200, "apart": 0.8, "batched": 0.02, "copied": 2.3, "multiplied": 0.01,
        "packed": 1.9, "ragged": 0.5, "turned": 0.32, "turned back": 0.4, "written": 0.12,
    },
    ("im2col_gemm", True, False): {
        "call": 9600, "apart": 0.15, "batched": 0.01, "copied": 1.2, "followed": 1.2,
        "multiplied": 0.011, "packed": 1.6, "ragged": 0.5, "turned": 0.48, "written": 0.34,
    },
    ("im2col_gemm", False, True): {
        "call": 5600, "apart": 0.4, "batched": 0.035, "copied": 0.96, "multiplied": 0.016,
        "packed": 2.4, "turned": 0.23, "written": 0.1,
    },
    ("im2col_gemm", True, True): {
        "call": 6800, "apart": 0.64, "batched": 0.035, "copied": 0.72, "followed": 1.2,
        "multiplied": 0.025, "packed": 0.76,
    },
    ("kn2row", False, False): {
        "call": 7200, "added": 0.37, "columns": 0.6, "converted": 0.2, "copied": 0.4,
        "multiplied": 0.01, "packed": 0.52,
    },
    ("kn2row", True, False): {
        "call": 10000, "added": 0.88, "columns": 0.4, "converted": 0.2, "multiplied": 0.0092,
        "packed": 1,
    },
    (DIRECT_NHWC, False, False): {
        "converted": 0.2, "copied": 0.76, "multiplied": 0.0064, "packed": 1.4, "panels": 8800,
        "stepped": 0.0033, "written": 1.2,
    },
    (DIRECT_NHWC, True, False): {
        "call": 3500, "converted": 0.2, "copied": 0.56, "loose": 0.31, "multiplied": 0.008,
        "packed": 1.6, "panels": 7200, "written": 0.64,
    },
    ("img2col", False, False): {
        "call": 8400, "apart": 0.8, "copied": 0.76, "loose": 0.6, "multiplied": 0.026,
        "packed": 0.26, "written": 0.84,
    },
    ("img2col", False, True): {
        "call": 9200, "copied": 1.2, "multiplied": 0.012, "packed": 0.72, "written": 0.16,
    },
    (BLOCKED, False, False): {
        "call": 8800, "apart": 0.8, "converted": 0.2, "copied": 0.27, "loose": 0.34,
        "multiplied": 0.011, "packed": 0.13, "written": 0.52,
    },
    (BLOCKED, True, False): {
        "call": 8000, "apart": 0.31, "converted": 0.2, "copied": 0.68, "cut": 0.4, "loose": 0.28,
        "multiplied": 0.0072, "packed": 0.44, "padded": 0.68, "written": 0.44,
    },
}  # fmt: skip

# Vectors of 8: an AMD EPYC of Zen 3.  Floats of 16 bits are multiplied as float32 there (W-151).
_SHORT_DIRECT = {
    "call": 10000, "copied": 1.9, "full rows": 0.92, "multiplied": 0.027,
    "odd rows": 4.9, "packed": 1.6, "places": 0.23, "rows": 3.3, "strided places": 3.1,
    "strided rows": 7.7, "written": 1.3,
}  # fmt: skip
_AVX2: Rates = {
    ("direct", False, False): _SHORT_DIRECT,
    ("direct", True, False): _SHORT_DIRECT,
    ("row_im2col", False, False): {
        "call": 35000, "added": 1, "columns": 2.2, "copied": 4.6, "multiplied": 0.016,
        "packed": 6.7, "read": 1.6,
    },
    ("row_im2col", True, False): {
        "call": 27000, "columns": 1.9, "copied": 4.2, "loose": 2.1, "multiplied": 0.019,
        "packed": 4.3, "read": 0.99,
    },
    ("im2col_gemm", False, False): {
        "call": 20000, "apart": 3.7, "batched": 0.013, "copied": 6.8, "multiplied": 0.0091,
        "packed": 5.4, "turned": 3.3, "written": 2.4,
    },
    ("im2col_gemm", True, False): {
        "call": 40000, "apart": 2.7, "batched": 0.012, "copied": 4.3, "multiplied": 0.017,
        "packed": 6.7, "turned": 3.2, "written": 1.3,
    },
    ("kn2row", False, False): {
        "call": 45000, "columns": 2.2, "copied": 1.7, "multiplied": 0.029, "packed": 4.5,
    },
    ("kn2row", True, False): {
        "call": 110000, "columns": 1.1, "loose": 2.1, "multiplied": 0.024, "packed": 8.0,
    },
    (DIRECT_NHWC, False, False): {
        "call": 34000, "copied": 2.3, "loose": 4.3, "multiplied": 0.029, "packed": 4.7,
        "panels": 6000, "stepped": 0.024, "written": 3.6,
    },
    (DIRECT_NHWC, True, False): {
        "call": 65000, "copied": 0.63, "loose": 6.5, "multiplied": 0.031, "packed": 5.8,
        "stepped": 0.026, "written": 0.68,
    },
    ("img2col", False, False): {
        "call": 16000, "apart": 1.3, "copied": 1.8, "loose": 1.9, "loosely written": 0.99,
        "multiplied": 0.023, "packed": 4.5, "written": 0.55,
    },
    (BLOCKED, False, False): {
        "call": 32000, "apart": 1.3, "copied": 0.95, "loose": 2.0, "multiplied": 0.034,
        "packed": 0.89, "padded": 3.0, "written": 1.1,
    },
    (BLOCKED, True, False): {
        "call": 21000, "apart": 1.7, "copied": 0.96, "loose": 1.8, "multiplied": 0.022,
        "packed": 8.0, "written": 0.85,
    },
}  # fmt: skip


def nanoseconds(machine: CpuMachine) -> Rates:
    """Return the rates for a CPU: those of the nearest that was measured, by vectors and maker."""
    if not machine.has_avx512:
        return _AVX2
    return _INTEL if machine.is_intel else _AVX512
