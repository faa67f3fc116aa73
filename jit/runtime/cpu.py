# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether this machine's CPU has the instructions that a module uses.

W-041: IREE does not check. Code for AVX-512 or AMX loads on any CPU, and SIGILL ends the process
when it runs.  The module contains the features that it was compiled for, in LLVM's spelling.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ..target import cpuinfo

__all__ = ["missing_features"]

# Vector and matrix instructions, in Linux's spelling.  Linux 5.4 lists all but AMX, which needs
# a newer kernel anyway.  LLVM's spelling is the same without underscores, dots and dashes.
# Newer features are left out: an old kernel does not list them although LLVM detects them.
_CHECKED = (
    *("sse4_1", "sse4_2", "avx", "avx2", "fma", "f16c", "bmi2", "gfni", "vaes", "vpclmulqdq"),
    *("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512ifma", "avx512vbmi"),
    *("avx512_vbmi2", "avx512_vnni", "avx512_bitalg", "avx512_vpopcntdq", "avx512_bf16"),
    *("amx_tile", "amx_int8", "amx_bf16"),
)
_NAMES = re.compile(rb'cpu_features = "([^"]*)"')


def missing_features(vmfb: bytes | memoryview) -> tuple[str, ...]:
    """Return the features that a CPU module was compiled for and this machine lacks.

    Empty if there are none, or if the machine or the module does not list its features.
    """
    here = _features()
    if not here:
        return ()
    return tuple(sorted({name for text in _NAMES.findall(vmfb) for name in _lacking(text, here)}))


@lru_cache(maxsize=32)  # all modules that are compiled for one machine list the same
def _lacking(text: bytes, here: frozenset[str]) -> tuple[str, ...]:
    # A name may occur twice, "+" for the model and "-" for the machine: the last one counts.
    words = filter(None, text.decode(errors="replace").split(","))
    wanted = {_plain(word[1:]): word[0] == "+" for word in words}
    return tuple(name for name in _CHECKED if wanted.get(_plain(name)) and name not in here)


def _plain(name: str) -> str:
    return re.sub(r"[._-]", "", name)


def _features() -> frozenset[str]:
    """Return the x86 features that Linux reports, empty elsewhere."""
    return frozenset(cpuinfo().get("flags", "").split())
