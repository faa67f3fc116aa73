# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-080: Part of a tensor read element by element: the slice's extents are taken for strides.

By a list of indices, or in reverse.  Found by emulation and seen in the kernel's LLVM IR.
"""

from __future__ import annotations

from ..rule import GPU, Workaround

__all__ = ["WORKAROUND"]

WORKAROUND = Workaround(
    id="W-080",
    title="Part of a tensor read element by element: the slice's extents are taken for strides",
    symptom="wrong numbers",
    targets=GPU,
    instead="the part is materialised",
)
