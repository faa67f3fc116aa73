# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers with units, as people read them."""

from __future__ import annotations

__all__ = ["bytes_text", "number_text", "si", "time_text"]


def number_text(value: float) -> str:
    """Return an integer, or four digits, with thousands marked: ``1,234``, ``0.01235``."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e12 else f"{value:.4g}"


def bytes_text(count: int) -> str:
    """Return three digits and a binary prefix: ``6.13 MiB``."""
    for size, unit in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


def si(value: float) -> str:
    """Return three digits and a prefix: ``3.71 G``."""
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {prefix}"
    return f"{value:.3g} "


def time_text(seconds: float) -> str:
    """Return three digits and a unit: ``12.3 µs``."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
