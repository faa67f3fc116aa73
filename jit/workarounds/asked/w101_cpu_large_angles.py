# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-101: sine and cosine lose digits with the size of the angle."""

from __future__ import annotations

from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]

WORKAROUND = Workaround(
    id="W-101",
    title="Sine and cosine lose digits with the size of the angle",
    symptom="wrong numbers",
    targets=CPU,
    instead="the angle is reduced first, by the bits of 2/pi that count for its size",
)
