# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The limits of the machine that executes: of a GPU by its name, of this CPU by measuring.

Sources
-------
AMD: `machine`.  NVIDIA: the data sheets of the A100 (40 and 80 GB, SXM), the H100 (SXM) and the
H200, dense figures without sparsity; 32 bits are those of the CUDA cores, as TF32 does not keep
the bounds of FLOAT, and 64 bits those of the tensor cores.

CPU: measured, as clocks, ports and memory channels of a virtual machine are not told.  Arithmetic
of 32 bits is the best rate of products of matrices by NumPy's BLAS; it comes to some nine tenths
of what the units can do, so a share may exceed 1 by a tenth.  Other types are multiples of it by
the instructions that the processor has for them: Intel's "64 and IA-32 Architectures Optimization
Reference Manual" has, for each cycle and core, 64 operations of 32 bits by AVX-512's two
multiply-add units, 256 of 8 bits by VNNI, 128 of 16 bits by AVX512-FP16 and AVX512-BF16, and by AMX
1024 of 16 and 2048 of 8 bits.  Memory is the best rate of copies between buffers of some size,
bytes read and written, as caches are faster than memory: a problem is held against the rate of
the largest size that does not exceed it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from ..target import Target, cpuinfo
from .machine import SHEETS, sheet_of
from .roofline import MachinePeaks

__all__ = ["CpuPeaks", "NamedPeaks", "best_of", "cpu_peaks", "gpu_peaks"]


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedPeaks:
    """Peaks of a machine, all in 1/s.

    Attributes
    ----------
    source : str
        Where they are from.
    matrix : mapping of str to float
        Operations of matmuls and convolutions by the kind of the operands; ``f16``, ``bf16``,
        ``f32``, ``f64``, ``f8`` or ``i8``.
    vector_flops, bytes_per_s : float
    """

    source: str
    matrix: Mapping[str, float]
    vector_flops: float
    bytes_per_s: float

    def matrix_flops(self, kind: str) -> float:
        """Return the peak for operands of a kind; 0: no instruction for them."""
        return self.matrix.get(kind, 0.0)


def _nvidia(name: str, tera: Mapping[str, float], vector: float, tbytes: float) -> NamedPeaks:
    return NamedPeaks(
        source=f"data sheet of {name}",
        matrix=MappingProxyType({kind: 1e12 * value for kind, value in tera.items()}),
        vector_flops=1e12 * vector,
        bytes_per_s=1e12 * tbytes,
    )


_AMPERE = {"f16": 312.0, "bf16": 312.0, "f32": 19.5, "f64": 19.5, "i8": 624.0}
_HOPPER = {"f16": 989.4, "bf16": 989.4, "f32": 66.9, "f64": 66.9, "f8": 1978.9, "i8": 1978.9}
# Beginning of the name that the driver tells -> peaks.
_NVIDIA: Mapping[str, NamedPeaks] = MappingProxyType(
    {
        "NVIDIA A100-SXM4-40GB": _nvidia("A100 40GB SXM", _AMPERE, 19.5, 1.555),
        "NVIDIA A100-SXM4-80GB": _nvidia("A100 80GB SXM", _AMPERE, 19.5, 2.039),
        "NVIDIA H100 80GB HBM3": _nvidia("H100 SXM", _HOPPER, 66.9, 3.35),
        "NVIDIA H200": _nvidia("H200", _HOPPER, 66.9, 4.8),
    }
)


def gpu_peaks(target: Target, name: str) -> MachinePeaks | None:
    """Return the peaks of a GPU, None of one that no table here has.

    Parameters
    ----------
    target : Target
        What the code is for.  Of an AMD GPU whose name says no product, a well-known
        product of the architecture stands in.
    name : str
        As the driver tells it, such as ``"AMD Instinct MI300X"``.
    """
    if target.backend == "cuda":
        return next((p for start, p in _NVIDIA.items() if name.startswith(start)), None)
    words = name.lower().replace("/", " ").split()
    return next((SHEETS[word] for word in words if word in SHEETS), None) or sheet_of(target)


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuPeaks:
    """Peaks of this CPU.

    Attributes
    ----------
    flops : float
        Operations of 32 bits in 1/s.
    matrix : mapping of str to float
        Of matmuls, by the kind of the operands, as multiples of it.
    copies : tuple of (int, float)
        Size of the working set in bytes, rising, and bytes in 1/s that copies within it move.
    """

    flops: float
    matrix: Mapping[str, float]
    copies: tuple[tuple[int, float], ...]

    def of(self, nbytes: int) -> NamedPeaks:
        """Return the peaks for a working set."""
        rates = [rate for size, rate in self.copies if size <= nbytes]
        return NamedPeaks(
            source="measured here",
            matrix={kind: factor * self.flops for kind, factor in self.matrix.items()},
            vector_flops=self.flops,
            bytes_per_s=rates[-1] if rates else self.copies[0][1],
        )


