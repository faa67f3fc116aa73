# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of a batch norm: two sums of products, and as much to combine them."""

from __future__ import annotations

from .channel_norms import declines
from .counts import per_element
from .op_info import OpInfo

__all__ = ["INFO"]

INFO = OpInfo(work=per_element("x", 11), adds_up=True, declines=declines)
