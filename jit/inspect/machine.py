# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Limits of AMD's gfx9 architectures and figures of the products, for estimates.

Sources
-------
Limits of a compute unit: LLVM's AMDGPU target (``AMDGPUBaseInfo``: waves, register files and
their granules, LDS) and AMD's "CDNA Instruction Set Architecture" manuals.  A compute unit has
four SIMDs; from gfx90a on vector and accumulation registers share one file.

Arithmetic per clock and compute unit: the tables "Peak-performance capabilities" in the ROCm
documentation of the MI100, MI200 and MI300 architectures, and the CDNA 4 white paper.  Compute
units, peak engine clock and memory bandwidth: AMD's data sheets of the products.  Times the clock
they give the peaks of the data sheets (MI300X: 304 · 2.1 GHz · 2048 = 1307.4 TFLOPS in half).
The MI250 and MI250X are two devices each; the figures here are those of one, as HIP shows them.

L2 cache: channels times bytes a clock, of the CDNA white papers: 16 of 128 bytes (MI100), 32 of 128
(a device of the MI200 series), 16 of 128 for each of the accelerator dies since CDNA 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ..target import Target

__all__ = ["LIMITS", "SHEETS", "Limits", "Sheet", "limits_of", "matrix_rate", "sheet_of"]

SIMDS = 4
WAVE = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one compute unit holds.

    Attributes
    ----------
    waves : int
        Waves per SIMD.
    vgprs, vgpr_granule : int
        Vector registers per lane and SIMD, shared by its waves, and the unit of allocation.
    unified : bool
        Whether accumulation registers are taken from the same file.
    sgprs, sgpr_granule : int
        Scalar registers of a SIMD and the unit of allocation.
    lds_bytes, lds_granule : int
        Shared memory of the compute unit.
    workgroups : int
        Workgroups of more than one wave at a time.
    """

    waves: int
    vgprs: int
    vgpr_granule: int
    unified: bool
    lds_bytes: int
    lds_granule: int = 512
    sgprs: int = 800
    sgpr_granule: int = 16
    workgroups: int = 16


LIMITS: Mapping[str, Limits] = MappingProxyType(
    {
        "gfx908": Limits(waves=10, vgprs=256, vgpr_granule=4, unified=False, lds_bytes=65536),
        "gfx90a": Limits(waves=8, vgprs=512, vgpr_granule=8, unified=True, lds_bytes=65536),
        "gfx942": Limits(waves=8, vgprs=512, vgpr_granule=8, unified=True, lds_bytes=65536),
        "gfx950": Limits(
            waves=8,
            vgprs=512,
            vgpr_granule=8,
            unified=True,
            lds_bytes=163840,
            lds_granule=1280,
        ),
    }
)
"""Arch -> limits."""

# Operations per clock and compute unit; a multiply-add counts as two.
_MATRIX: Mapping[str, Mapping[str, int]] = {
    "gfx908": {"f16": 1024, "bf16": 512, "f32": 256, "i8": 1024},
    "gfx90a": {"f16": 1024, "bf16": 1024, "f32": 256, "f64": 256, "i8": 1024},
    "gfx942": {"f16": 2048, "bf16": 2048, "f32": 256, "f64": 256, "i8": 4096, "f8": 4096},
    "gfx950": {"f16": 4096, "bf16": 4096, "f32": 256, "f64": 128, "i8": 8192, "f8": 8192},
}
_VECTOR: Mapping[str, int] = {"gfx908": 128, "gfx90a": 128, "gfx942": 256, "gfx950": 256}


@dataclass(frozen=True, kw_only=True, slots=True)
class Sheet:
    """Figures of a product (of one device of it).

    Attributes
    ----------
    sku, arch : str
    compute_units : int
    clock_hz : float
        Peak engine clock.
    bytes_per_s : float
        Peak bandwidth of device memory.
    l2_bytes : int
        That all channels of the L2 cache read in a clock.
    matrix : mapping of str to int
        Operations of matrix instructions per compute unit and cycle, by kind of the operands.
    """

    sku: str
    arch: str
    compute_units: int
    clock_hz: float
    bytes_per_s: float
    l2_bytes: int
    matrix: Mapping[str, int] = field(repr=False)

    def matrix_flops(self, kind: str) -> float:
        """Return the peak of the matrix instructions for operands of a kind, in 1/s; 0: none."""
        return self.matrix.get(kind, 0) * self.compute_units * self.clock_hz

    @property
    def vector_flops(self) -> float:
        """Peak of float32 vector arithmetic, in 1/s."""
        return _VECTOR[self.arch] * self.compute_units * self.clock_hz


def matrix_rate(arch: str, kind: str) -> int:
    """Return the operations of a compute unit's matrix instructions in a clock; 0: none."""
    return _MATRIX[arch].get(kind, 0)


def _sheet(sku: str, arch: str, units: int, mhz: float, gb_per_s: float, l2_channels: int) -> Sheet:
    return Sheet(
        sku=sku,
        arch=arch,
        compute_units=units,
        clock_hz=mhz * 1e6,
        bytes_per_s=gb_per_s * 1e9,
        l2_bytes=128 * l2_channels,
        matrix=_MATRIX[arch],
    )


SHEETS: Mapping[str, Sheet] = MappingProxyType(
    {
        sheet.sku: sheet
        for sheet in (
            _sheet("mi100", "gfx908", 120, 1502, 1228.8, 16),
            _sheet("mi210", "gfx90a", 104, 1700, 1638.4, 32),
            _sheet("mi250", "gfx90a", 104, 1700, 1638.4, 32),
            _sheet("mi250x", "gfx90a", 110, 1700, 1638.4, 32),
            _sheet("mi300a", "gfx942", 228, 2100, 5300, 96),
            _sheet("mi300x", "gfx942", 304, 2100, 5300, 128),
            _sheet("mi325x", "gfx942", 304, 2100, 6000, 128),
            _sheet("mi350x", "gfx950", 256, 2200, 8000, 128),
            _sheet("mi355x", "gfx950", 256, 2400, 8000, 128),
        )
    }
)
"""Product -> figures; AMD has published no data sheet of the MI308X."""

_USUAL = {"gfx908": "mi100", "gfx90a": "mi250x", "gfx942": "mi300x", "gfx950": "mi355x"}


def limits_of(target: Target) -> Limits | None:
    """Return the limits of a target's architecture; None where it is not gfx9."""
    return LIMITS.get(target.arch)


def sheet_of(target: Target) -> Sheet | None:
    """Return the figures of a target's product, of a well-known one if only the arch is given."""
    return SHEETS.get(target.sku or _USUAL.get(target.arch, ""))
