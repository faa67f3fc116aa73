# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-076: Rows of a norm that are no multiple of 64 long go to one thread, unrolled.

An f16 row of 1000 elements does not compile within a minute.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...node_context import NodeContext
from ...ops.row_norms import in_pieces, row_length
from ..rule import GFX9, Workaround
from .w128_gfx9_sums_of_subgroups import NORMS

__all__ = ["WORKAROUND"]

WAVE = 64
"""Threads of a wavefront."""

# Up to here a scattered row is unrolled in good time; 1000 elements take over a minute.
_SHORT_ROW = 210


def _ragged(length: int, *, scattered: bool = False) -> bool:
    return length > (_SHORT_ROW if scattered else WAVE) and length % WAVE != 0


def _operands(context: NodeContext) -> Iterator[str]:
    pieces = context.named(*NORMS) and in_pieces(context)
    if pieces and _ragged(row_length(context), scattered=True):
        yield "x"


WORKAROUND = Workaround(
    id="W-076",
    title="Rows of a norm that are no multiple of 64 long go to one thread, unrolled",
    symptom="slow",
    targets=GFX9,
    instead="rows are completed to a multiple of 64; those in pieces are materialised",
    operands=_operands,
    applies=_ragged,
)
