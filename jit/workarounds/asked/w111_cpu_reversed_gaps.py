# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-111: Every third element, in reverse order: no code."""

from __future__ import annotations

from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]

WORKAROUND = Workaround(
    id="W-111",
    title="Every third element, in reverse order: no code",
    symptom="does not compile",
    targets=CPU,
    instead="an operand is copied by halves, not by reversing it twice, where a dim has halves",
)
