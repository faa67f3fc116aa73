# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The policy ``heuristic``: the engine with the lowest estimate of the cost model."""

from __future__ import annotations

from dataclasses import replace

from .candidate import Asked, Candidate
from .cost import estimate

__all__ = ["policy"]


def policy(asked: Asked) -> list[Candidate]:
    """Rank by estimated time; it always has an opinion."""
    found = []
    for candidate in asked.candidates:
        us = estimate(asked.graph, asked.target, candidate.engine).us
        timed = replace(candidate, estimated_us=us)
        found.append(timed.chosen_by("heuristic", candidate.choice, f"estimated {us:.4g} µs"))
    return sorted(found, key=lambda c: c.estimated_us or 0.0)
