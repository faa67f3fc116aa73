# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a gfx9 instruction costs on the unit that executes it, in clocks: for estimates.

Sources
-------
Matrix instructions: the passes, of four clocks, of LLVM's scheduling models (``SISchedule.td``:
``SIQuarterSpeedModel``, ``SIDPFullSpeedModel``, ``SIDPGFX942FullSpeedModel``), and never less than
the data sheet's rate.  Vector instructions: four clocks for the 64 lanes of a wave on a SIMD of 16,
and four times that for what the same models call quarter rate.  LDS: 32 banks of four bytes.
Vector memory: 16 addresses and 64 bytes a clock (ROCm Compute Profiler, performance model of the
vector L1 cache).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from .machine import SIMDS, WAVE, matrix_rate

__all__ = ["Cost", "Product", "cost", "memory_bytes", "product_of"]

LDS_BYTES, L1_BYTES = 128, 64
"""Bytes that the LDS, and the vector L1 cache, of a compute unit move in a clock."""

_QUAD = 4  # clocks of a full-rate instruction, and of a pass
_ADDRESSES = 16

_PRODUCT = re.compile(
    r"v_s?mfmac?(?:_scale)?_[fi]\d+_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)_?"
    r"(?:(?P<blocks>\d+)b_)?(?P<kind>xf32|f8f6f4|bf16|f16|f32|f64|i8|fp8|bf8)"
)
_KINDS = {"xf32": "f32", "f8f6f4": "f8", "fp8": "f8", "bf8": "f8"}
_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "i8": 8, "f8": 8}
_PASSES = {4: 2, 16: 8, 32: 16}
_PASSES_LONG = {4: 2, 16: 4, 32: 8}  # gfx942 and later, where a lane gives 64 bits or more
_QUARTER_RATE = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos|cvt)_|v_mul_(lo|hi)_")
_FULL_RATE = re.compile(r"v_mul_(lo|hi)_|v_cvt_\w*f64")
_LDS = re.compile(r"ds_(?:read|write)(?P<two>2)?(?:st64)?_(?:tr_)?b(?P<bits>\d+)")
_MEMORY = re.compile(r"(?:global|buffer|flat|scratch)_(?:load|store|atomic)_(?:lds_)?(?P<kind>\w+)")
# What an instruction moves for a lane; all others move whole registers of four bytes.
_BYTES = {"byte": 1, "ubyte": 1, "sbyte": 1, "short": 2, "ushort": 2, "sshort": 2}


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix instruction: what it multiplies.

    Attributes
    ----------
    kind : str
        Of the operands, as data sheets have it: ``"f16"``, ``"f8"``...
    flops : int
        Multiplications and additions, two to a pair.
    side : int
        Rows of the result (4, 16, 32).
    lane_bits : int
        Bits of an operand in each lane.
    """

    kind: str
    flops: int
    side: int
    lane_bits: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What one instruction of a wave takes.

    Attributes
    ----------
    unit : str
        ``"matrix"`` or ``"vector"`` (each SIMD has one), ``"lds"`` or ``"memory"`` (each compute
        unit has one), ``"smem"``, ``"scalar"``.
    clocks : int
        For which the unit is taken.
    lane_bytes : int
        That an instruction of the LDS or of memory moves for each lane.
    flops : int
        Of a matrix instruction.
    """

    unit: str
    clocks: int = _QUAD
    lane_bytes: int = 0
    flops: int = 0


@lru_cache(maxsize=4096)
def cost(name: str, arch: str) -> Cost:
    """Return what an instruction takes on an architecture (``"gfx942"``)."""
    if (product := product_of(name)) is not None:
        return Cost("matrix", _matrix_clocks(product, arch), flops=product.flops)
    if name.startswith("v_"):
        full = arch != "gfx908" and _FULL_RATE.match(name)
        return Cost("vector", _QUAD if full or not _QUARTER_RATE.match(name) else 4 * _QUAD)
    if name.startswith("ds_"):
        width = _LDS.match(name)
        lane = max(int(width["bits"]) // 8 * (2 if width["two"] else 1), 4) if width else 4
        return Cost("lds", lane * WAVE // LDS_BYTES, lane)
    if match := _MEMORY.match(name):
        lane = memory_bytes(match["kind"])
        return Cost("memory", max(WAVE // _ADDRESSES, lane * WAVE // L1_BYTES), lane)
    return Cost("smem" if name.startswith(("s_load", "s_buffer_load")) else "scalar")


@lru_cache(maxsize=256)
def product_of(name: str) -> Product | None:
    """Return what a matrix instruction multiplies; None for any other instruction."""
    match = _PRODUCT.match(name)
    if match is None:
        return None
    m, n, k = (int(match[axis]) for axis in "mnk")
    kind = _KINDS.get(match["kind"], match["kind"])
    one = m * k * _BITS[kind]
    if match["blocks"]:
        blocks = int(match["blocks"])
    else:  # gfx90a and before name no blocks; an operand fills one register of a lane, or two
        wide = kind == "f16" or name.endswith("_1k") or kind == "f64"
        blocks = max(1, WAVE * (64 if wide else 32) // one)
    return Product(kind, 2 * m * n * k * blocks, m, one * blocks // WAVE)


def _matrix_clocks(product: Product, arch: str) -> int:
    long = arch not in ("gfx908", "gfx90a") and product.lane_bits >= 64
    passes = (_PASSES_LONG if long else _PASSES).get(product.side, 16)
    rate = matrix_rate(arch, product.kind)
    least = product.flops * SIMDS // rate if rate else 0
    return max(passes * _QUAD, least) if product.kind != "f64" else least


def memory_bytes(kind: str) -> int:
    """Return the bytes per lane of ``dwordx4``, ``ushort``, ``b128``, ``short_d16_hi``..."""
    if wide := re.match(r"dwordx(\d)", kind):
        return 4 * int(wide[1])
    if bits := re.match(r"b(\d+)", kind):
        return int(bits[1]) // 8
    return _BYTES.get(kind.partition("_")[0], 4)
