# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""RMS normalisation: as a layer norm without the mean."""

from __future__ import annotations

from . import row_norms
from .counts import per_element
from .op_info import OpInfo

__all__ = ["INFO"]

INFO = OpInfo(
    work=per_element("x", 5),
    adds_up=True,
    declines=row_norms.declines,
    dynamic=row_norms.dynamic,
    dynamic_gfx9=row_norms.dynamic_gfx9,
    flags=row_norms.flags,
)