_BASE = {"f32": 1.0, "f64": 0.5, "f16": 1.0, "bf16": 1.0, "i8": 2.0}
# Flag of /proc/cpuinfo -> operations by that of 32 bits; the best one counts.
_FASTER: tuple[tuple[str, str, float], ...] = (
    ("avx_vnni", "i8", 4.0),
    ("avx512_vnni", "i8", 4.0),
    ("avx512_fp16", "f16", 2.0),
    ("avx512_bf16", "bf16", 2.0),
    ("amx_fp16", "f16", 16.0),
    ("amx_bf16", "bf16", 16.0),
    ("amx_int8", "i8", 32.0),
)
_SIZES = (256 << 10, 2 << 20, 16 << 20, 128 << 20)
# The large product comes nearer to the peak; the small one fits between two switches of the threads
# on a busy machine.
_EXTENTS = (256, 768)
_ROUNDS, _ROUND_S = 5, 4e-3
_LONGEST_S, _NEAR = 0.25, 1.05


@lru_cache(maxsize=8)
def cpu_peaks(threads: int = 0) -> CpuPeaks:
    """Measure what this CPU can do; takes some tenths of a second, once in a process.

    Parameters
    ----------
    threads : int
        Of the work that is held against it; 0: one for each core.
    """
    cores = len(os.sched_getaffinity(0))
    count = min(threads or cores, cores)
    flags = set(cpuinfo().get("flags", "").split())
    matrix = dict(_BASE)
    for flag, kind, factor in _FASTER:
        if flag in flags:
            matrix[kind] = max(matrix[kind], factor)
    return CpuPeaks(
        # BLAS takes all cores, and a few cores are as fast each.
        flops=_product_rate() * count / cores,
        matrix=MappingProxyType(matrix),
        copies=tuple((size, _copy_rate(size, count)) for size in _SIZES),
    )


def _product_rate() -> float:
    """Return operations a second of BLAS on all cores."""
    import numpy as np

    def rate(n: int) -> float:
        a, b, c = (np.ones((n, n), np.float32) for _ in range(3))
        return 2 * n**3 / best_of(lambda: np.matmul(a, b, out=c))

    return max(map(rate, _EXTENTS))


def _copy_rate(nbytes: int, threads: int) -> float:
    """Return bytes a second, read and written, of copies that take so much memory together."""
    import numpy as np

    elements = max(nbytes // threads // 2 // 8, 64)
    pairs: list[tuple[Any, Any]] = [(np.zeros(elements), np.ones(elements)) for _ in range(threads)]
    # Rows without a distance: one call copies the same memory again and again.
    repeat = max(1, (4 << 20) // (16 * elements))
    rows = [
        tuple(np.lib.stride_tricks.as_strided(x, (repeat, elements), (0, 8)) for x in pair)
        for pair in pairs
    ]

    def once() -> None:
        others = [threading.Thread(target=np.copyto, args=pair) for pair in rows[1:]]
        for other in others:
            other.start()
        np.copyto(rows[0][0], rows[0][1])
        for other in others:
            other.join()

    return threads * repeat * elements * 16 / best_of(once)


def best_of(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds of the fastest of some calls.

    What else runs on a machine only ever adds time: calls go on until the fastest one was nearly
    met twice more, for a quarter of a second at most.
    """
    call()
    found, begin = list[float](), clock()
    while True:
        start = clock()
        call()
        found.append(clock() - start)
        gone = clock() - begin
        enough = len(found) >= _ROUNDS and gone >= _ROUNDS * _ROUND_S
        if enough and (gone > _LONGEST_S or sorted(found)[2] < _NEAR * min(found)):
            return min(found)
