# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is known of a target's CPU: the widths and sizes that the speed of its code depends on."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from .target import Target, cpuinfo

__all__ = ["CpuMachine", "cpu_machine"]


class CpuMachine(NamedTuple):
    """One core of a CPU.

    Attributes
    ----------
    vector_bytes : int
        Of the widest registers that the compiler uses.
    l1_bytes, l2_bytes : int
        Caches of its data, of one core.
    has_bfloat16 : bool
        Whether its vectors multiply bfloat16 (AVX512-BF16).
    is_intel : bool
        Whether Intel makes it: what code costs there was measured apart.
    """

    vector_bytes: int
    l1_bytes: int
    l2_bytes: int
    has_bfloat16: bool = False
    is_intel: bool = False

    @property
    def lanes(self) -> int:
        """Elements of 32 bits in a vector."""
        return self.vector_bytes // 4

    @property
    def has_avx512(self) -> bool:
        """Whether vectors are of 512 bits, for which what code costs was measured apart."""
        return self.vector_bytes >= 64

    @property
    def registers(self) -> int:
        """Vector registers: AVX-512 has twice as many as its predecessors."""
        return 32 if self.has_avx512 else 16

    @property
    def refused_bytes(self) -> int:
        """Of one value in registers, from which on the compiler refuses it: 512 registers."""
        return 512 * self.vector_bytes


# LLVM's names by what they begin with; the first that fits.  A name that is not here has SSE2,
# which every x86-64 has.
_NAMED: tuple[tuple[str, CpuMachine], ...] = (
    (r"x86-64-v4", CpuMachine(64, 32 << 10, 1 << 20)),
    (
        r"skylake-avx512|cascadelake|cannonlake|rocketlake|tigerlake|knl|knm",
        CpuMachine(64, 32 << 10, 1 << 20, is_intel=True),
    ),
    (r"icelake", CpuMachine(64, 48 << 10, 2 << 20, is_intel=True)),
    (
        r"sapphirerapids|emeraldrapids|graniterapids|diamondrapids",
        CpuMachine(64, 48 << 10, 2 << 20, has_bfloat16=True, is_intel=True),
    ),
    (r"cooperlake", CpuMachine(64, 32 << 10, 1 << 20, has_bfloat16=True, is_intel=True)),
    (r"znver[45]", CpuMachine(64, 32 << 10, 1 << 20, has_bfloat16=True)),
    (r"haswell|broadwell|skylake", CpuMachine(32, 32 << 10, 512 << 10, is_intel=True)),
    (r"x86-64-v3|znver[123]", CpuMachine(32, 32 << 10, 512 << 10)),
    (
        r"alderlake|raptorlake|meteorlake|arrowlake|lunarlake|sierraforest|grandridge",
        CpuMachine(32, 32 << 10, 1 << 20, is_intel=True),
    ),
)
_LEAST = CpuMachine(16, 32 << 10, 256 << 10)
_FLAGS = (("avx512f", 64), ("avx2", 32))
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_SIZE = re.compile(r"(\d+)([KM]?)")


@lru_cache(maxsize=8)
def cpu_machine(target: Target) -> CpuMachine:
    """Return what is known of a target's CPU; of the host, what Linux says."""
    if target.is_host:
        return _host()
    named = (machine for names, machine in _NAMED if re.match(names, target.arch))
    return next(named, _LEAST)


def _host() -> CpuMachine:
    facts = cpuinfo()
    flags = facts.get("flags", "").split()
    width = next((size for flag, size in _FLAGS if flag in flags), _LEAST.vector_bytes)
    l1, l2 = _cache(1) or _LEAST.l1_bytes, _cache(2) or _LEAST.l2_bytes
    intel = facts.get("vendor_id") == "GenuineIntel"
    return CpuMachine(width, l1, l2, has_bfloat16="avx512_bf16" in flags, is_intel=intel)


def _cache(level: int) -> int:
    """Return the bytes of a core's data cache, 0 where Linux does not say."""
    for folder in sorted(_CACHES.glob("index*")):
        try:
            facts = [(folder / name).read_text().strip() for name in ("level", "type", "size")]
        except OSError:
            continue
        found = _SIZE.fullmatch(facts[2])
        if facts[0] == str(level) and facts[1] in ("Data", "Unified") and found:
            return int(found[1]) << {"": 0, "K": 10, "M": 20}[found[2]]
    return 0
