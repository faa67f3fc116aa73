# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-113: A scan: zeros and sums are stored to the same places without a barrier between.

Seen by the race detector of the emulator.
"""

from __future__ import annotations

from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]

WORKAROUND = Workaround(
    id="W-113",
    title="A scan: zeros and sums are stored to the same places without a barrier between",
    symptom="wrong numbers",
    targets=GFX9,
    instead="running sums are sums over all elements, of which those that do not count are 0",
)
