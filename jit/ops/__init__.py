# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the JIT knows of each op without torch-mlir: a module per op, found by the op's name.

Importing this package costs nothing; an op's module is imported when it is asked for.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .op_info import OpInfo

__all__ = ["info"]


@cache
def info(op: str) -> OpInfo:
    """Return what is known of an op."""
    found: OpInfo = import_module(f".{op}", __name__).INFO
    return found
