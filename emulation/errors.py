# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What can be wrong with a code object or a kernel in it."""

from __future__ import annotations

__all__ = ["CodeObjectError", "DecodeError", "EmulationError", "UnsupportedError"]


class EmulationError(Exception):
    """Something that is emulated cannot go on; the text says where and why."""


class CodeObjectError(EmulationError):
    """Bytes are not a code object of a supported architecture, or not a whole one."""


class DecodeError(EmulationError):
    """Bytes are no instruction of the architecture; the text has kernel, address and words."""


class UnsupportedError(EmulationError):
    """An instruction, operand or modifier that is decoded but not executed."""
