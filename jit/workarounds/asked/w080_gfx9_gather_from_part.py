# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-080: Part of a tensor read by a list of indices: the slice's extents taken for strides.

Found by emulation and seen in the kernel's LLVM IR.
"""

from __future__ import annotations

from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]

WORKAROUND = Workaround(
    id="W-080",
    title="Part of a tensor read by a list of indices: the slice's extents taken for strides",
    symptom="wrong numbers",
    targets=GFX9,
    instead="the part is materialised",
)
