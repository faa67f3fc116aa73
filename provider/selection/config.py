# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The policy ``config``: hipDNN's engine override rules.

The file is JSON: ``{"version": 2, "engine_overrides": [rule, ...]}`` (see `engine_rules`).  The
first rule that matches the graph decides; when its engine does not serve the graph, the policy has
no opinion, as in hipDNN.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from ...graph_api.files import read_file
from .candidate import Asked, Candidate, with_choice
from .files import Watched
from .match_key import match_keys
from .order import id_of, in_order

if TYPE_CHECKING:
    from .engine_rules import EngineRule, EngineRules

__all__ = ["policy"]

log = logging.getLogger("hipdnn_iree.selection")


def policy(asked: Asked) -> list[Candidate] | None:
    """Put the engine of the first matching rule first; the others follow in the fixed order."""
    path = asked.settings.engine_config
    rules = None if path is None else _watched(path)
    found = None if rules is None else _find(asked, rules)
    if found is None:
        return None
    rule, chosen = found
    knobs = with_choice(chosen, rule.knobs)
    why = f"a rule for {rule.op} in {path}"
    first = chosen.chosen_by("config", chosen.choice if knobs is None else knobs, why)
    others = in_order([c for c in asked.candidates if c is not chosen], asked.settings)
    return [first, *(c.chosen_by("config", c.choice, "after the rule's engine") for c in others)]


def _find(asked: Asked, rules: EngineRules) -> tuple[EngineRule, Candidate] | None:
    """Return the first rule that matches the graph, and its engine, if that serves the graph."""
    rule = rules.first(match_keys(asked.graph))
    if rule is None:
        return None
    wanted = id_of(rule.engine_name, asked.settings)
    chosen = next((c for c in asked.candidates if c.engine.id == wanted), None)
    return None if chosen is None else (rule, chosen)


def _read(path: Path) -> EngineRules | None:
    try:
        text = read_file(path).decode()
        from .engine_rules import read_rules  # msgspec is imported where there is a file only

        return read_rules(text)
    except (OSError, ValueError) as error:
        log.warning("engine rules in %s are ignored: %s", path, error)
        return None


_watched = Watched(_read)
