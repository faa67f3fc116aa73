# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-102: powers of negative numbers, and of 0 to 0, are NaN."""

from __future__ import annotations

from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]

WORKAROUND = Workaround(
    id="W-102",
    title="Powers of negative numbers, and of 0 to 0, are NaN",
    symptom="wrong numbers",
    targets=CPU,
    instead="exp(y · log|x|) in float64, with the cases apart",
)
