# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows times the weights of their experts."""

from __future__ import annotations

from .experts import declines, strategies, work
from .op_info import OpInfo

__all__ = ["INFO"]

INFO = OpInfo(
    declines=declines("weight"),
    work=work("output", "weight"),
    strategies=strategies(
        "output",
        "weight",
        "a matmul of all rows with the weights of each expert, of which each row takes one",
        "rows gathered into blocks of one expert, each with a copy of its weights, and one batch "
        "of matmuls: less arithmetic, more copies",
    ),
)
