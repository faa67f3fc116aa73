# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a machine can do at best, which the cost model divides by, and what identifies it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache

from ...jit.target import Target, cpu_features, cpuinfo

__all__ = ["GPUS", "Peaks", "machine_of", "peaks"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Peaks:
    """Rates of a machine.

    Attributes
    ----------
    matrix16, matrix32 : float
        Operations per second of matmuls of 16-bit (and narrower) and of 32-bit operands.
    other : float
        Operations per second of everything else.
    nbytes : float
        Bytes per second of memory.
    launch_us : float
        Microseconds to start one kernel.
    source : str
        Where the numbers are from, for people.
    """

    matrix16: float
    matrix32: float
    other: float
    nbytes: float
    launch_us: float
    source: str


def _gpu(name: str, matrix16: float, matrix32: float, other: float, tbytes: float) -> Peaks:
    """Teraflops and terabytes per second of a data sheet (dense, no sparsity)."""
    return Peaks(
        matrix16=matrix16 * 1e12,
        matrix32=matrix32 * 1e12,
        other=other * 1e12,
        nbytes=tbytes * 1e12,
        launch_us=5.0,
        source=f"data sheet of {name}",
    )


# Source: AMD's and NVIDIA's data sheets.  Half of an MI250 is one device.
GPUS: dict[str, Peaks] = {
    "gfx908": _gpu("MI100", 184.6, 46.1, 23.1, 1.23),
    "gfx90a": _gpu("MI250X, one of its two devices", 191.5, 47.9, 23.9, 1.64),
    "gfx942": _gpu("MI300X", 1307.4, 163.4, 163.4, 5.3),
    "gfx950": _gpu("MI355X", 2516.6, 157.3, 157.3, 8.0),
    "mi300a": _gpu("MI300A", 980.6, 122.6, 122.6, 5.3),
    "mi308x": _gpu("MI308X", 188.4, 23.6, 23.6, 5.3),
    "mi325x": _gpu("MI325X", 1307.4, 163.4, 163.4, 6.0),
    "mi350x": _gpu("MI350X", 2309.6, 144.2, 144.2, 8.0),
    "cuda": _gpu("A100, for any NVIDIA GPU", 312.0, 19.5, 19.5, 1.56),
}


@lru_cache(maxsize=32)
def peaks(target: Target) -> Peaks:
    """Return what a target can do; a CPU other than this one counts as this one."""
    if target.is_cpu:
        return _cpu()
    return GPUS.get(target.sku) or GPUS.get(target.arch) or GPUS[target.backend]


# Flag -> operations per cycle of one core in float32: lanes, times two units, times two for a
# multiplication and an addition.
_WIDTHS = (("avx512f", 64), ("fma", 32), ("avx", 16), ("asimd", 16))


def _cpu() -> Peaks:
    about = cpuinfo()
    flags = set(about.get("flags", about.get("Features", "")).split())
    try:
        mhz = float(about.get("cpu MHz", 0))
    except ValueError:
        mhz = 0.0
    cores = len(os.sched_getaffinity(0))
    width = next((n for flag, n in _WIDTHS if flag in flags), 8)
    rate = cores * width * (mhz or 2500.0) * 1e6
    # Narrow operands are widened first unless the CPU has instructions for them.
    matrix16 = rate * (2.0 if {"avx512_bf16", "amx_bf16"} & flags else 0.7)
    return Peaks(
        matrix16=matrix16,
        matrix32=rate,
        other=rate / 2,
        # Operands of megabytes are in caches: a core moves some 24 GB/s (measured on an EPYC), a
        # socket seldom more than six of them.
        nbytes=24e9 * min(cores, 6),
        launch_us=1.0,
        source=f"this CPU: {cores} cores, {width} operations a cycle, {mhz or 2500:.0f} MHz",
    )


@lru_cache(maxsize=16)
def machine_of(target: Target) -> str:
    """Return what a time depends on besides the target: for a CPU its kind and how many."""
    if target.is_cpu:
        return f"cpu:{cpu_features()}:{len(os.sched_getaffinity(0))}"
    return str(target)
