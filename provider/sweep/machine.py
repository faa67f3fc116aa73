# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What results depend on: the machine, the versions, the sources of the lowering."""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ...jit.target import cpuinfo

__all__ = ["machine", "versions"]

_PACKAGES = ("iree-base-compiler", "iree-base-runtime", "torch-mlir", "numpy", "torch")
_VECTOR = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8")


def machine() -> dict[str, Any]:
    """Return the processor, the memory, the system, and how busy it is."""
    about = cpuinfo()
    flags = set(about.get("flags", "").split())
    system = os.uname()
    return {
        "cpu": about.get("model name", ""),
        "processors": len(os.sched_getaffinity(0)),
        "vector": [name for name in _VECTOR if name in flags],
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{system.sysname} {system.release} {system.machine}",
        "load": round(os.getloadavg()[0], 2),
    }


def versions() -> dict[str, str | None]:
    """Return the versions of what is measured, and a digest of what decides on the IR."""
    from ... import __version__
    from ...jit.pipeline import made_with

    found: dict[str, str | None] = {
        "hipdnn-iree": __version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "lowering": made_with()["lowering"],
    }
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found
