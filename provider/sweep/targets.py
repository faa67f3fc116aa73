# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Targets as suites and sweeps name them: a target, or a word for a family of them."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph_api.errors import SettingError
from ...jit.target import GFX9_ARCHS, Target
from .graphs import nearest

__all__ = ["narrowed", "unknown_target", "within"]

_FAMILIES = ("gfx9", "cuda")


def unknown_target(word: str) -> tuple[str, str] | None:
    """Return what is wanted instead of a word and a hint, or None for a target or a family."""
    if word in _FAMILIES:
        return None
    try:
        Target.parse(word)
    except SettingError:
        known = [*_FAMILIES, *Target.known()]
        return f"one of {', '.join(known)}", nearest(word, known)
    return None


def within(target: str, allowed: Sequence[str]) -> bool:
    """Whether a target is one of those that are allowed; all are where none is named."""
    return not allowed or any(_is(target, word) for word in allowed)


def narrowed(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...] | None:
    """Return the targets that both allow, empty for all; None where there is none."""
    if not one or not other:
        return (*one, *other)
    both = [b if a in _FAMILIES else a for a in one for b in other if _is(a, b)]
    return tuple(dict.fromkeys(both)) or None


def _is(target: str, word: str) -> bool:
    if word == target:
        return True
    if target in _FAMILIES:
        return _family(word) == target
    if word in _FAMILIES:
        return _family(target) == word
    one, other = Target.parse(target), Target.parse(word)
    return one.backend == other.backend and (one.is_cpu or one.arch == other.arch)


def _family(word: str) -> str:
    if word in _FAMILIES:
        return word
    target = Target.parse(word)
    return "gfx9" if target.arch in GFX9_ARCHS else target.backend
