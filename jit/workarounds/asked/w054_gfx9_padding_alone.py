# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-054: A padding that stands alone (not fused into a convolution).

The kernel leaves out the offset and part of the border.
"""

from __future__ import annotations

from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]

WORKAROUND = Workaround(
    id="W-054",
    title="A padding that stands alone (not fused into a convolution)",
    symptom="wrong numbers",
    targets=GFX9,
    instead="the values are concatenated",
)
