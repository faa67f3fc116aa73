# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-027: 16-bit matmuls for CUDA: transposed operands, extents that fill no instruction.

Found on an H200.  That target is a check, not for speed.
"""

from __future__ import annotations

from ..rule import CUDA, Workaround

__all__ = ["WORKAROUND"]

WORKAROUND = Workaround(
    id="W-027",
    title="16-bit matmuls for CUDA: transposed operands, extents that fill no instruction",
    symptom="wrong numbers",
    targets=CUDA,
    instead="the operands are converted to float32",
)
