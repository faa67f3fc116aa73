# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The policies ``tuned`` and ``autotune``: what was measured, and measuring what was not."""

from __future__ import annotations

import logging
from dataclasses import replace

from .candidate import Asked, Candidate
from .order import in_order
from .winners import winners

__all__ = ["autotune_policy", "policy"]

log = logging.getLogger("hipdnn_iree.selection")


def policy(asked: Asked, name: str = "tuned") -> list[Candidate] | None:
    """Rank by the times measured earlier; no opinion where none of them can be used."""
    known = winners(asked.settings.engine_winners).usable(
        asked.graph, asked.target, asked.candidates, asked.settings
    )
    if not known:
        return None
    best: dict[str, Candidate] = {}
    for entry, candidate in known:  # the fastest of each engine
        why = f"measured {entry.median_us:.4g} µs on {entry.when[:10] or 'an unknown day'}"
        timed = replace(candidate, measured_us=entry.median_us)
        best.setdefault(candidate.name, timed.chosen_by(name, candidate.choice, why))
    others = in_order([c for c in asked.candidates if c.name not in best], asked.settings)
    return [*best.values(), *(c.chosen_by(name, c.choice, "not measured") for c in others)]


def autotune_policy(asked: Asked) -> list[Candidate] | None:
    """Rank by measured times; a graph without any is measured now, which takes seconds."""
    found = policy(asked, "autotune")
    if found is None:
        from .autotune import tune

        fixed = {name: v for c in asked.candidates for name, v in c.choice.items()}
        names = [c.name for c in asked.candidates]
        log.info("measuring graph %r for %s", asked.graph.name, asked.target)
        tune(
            asked.graph,
            asked.target,
            asked.settings,
            engines=names,
            knobs=fixed,
            progress=lambda done, everything, what: log.info("%d/%d %s", done, everything, what),
        )
        found = policy(asked, "autotune")
    return found
