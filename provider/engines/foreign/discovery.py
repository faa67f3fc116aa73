# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which plugins of others there are, by hipDNN's rules, and the engines that they give.

Folders: ``hipdnn_plugins/engines`` beside the hipDNN backend, which HIPDNN_PLUGIN_DIR replaces,
and what the setting ``foreign.plugins`` names.  Files are taken in the order of their paths; of
two plugins with one engine id the first one wins.  Nothing is loaded here: what a plugin is, a
probe process finds out (`probe`), once for each state of the file.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from ....graph_api.errors import Decline, HipdnnIreeError, NotSupportedError, Problem
from ....jit.lru import LruCache
from ....jit.settings import foreign
from ....jit.settings_table import Settings
from ....jit.trust import unsafe_path
from ...engine_ids import engine_id
from ...registry import own_engines
from .foreign_rules import problem
from .plugin_engine import ForeignEngine
from .probe import look
from .probe_report import Report

__all__ = [
    "BACKEND",
    "Candidate",
    "backends",
    "candidates",
    "engines",
    "open_plugin",
    "reports",
    "state",
]

log = logging.getLogger("hipdnn_iree.foreign")

BACKEND = "libhipdnn_backend.so"
_ENGINES = Path("hipdnn_plugins", "engines")
_VARIABLES = ("HIPDNN_PLUGIN_DIR", "LD_LIBRARY_PATH", "ROCM_PATH")

# Engines that have told no name when their plugin was young; hipDNN's EngineIdDesign lists them.
_KNOWN = (
    *("MIOPEN_ENGINE", "MIOPEN_ENGINE_DETERMINISTIC", "HIPBLASLT_ENGINE", "HIP_MLOPS_ENGINE"),
    *("ASM_SDPA_ENGINE", "ROCKE_ENGINE", "FUSILLI_ENGINE", "AOT_CATALOG_ENGINE"),
    *("MIOPEN_PLUGIN", "IREE_JIT_ENGINE"),
)


class Candidate(NamedTuple):
    """A file that may be a plugin: its path with links resolved, or why it is none."""

    path: Path
    problem: Problem | None = None


def backends(settings: Settings) -> list[Path]:
    """Return every hipDNN backend that a program here could load, in the order of the search."""
    chosen = settings.foreign_backend
    if chosen is not None:
        return [chosen] if os.path.exists(chosen) else []
    given = foreign("LD_LIBRARY_PATH", "ROCM_PATH")
    places = [Path(part) for part in given["LD_LIBRARY_PATH"].split(":") if part]
    if given["ROCM_PATH"]:
        places.append(Path(given["ROCM_PATH"], "lib"))
    places += [Path("/opt/rocm/lib"), *sorted(Path("/opt").glob("rocm-*/lib"))]
    places += [Path(p, d, "lib") for p in sys.path for d in ("torch", "_rocm_sdk_core") if p]
    found = [place / BACKEND for place in places if os.path.exists(place / BACKEND)]
    return list(map(Path, dict.fromkeys(map(os.path.realpath, found))))


def folders(settings: Settings, every: bool = False) -> list[Path]:
    """Return hipDNN's plugin folder; with ``every`` that of each hipDNN that is installed."""
    chosen = foreign("HIPDNN_PLUGIN_DIR")["HIPDNN_PLUGIN_DIR"]
    if chosen:
        return [Path(chosen)]
    found = [backend.parent / _ENGINES for backend in backends(settings)]
    return found if every else found[:1]


def candidates(settings: Settings, *, hipdnn_only: bool = False) -> list[Candidate]:
    """Return the files that may be plugins, in the order in which they are loaded.

    With ``hipdnn_only`` those in hipDNN's folder, whatever our settings say.
    """
    if settings.foreign_mode == "off" and not hipdnn_only:
        return []
    wanted: list[Path] = [] if hipdnn_only else list(settings.foreign_plugins)
    if settings.foreign_mode == "additive" or hipdnn_only:
        wanted += [folder for folder in folders(settings) if os.path.isdir(folder)]
    found: dict[Path, Candidate] = {}
    for path in wanted:
        for one in _of(path):
            found.setdefault(one.path, one)  # found under two names, it is loaded once
    return [found[path] for path in sorted(found)]


def _of(path: Path) -> Iterable[Candidate]:
    """Return what a file or folder gives."""
    if os.path.isdir(path):
        try:
            inside = sorted(path.iterdir())
        except OSError as error:
            yield Candidate(path, problem("FOREIGN-01", "folder", error, "a folder to read"))
            return
        for file in inside:
            # A link's own name makes it a candidate, the name of what it leads to decides.
            if file.suffix == ".so":
                yield _file(file)
        return
    if not path.suffix:  # as hipDNN completes a name
        path = path.with_name(f"lib{path.name}.so")
    yield _file(path)


def _file(path: Path) -> Candidate:
    real = Path(os.path.realpath(path))
    if not os.path.isfile(real):
        got = "no file" if not os.path.exists(real) else "no regular file"
        return Candidate(real, problem("FOREIGN-01", str(path), got, "a regular file"))
    if real.suffix != ".so":
        got = f"a file that ends as {real.name}"
        hint = "hipDNN does not load it either: put the file itself there, not a link to it"
        return Candidate(real, problem("FOREIGN-01", str(path), got, "a name in .so", hint))
    if reason := unsafe_path(real):
        wanted = "a library that only you may write"
        return Candidate(real, problem("FOREIGN-12", str(path), reason, wanted))
    return Candidate(real)


