# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of scaled dot-product attention."""

from __future__ import annotations

from math import prod

from ...graph_api.enums import PointwiseMode
from ..node_context import NodeContext
from . import attention
from .blocking import BLOCKED
from .counts import COSTS
from .op_info import Dims, OpInfo
from .strategy import Strategies, Strategy

__all__ = ["INFO"]

PLAIN = "plain"


def _work(op: object, dims: Dims) -> tuple[int, int]:
    scores = prod(dims["q"][:3]) * attention.key_count(op, dims)
    # q·kᵀ, dq and dk over the head's dims; do·vᵀ and dv over those of the values.
    matmuls = 2 * scores * (3 * dims["q"][3] + 2 * dims["v"][3])
    return matmuls, scores * (COSTS[PointwiseMode.EXP] + 6) + 2 * prod(dims["o"])


def _rule(context: NodeContext) -> str:
    """Return the default strategy: tiles were better by 1.1 to 5.5 times on a Xeon, 12 of 12."""
    return BLOCKED if attention.fits_tiles(context) else PLAIN


INFO = OpInfo(
    work=_work,
    adds_up=True,
    declines=attention.declines,
    flags=attention.flags,
    strategies=Strategies(
        (
            Strategy(name=PLAIN, help="five matmuls, masks and what is between them"),
            attention.IN_TILES,
        ),
        _rule,
    ),
)
