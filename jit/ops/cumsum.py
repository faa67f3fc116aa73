# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Running sums."""

from __future__ import annotations

from .counts import per_element
from .op_info import OpInfo

__all__ = ["INFO"]

INFO = OpInfo(work=per_element("x", 1))
