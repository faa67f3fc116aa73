# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of a layer norm: three sums of products, and as much to combine them."""

from __future__ import annotations

from . import row_norms
from .counts import per_element
from .op_info import OpInfo

__all__ = ["INFO"]

INFO = OpInfo(
    work=per_element("x", 13),
    adds_up=True,
    declines=row_norms.declines,
    dynamic=row_norms.dynamic,
)
