# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of the experts' weights."""

from __future__ import annotations

from .experts import declines, strategies, work
from .op_info import OpInfo

__all__ = ["INFO"]

INFO = OpInfo(
    declines=declines("dweight"),
    work=work("doutput", "dweight"),
    strategies=strategies(
        "token",
        "dweight",
        "a matmul of all rows for each expert, those of others as zeros",
        "rows gathered into blocks of one expert, one batch of matmuls, each added to its expert's",
    ),
)
