# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-072: Operands converted on the way into a matmul or convolution.

Operands of two types, uint8, half to double, and those that are padded as well.
"""

from __future__ import annotations

from ..rule import GPU, Workaround

__all__ = ["WORKAROUND"]

WORKAROUND = Workaround(
    id="W-072",
    title="Operands converted on the way into a matmul or convolution",
    symptom="does not compile",
    targets=GPU,
    instead="the converted operand is materialised",
)
