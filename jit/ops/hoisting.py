# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Expressions of indices that must stay expressions."""

from __future__ import annotations

__all__ = ["KEEP_EXPRESSIONS"]

KEEP_EXPRESSIONS = "--iree-opt-const-expr-hoisting=false"
"""For ops with values that depend on no operand: distances between queries and keys, positions in
an input, padding.  Hoisted, they would be a table in device memory, filled when the module is
loaded, which the emulator of gfx9 waits for forever."""
