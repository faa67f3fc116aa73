# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Policies of measured times: ``tuned``, and ``benchmark`` and ``autotune``, which measure."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict, Unpack

from ...graph_api.errors import NotSupportedError
from ...jit.work import graph_work
from .candidate import Asked, Candidate
from .order import in_order
from .winners import winners

__all__ = ["autotune_policy", "benchmark_policy", "policy"]

_BENCHMARK_S = 0.3  # of samples for one graph: some milliseconds for each round of an engine
_BENCHMARK_FLOPS = 4e9  # of a graph; the reference, which results are checked by, takes seconds

log = logging.getLogger("hipdnn_iree.selection")


class Measuring(TypedDict, total=False):
    """What `tune` may be told of the time to take."""

    tries_knobs: bool
    budget_s: float


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
    return _measuring(asked, "autotune", [c.name for c in asked.candidates])


def benchmark_policy(asked: Asked) -> list[Candidate] | None:
    """Rank by measured times; a graph without any is measured now, each engine as it builds it.

    Knobs stay as they are, and the engine that splits graphs is not tried: what it takes is
    building one plan of each engine, a check against the reference and some samples.  No opinion
    on a graph that is not known and has so much arithmetic that the check would take long.
    """
    work = graph_work(asked.graph)
    if work.matrix_flops + work.other_flops > _BENCHMARK_FLOPS:
        return policy(asked, "benchmark")
    names = [c.name for c in asked.candidates if c.engine.ALIAS != "split"]
    return _measuring(asked, "benchmark", names, tries_knobs=False, budget_s=_BENCHMARK_S)


def _measuring(
    asked: Asked, name: str, engines: Sequence[str], **how: Unpack[Measuring]
) -> list[Candidate] | None:
    found = policy(asked, name)
    if found is None:
        from .autotune import tune

        fixed = {name: v for c in asked.candidates for name, v in c.choice.items()}
        log.info("measuring graph %r for %s", asked.graph.name, asked.target)
        try:
            tune(
                asked.graph,
                asked.target,
                asked.settings,
                engines=engines,
                knobs=fixed,
                progress=lambda done, every, what: log.info("%d/%d %s", done, every, what),
                **how,
            )
        except NotSupportedError as error:  # an op that results cannot be checked of
            log.info("graph %r is not measured: %s", asked.graph.name, error)
            return None
        found = policy(asked, name)
    return found
