# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Selection, engines and their times under the settings that hold where a test calls them.

The package takes settings as an argument; a test says which by its scope and its environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hipdnn_iree.jit.settings import settings
from hipdnn_iree.provider import registry
from hipdnn_iree.provider.engine import Engine
from hipdnn_iree.provider.engines.foreign import discovery, probe
from hipdnn_iree.provider.plan import Plan
from hipdnn_iree.provider.registry import Entry
from hipdnn_iree.provider.selection import (
    autotune,
    exchange,
    policies,
    select,
    winner_entry,
    winners,
)
from hipdnn_iree.provider.selection.candidate import Candidate
from hipdnn_iree.provider.sweep import contestants


def engine(name: str) -> Engine:
    return registry.engine(name, settings())


def engines() -> Mapping[str, Entry]:
    return registry.engines(settings())


def own_engines() -> Mapping[str, Entry]:
    return registry.own_engines(settings())


def build(graph: Any, target: Any, **how: Any) -> Plan:
    return select.build(graph, target, settings(), **how)


def candidates(graph: Any, target: Any, **how: Any) -> list[Candidate]:
    return select.candidates(graph, target, settings(), **how)


def choose(graph: Any, target: Any, **how: Any) -> Candidate:
    return select.choose(graph, target, settings(), **how)


def ranking(graph: Any, target: Any, **how: Any) -> tuple[Candidate, ...]:
    return select.ranking(graph, target, settings(), **how)


def policy_names(given: str | None = None) -> tuple[str, ...]:
    return policies.policy_names(given, settings())


def tune(graph: Any, target: Any, **how: Any) -> autotune.TuneResult:
    return autotune.tune(graph, target, settings(), **how)


def known_times() -> winners.Winners:
    return winners.winners(settings().engine_winners)


def remember(entries: Sequence[winner_entry.Entry]) -> None:
    winners.remember(entries, settings().engine_winners)


def export(path: Path, **how: Any) -> int:
    return exchange.export(path, settings().engine_winners, **how)


def import_file(path: Path) -> int:
    return exchange.import_file(path, settings().engine_winners)


def contestant(name: str) -> contestants.Contestant:
    return contestants.contestant(name, settings())


def plugin_files(**how: Any) -> list[discovery.Candidate]:
    return discovery.candidates(settings(), **how)


def plugin_engines() -> tuple[Engine, ...]:
    return discovery.engines(settings())


def plugin_reports(**how: Any) -> list[Any]:
    return discovery.reports(settings(), **how)


def open_plugin(path: Any, **how: Any) -> tuple[Any, ...]:
    return discovery.open_plugin(path, settings(), **how)


def look(path: Path, **how: Any) -> Any:
    return probe.look(path, settings(), **how)
