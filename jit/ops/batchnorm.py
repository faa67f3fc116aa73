# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch normalisation in training: sum, difference, square, sum, scale twice, shift."""

from __future__ import annotations

from .channel_norms import declines
from .counts import per_element
from .op_info import OpInfo

__all__ = ["INFO"]

INFO = OpInfo(work=per_element("x", 7), adds_up=True, declines=declines)
