"""Whether this machine's CPU has the instructions that a module uses.

IREE does not look: code for AVX-512 or AMX loads anywhere and ends the process by SIGILL when
it runs.  The features it was compiled for stand in the module, as text, in LLVM's spelling.
"""

from __future__ import annotations

import re
from functools import cache

__all__ = ["missing_features"]

# Vector and matrix instructions, in Linux's spelling; Linux 5.4 knows all but AMX, which needs
# a kernel that knows it.  LLVM's spelling is the same without underscores, dots and dashes.
# Later features are left out: an older kernel does not list them where LLVM finds them.
_CHECKED = (
    *("sse4_1", "sse4_2", "avx", "avx2", "fma", "f16c", "bmi2", "gfni", "vaes", "vpclmulqdq"),
    *("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512ifma", "avx512vbmi"),
    *("avx512_vbmi2", "avx512_vnni", "avx512_bitalg", "avx512_vpopcntdq", "avx512_bf16"),
    *("amx_tile", "amx_int8", "amx_bf16"),
)
_NAMES = re.compile(rb'cpu_features = "([^"]*)"')


def missing_features(vmfb: bytes | memoryview) -> tuple[str, ...]:
    """Return the features that a CPU module was compiled for and this machine lacks.

    Empty when there are none, and where the machine or the module does not tell.
    """
    here = _features()
    if not here:
        return ()
    missing: set[str] = set()
    for text in set(_NAMES.findall(vmfb)):
        # A name may stand there twice, "+" for the model and "-" for the machine: the last counts.
        wanted = {_plain(word[1:]): word[0] == "+" for word in text.decode().split(",") if word}
        missing |= {name for name in _CHECKED if wanted.get(_plain(name)) and name not in here}
    return tuple(sorted(missing))


def _plain(name: str) -> str:
    return re.sub(r"[._-]", "", name)


@cache
def _features() -> frozenset[str]:
    """Return the x86 features that Linux reports, empty elsewhere."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:  # the first processor's are all we need
                name, _, value = line.partition(":")
                if name.strip() == "flags":
                    return frozenset(value.split())
    except OSError:
        pass
    return frozenset()
