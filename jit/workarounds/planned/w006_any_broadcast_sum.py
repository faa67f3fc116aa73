# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-006: A sum of products with an operand that is broadcast along a summed dim."""

from __future__ import annotations

from collections.abc import Iterator

from ...node_context import NodeContext
from ..rule import ALL, Workaround

__all__ = ["WORKAROUND"]


def _channels(context: NodeContext) -> Iterator[str]:
    if context.named("batchnorm_backward"):
        yield from (port for port, x in context.operands.items() if x.broadcast)


def _rows(broadcast: bool) -> bool:
    """Whether an operand of the gradient of a row norm is broadcast; asked on the CPU only."""
    return broadcast


WORKAROUND = Workaround(
    id="W-006",
    title="A sum of products with an operand that is broadcast along a summed dim",
    symptom="does not compile",
    targets=ALL,
    instead="the operand is materialised",
    operands=_channels,
    applies=_rows,
)
