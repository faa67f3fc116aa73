# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How many waves of a kernel fit into a compute unit, and what keeps more from fitting."""

from __future__ import annotations

from dataclasses import dataclass

from .isa import Kernel
from .machine import SIMDS, WAVE, Limits

__all__ = ["Occupancy", "occupancy"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Occupancy:
    """An upper bound from registers, LDS and the size of the workgroup; nothing was measured.

    Attributes
    ----------
    waves_per_simd, max_waves_per_simd : int
        Waves that fit (rounded down where a workgroup's do not divide evenly), and at most.
    workgroups_per_cu : int
        Workgroups that fit into a compute unit; 0: not even one does.
    limited_by : tuple of str
        What there is too little of for one more workgroup: ``"VGPRs"``, ``"SGPRs"``, ``"LDS"``,
        ``"waves"``, ``"workgroups"``.
    """

    waves_per_simd: int
    max_waves_per_simd: int
    workgroups_per_cu: int
    limited_by: tuple[str, ...]


def occupancy(kernel: Kernel, limits: Limits) -> Occupancy:
    """Return how many waves of a kernel fit into a compute unit.

    Accumulation registers count with the vector registers where both are one file, which
    ``Kernel.vgprs`` includes; else each file has its own limit.
    """
    waves = max(1, -(-kernel.threads // WAVE))
    vectors = kernel.vgprs if limits.unified else max(kernel.vgprs, kernel.agprs)
    per_simd = {
        "VGPRs": limits.vgprs // _up(max(vectors, 1), limits.vgpr_granule),
        "SGPRs": limits.sgprs // _up(max(kernel.sgprs, 1), limits.sgpr_granule),
        "waves": limits.waves,
    }
    # A workgroup's waves are spread over the SIMDs one by one.
    groups = {name: count * SIMDS // waves for name, count in per_simd.items()}
    if kernel.lds_bytes:
        groups["LDS"] = limits.lds_bytes // _up(kernel.lds_bytes, limits.lds_granule)
    if waves > 1:
        groups["workgroups"] = limits.workgroups
    fit = min(groups.values())
    return Occupancy(
        waves_per_simd=fit * waves // SIMDS,
        max_waves_per_simd=limits.waves,
        workgroups_per_cu=fit,
        limited_by=tuple(sorted(name for name, count in groups.items() if count == fit)),
    )


def _up(value: int, granule: int) -> int:
    return -(-value // granule) * granule