def reports(settings: Settings, *, again: bool = False) -> list[Report]:
    """Return what is known of each file; ``again`` asks all plugins anew.

    Plugins that were never met are asked in processes of their own, one after another.
    """
    if again:
        _made.clear()
    found: list[Report] = []
    owners = _owners(settings)
    for path, wrong in candidates(settings):
        problems = (wrong,) if wrong else ()
        report = Report(path=str(path), problems=problems)
        if not problems:
            try:
                report = look(path, settings, again=again)
            except (OSError, HipdnnIreeError) as error:
                failed = problem("FOREIGN-04", "probe", error, "a probe process")
                report = Report(path=str(path), problems=(failed,))
        found.append(_without_taken(report, owners))
    return found


def _owners(settings: Settings) -> dict[int, str]:
    """Return who has which engine id before any plugin is met: our own engines."""
    names = (entry.name for entry in own_engines(settings).values())
    return {engine_id(name): f"hipdnn-iree's own {name}" for name in names}


def _without_taken(report: Report, owners: dict[int, str]) -> Report:
    """Return the report without the engines whose ids belong to others; owners are noted."""
    if not report.usable:
        return report
    taken = [e for e in report.engines if e.id in owners]
    kept = tuple(e for e in report.engines if e.id not in owners)
    owners.update((e.id, report.path) for e in kept)
    if not taken:
        return report
    more = tuple(
        problem(
            "FOREIGN-07",
            f"engine {e.id % 2**64:#018x}",
            f"an id of {owners[e.id]}",
            "an id that nobody has",
        )
        for e in taken
    )
    return replace(report, engines=kept, usable=bool(kept), problems=(*report.problems, *more))


# ------------------------------------------------------------------ engines


_made: LruCache[tuple[ForeignEngine, ...]] = LruCache(4)
"""The engines, by what decides which ones there are."""


def engines(settings: Settings) -> tuple[ForeignEngine, ...]:
    """Return the engines of all plugins that can be used.

    The same objects come back, after a few looks at folders, as long as nothing has changed.
    """
    return _made.get((settings, state(settings)), lambda: _engines(reports(settings), settings))


def state(settings: Settings) -> object:
    """Return what decides which engines there are: settings, variables, times of files."""
    given = foreign(*_VARIABLES)
    if settings.foreign_mode == "off":
        return None
    stamps = []
    known = _places(tuple(given.items()), settings)
    for path in (*settings.foreign_plugins, *known):
        try:
            about = os.stat(path)
        except OSError:
            stamps.append((0, 0))
        else:
            stamps.append((about.st_mtime_ns, about.st_size))
    return tuple(given.items()), tuple(stamps)


@lru_cache(maxsize=8)
def _places(given: tuple[tuple[str, str], ...], settings: Settings) -> tuple[Path, ...]:
    """Return hipDNN and its folder; looked for once for each set of variables."""
    return (*backends(settings)[:1], *folders(settings))


def _engines(found: Iterable[Report], settings: Settings) -> tuple[ForeignEngine, ...]:
    made: list[ForeignEngine] = []
    taken = _aliases(settings)
    for report in found:
        for wrong in report.problems:
            log.info("%s: %s", report.path, wrong)
        if not report.usable:
            first = report.problems[0] if report.problems else "it has no engines"
            if not all(p.rule == "FOREIGN-07" for p in report.problems):
                log.warning("engine plugin %s is skipped: %s", report.path, first)
            continue
        made += _of_report(report, taken, settings)
    return tuple(made)


def _aliases(settings: Settings) -> dict[str, None]:
    own = own_engines(settings)
    return dict.fromkeys((*own, *(entry.name for entry in own.values())))


def _of_report(report: Report, taken: dict[str, None], settings: Settings) -> list[ForeignEngine]:
    made = []
    for one in report.engines:
        name = one.name or _known().get(one.id) or _numbered(report, one.id)
        alias = name.lower().removesuffix("_engine")
        alias = alias if alias not in taken else name
        taken |= {name: None, alias: None}
        made.append(ForeignEngine(report, one.id, name, alias, settings))
    return made


@cache
def _known() -> Mapping[int, str]:
    return {engine_id(name): name for name in _KNOWN}


def _numbered(report: Report, id: int) -> str:
    """Return a name for an engine without one."""
    plugin = re.sub(r"[^A-Za-z0-9_.-]+", "_", report.name).strip("_") or Path(report.path).stem
    return f"{plugin}:{id if abs(id) < 1 << 32 else hex(id % 2**64)}"


def open_plugin(
    path: str | Path, settings: Settings, *, again: bool = False
) -> tuple[ForeignEngine, ...]:
    """Return the engines of one plugin, wherever it is and whoever else has their ids.

    Parameters
    ----------
    path : str or Path
    settings : Settings
    again : bool
        Ask the plugin even if its answers are remembered.

    Raises
    ------
    NotSupportedError
        If it is no plugin, or breaks rules when it is asked in a probe process.
    """
    file = _file(Path(path))
    wrong: tuple[Problem, ...] = (file.problem,) if file.problem else ()
    if not wrong:
        report = look(file.path, settings, again=again)
        if report.usable:
            return tuple(_of_report(report, {}, settings))
        wrong = report.problems
    reasons = [Decline(engine=Path(path).name, problem=p) for p in wrong]
    raise NotSupportedError(f"{path} cannot be used as an engine plugin", reasons)
