# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One table of all instructions that are executed: mnemonic -> builder."""

from __future__ import annotations

from . import ds, indexing, lanes, mfma, packed, scalar, smem, vector, vmem
from .steps import Builder

__all__ = ["BUILDERS"]

BUILDERS: dict[str, Builder] = {}
for _module in (scalar, indexing, smem, vector, lanes, packed, mfma, ds, vmem):
    BUILDERS.update(_module.BUILDERS)
