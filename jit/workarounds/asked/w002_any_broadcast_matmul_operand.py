# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-002: A broadcast operand of a matmul crashes the compiler."""

from __future__ import annotations

from ..rule import ALL, Workaround

__all__ = ["WORKAROUND"]


def _broadcast(broadcast: bool) -> bool:
    return broadcast


WORKAROUND = Workaround(
    id="W-002",
    title="A broadcast operand of a matmul crashes the compiler",
    symptom="crash",
    targets=ALL,
    instead="the operand is materialised",
    applies=_broadcast,
)
