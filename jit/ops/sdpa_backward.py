# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of scaled dot-product attention."""

from __future__ import annotations

from math import prod

from ...graph_api.enums import PointwiseMode
from . import attention
from .counts import COSTS
from .op_info import Dims, OpInfo

__all__ = ["INFO"]


def _work(op: object, dims: Dims) -> tuple[int, int]:
    scores = prod(dims["q"][:3]) * attention.key_count(op, dims)
    # q·kᵀ, dq and dk over the head's dims; do·vᵀ and dv over those of the values.
    matmuls = 2 * scores * (3 * dims["q"][3] + 2 * dims["v"][3])
    return matmuls, scores * (COSTS[PointwiseMode.EXP] + 6) + 2 * prod(dims["o"])


INFO = OpInfo(work=_work, adds_up=True, declines=attention.declines, flags=attention.flags)
