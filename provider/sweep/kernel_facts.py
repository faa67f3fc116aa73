# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the compiler made of a graph, read from a compiled module: no second compilation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...emulation.decode import decode
from ...emulation.elf import CodeObject, Kernel, code_objects, read_code_object
from ...emulation.errors import EmulationError

__all__ = ["code_facts"]


def code_facts(statistics: Mapping[str, Any], vmfb: bytes | None) -> dict[str, Any]:
    """Return the fields of `row.CodeFacts` but for ``ir``.

    Parameters
    ----------
    statistics : mapping
        Of a plan: dispatches, transient bytes.
    vmfb : bytes or None
        The module, where the engine has one; figures of kernels are read if it is for gfx9.
    """
    facts = {name: statistics.get(name) for name in ("dispatches", "transient_bytes")}
    return facts | _gfx9(vmfb or b"")


def _gfx9(vmfb: bytes) -> dict[str, int]:
    """Return figures of all kernels of a module; none where it holds none for gfx9."""
    try:
        objects = [read_code_object(data) for data in code_objects(vmfb)]
    except EmulationError:  # another GPU
        return {}
    kernels = [(code, kernel) for code in objects for kernel in code.kernels.values()]
    if not kernels:
        return {}
    about = [kernel.metadata for _, kernel in kernels]
    return {
        # On gfx90a and later the first figure holds the second.
        "registers": max(max(m.get(".vgpr_count", 0), m.get(".agpr_count", 0)) for m in about),
        "spills": sum(m.get(f".{kind}_spill_count", 0) for m in about for kind in ("vgpr", "sgpr")),
        "lds_bytes": max(kernel.lds_bytes for _, kernel in kernels),
        "mfma": sum(_matrix_instructions(code, kernel) for code, kernel in kernels),
    }


def _matrix_instructions(code: CodeObject, kernel: Kernel) -> int:
    found = decode(code.code(kernel), arch=code.arch, kernel=kernel.name)
    return sum(one.mnemonic.startswith(("v_mfma", "v_smfmac")) for one in found)
