# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""hipDNN's ids of engines: 64 bits, made from the name, and shown signed or in hexadecimal."""

from __future__ import annotations

__all__ = ["as_id", "engine_id"]


def engine_id(name: str) -> int:
    """Return hipDNN's id of an engine: FNV-1a 64 of its name, as a signed integer.

    Source: hipDNN's EngineIdDesign document; ``engine_id("FUSILLI_ENGINE")`` is
    -3193037706610614382.
    """
    value = 0xCBF29CE484222325
    # A name from a variable or a file may hold what is no text.
    for byte in name.encode(errors="surrogatepass"):
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    if not name:
        return 0
    return _signed(value)


def as_id(text: str) -> int | None:
    """Return the id that a text spells, in decimal or as hipDNN shows it (0x…); None for others."""
    try:
        return _signed(int(text, 0))
    except ValueError:
        return None


def _signed(value: int) -> int:
    return value - 2**64 if 2**63 <= value < 2**64 else value
