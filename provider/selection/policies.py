# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The policies that rank engines, by name, and hipDNN's names for them.

A policy is a function from what is asked (`Asked`) to the candidates in order of preference, each
with its choice of knobs and the reason; or None when it has no opinion.  The first policy of the
list with an opinion decides, and engines that it leaves out are not used.  There is no order
behind the list: where every policy declines, so does the selection, as in hipDNN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

from ...graph_api.arguments import suggestion
from ...graph_api.errors import NotSupportedError, SettingError
from ...jit.settings_table import Settings
from ..engine_ids import engine_id
from .candidate import Asked, Candidate

__all__ = ["DEFAULT", "HIPDNN_NAMES", "POLICIES", "policy_names", "rank", "unmeasured"]


Policy = Callable[[Asked], "Sequence[Candidate] | None"]

# name -> (module, function, what it does)
POLICIES: dict[str, tuple[str, str, str]] = {
    "config": ("config", "policy", "rules of hipDNN's engine override file, first match first"),
    "tuned": ("tuned", "policy", "the fastest as measured earlier; measures nothing itself"),
    "heuristic": ("heuristic", "policy", "the fastest by a cost model of op, shape and target"),
    "benchmark": (
        "tuned",
        "benchmark_policy",
        "as tuned; measures each engine, without knobs, on graphs that are not known yet",
    ),
    "autotune": ("tuned", "autotune_policy", "as tuned; measures graphs that are not known yet"),
    "order": ("order", "policy", "a fixed order of engines"),
}

DEFAULT = ("config", "tuned", "order")

_MEASURE = ("benchmark", "autotune")

HIPDNN_NAMES = {
    "SelectionHeuristic::Config": "config",
    "SelectionHeuristic::StaticOrdering": "order",
    "SelectionHeuristic::ModeA": "heuristic",
    "SelectionHeuristic::ModeB": "heuristic",
}
"""hipDNN's built-in policies; its two prediction modes are estimates of time, as ours is."""

_BY_ID = {str(engine_id(name)): ours for name, ours in HIPDNN_NAMES.items()}


def policy_names(given: str | None, settings: Settings) -> tuple[str, ...]:
    """Return the policies to ask, in order.

    Parameters
    ----------
    given : str or None
        Names separated by commas; else the settings decide, and else `DEFAULT`.
    settings : Settings

    Raises
    ------
    SettingError
        If a name is unknown; the text lists those that are known.
    """
    if given is not None:
        return tuple(_known(word, "policy") for word in given.replace(",", " ").split()) or DEFAULT
    if settings.engine_policy:
        return tuple(_known(word, "HIPDNN_IREE_POLICY") for word in settings.engine_policy)
    if settings.engine_policy_order:
        # Policies of hipDNN's heuristic plugins are not ours to run: hipDNN skips unknown ones.
        return tuple(o for w in settings.engine_policy_order if (o := _of_hipdnn(w))) or DEFAULT
    return DEFAULT


def unmeasured(given: str | None, settings: Settings) -> str | None:
    """Return the policies with ``heuristic`` for those that measure.

    For who only asks whether a graph is served, as of parts of a larger one.
    """
    names = policy_names(given, settings)
    if not set(_MEASURE) & set(names):
        return given
    return ",".join("heuristic" if name in _MEASURE else name for name in names)


def _known(word: str, where: str) -> str:
    name = word.lower() if word.lower() in POLICIES else _of_hipdnn(word)
    if not name:
        raise SettingError(
            f"{where} names {word!r}, which is no policy{suggestion(word, POLICIES)}; "
            f"known: {', '.join(POLICIES)}"
        )
    return name


def _of_hipdnn(word: str) -> str:
    short = {name.rpartition(":")[2]: ours for name, ours in HIPDNN_NAMES.items()}
    return HIPDNN_NAMES.get(word) or short.get(word) or _BY_ID.get(word, "")


def rank(asked: Asked, names: Sequence[str]) -> tuple[Candidate, ...]:
    """Return the candidates as the first policy with an opinion ranks them; never empty.

    Raises
    ------
    NotSupportedError
        If no policy of the list has an opinion.
    """
    for name in names:
        module, function, _ = POLICIES[name]
        policy: Policy = getattr(import_module(f".{module}", __package__), function)
        found = policy(asked)
        if found is not None:
            return tuple(found)
    served = ", ".join(c.name for c in asked.candidates)
    raise NotSupportedError(
        f"graph {asked.graph.name!r} is served by {served}, but no policy of "
        f"{','.join(names)} chooses one; add 'order' to the policies, or pin an engine"
    )
