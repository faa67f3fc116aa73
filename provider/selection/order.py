# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The policy ``order``: a fixed order of engines, hipDNN's StaticOrdering.

The built-in order is hipDNN's with ours in the middle, of the engines that may be chosen without
being asked for.  ``HIPDNN_HEUR_FALLBACK_ENGINE_ORDER`` replaces it, and engines that it does not
name are not used.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...graph_api.errors import Decline, NotSupportedError, Problem
from ...jit.settings_table import Settings
from ..engine_ids import as_id, engine_id
from ..registry import engines
from .candidate import Asked, Candidate

__all__ = ["FIRST", "LAST", "RULES", "id_of", "in_order", "policy"]

FIRST = ("MIOPEN_ENGINE", "ASM_SDPA_ENGINE", "ROCKE_ENGINE")
"""Engines that come first, as in hipDNN's StaticOrdering."""

LAST = ("MIOPEN_ENGINE_DETERMINISTIC",)
"""Engines that come last there."""

RULES: dict[str, str] = {
    "SELECT-01": "HIPDNN_HEUR_FALLBACK_ENGINE_ORDER names an engine that serves the graph",
}


def id_of(word: str, settings: Settings) -> int:
    """Return the id that a word stands for: an id in any spelling, an alias, or a name."""
    number = as_id(word)
    if number is not None:
        return number
    entry = engines(settings).get(word)
    return entry.load().id if entry is not None else engine_id(word)


def in_order(candidates: Sequence[Candidate], settings: Settings) -> list[Candidate]:
    """Return candidates in the fixed order; without those that the user's order leaves out."""
    wanted = [id_of(word, settings) for word in settings.engine_order]
    if wanted:
        place = {number: i for i, number in reversed(list(enumerate(wanted)))}
        kept = [c for c in candidates if c.engine.id in place]
        return sorted(kept, key=lambda c: place[c.engine.id])
    return sorted((c for c in candidates if c.engine.BY_DEFAULT), key=_place)


def policy(asked: Asked) -> list[Candidate] | None:
    """Rank by the fixed order; no opinion on engines that want to be asked for."""
    words = asked.settings.engine_order
    found = in_order(asked.candidates, asked.settings)
    if not found and not words:
        return None
    if not found:
        problem = Problem(
            rule="SELECT-01",
            port="HIPDNN_HEUR_FALLBACK_ENGINE_ORDER",
            got=",".join(words),
            wanted=f"one of {', '.join(c.name for c in asked.candidates)}",
            hint="change or unset the variable, or pin an engine",
        )
        raise NotSupportedError(
            f"no engine in the order given serves graph {asked.graph.name!r}",
            [Decline(engine=c.name, problem=problem) for c in asked.candidates],
        )
    why = "HIPDNN_HEUR_FALLBACK_ENGINE_ORDER" if words else "the fixed order of engines"
    return [c.chosen_by("order", c.choice, why) for c in found]


def _place(candidate: Candidate) -> int:
    if candidate.name in FIRST:
        return FIRST.index(candidate.name)
    return len(FIRST) + (candidate.name in LAST)  # the others as in the table
