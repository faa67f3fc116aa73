# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What was measured, remembered across processes: the file of winners.

One entry is one measured (engine, knobs) for one graph on one machine: found by the graph's
digest, the target, the machine, the engine's id, its knobs and the versions that the time depends
on; never by an index.  The fastest entry that still fits is the winner, so a winner whose engine
is gone or has changed gives way to the next one.  What cannot be used is skipped with one warning
for each state of the file; nothing of it is ever an error.
"""

from __future__ import annotations

import json
import logging
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...graph_api.arguments import shown
from ...graph_api.files import read_file, write_file
from ...graph_api.frozen import FrozenGraph
from ...jit.cache.locks import key_lock
from ...jit.settings_table import Settings
from ...jit.target import Target
from ...jit.trust import make_private
from ..registry import engines
from .candidate import Candidate, with_choice
from .files import Watched
from .peaks import machine_of

if TYPE_CHECKING:
    from .winner_entry import Entry

__all__ = ["Winners", "ranked", "read_entries", "remember", "winners", "written"]

log = logging.getLogger("hipdnn_iree.selection")

_LOCK_S = 10.0
_TIE = 1.02
"""Times this close whose quartiles overlap are the same."""
_STEADY = 1.05
"""Upper quartiles further above that of the fastest are of something unsteady."""


class Winners:
    """The entries of one state of the file; a `foreign` one has none that can be read."""

    def __init__(
        self,
        entries: Iterable[Entry],
        source: str = "",
        *,
        warned: bool = False,
        foreign: bool = False,
    ) -> None:
        self.foreign = foreign
        self.entries = tuple(entries)
        self._source = source
        self._warned = warned
        self._at: dict[tuple[str, str, str], list[Entry]] = {}
        for entry in self.entries:
            self._at.setdefault(entry.place, []).append(entry)

    def engine_ids(self, graph: FrozenGraph, target: Target) -> set[int]:
        """Return the engines that a graph was measured on."""
        known = self._at.get((graph.digest, str(target), machine_of(target)), ())
        return {entry.engine_id for entry in known}

    def ratios(self, target: str, machine: str, engine_id: int, model: int) -> list[float]:
        """Return measured over estimated times of an engine: of each graph its fastest entry."""
        best: dict[str, Entry] = {}
        for e in self.entries:
            if (e.target, e.machine, e.engine_id, e.model) == (target, machine, engine_id, model):
                have = best.get(e.graph)
                if e.estimated_us > 0 and (have is None or e.median_us < have.median_us):
                    best[e.graph] = e
        return [e.median_us / e.estimated_us for e in best.values()]

    def usable(
        self,
        graph: FrozenGraph,
        target: Target,
        candidates: Sequence[Candidate],
        settings: Settings,
    ) -> list[tuple[Entry, Candidate]]:
        """Return what is known of a graph, the fastest first, each with its candidate.

        The candidate has the entry's knobs as its choice.  Entries of engines that are not
        among the candidates, of other versions, or with knobs that are no more, are left out.
        """
        found: list[tuple[Entry, Candidate]] = []
        skipped: Counter[str] = Counter()
        by_id = {c.engine.id: c for c in candidates}
        for entry in self._at.get((graph.digest, str(target), machine_of(target)), ()):
            candidate = by_id.get(entry.engine_id)
            if candidate is None:
                if not _is_here(entry.engine_id, settings):
                    skipped[f"engine {entry.engine} is not here"] += 1
                continue
            if entry.versions != candidate.engine.versions():
                skipped[f"{entry.engine} was measured in other versions"] += 1
                continue
            choice = with_choice(candidate, entry.knobs)
            if choice is None:
                if not candidate.choice:  # it is not the caller's own choice that is in the way
                    skipped[f"{entry.engine} has no such knobs any more"] += 1
                continue
            found.append((entry, candidate.chosen_by(candidate.policy, choice)))
        if skipped and not self._warned:
            self._warned = True
            text = "; ".join(f"{n} because {why}" for why, n in skipped.items())
            log.warning("measured times in %s are skipped: %s", self._source or "a file", text)
        return ranked(found, candidates)


def ranked(
    found: Sequence[tuple[Entry, Candidate]], candidates: Sequence[Candidate]
) -> list[tuple[Entry, Candidate]]:
    """Return measured candidates, the fastest first.

    Times count with the ``MARGIN`` of their engine.  Of those that the measurement cannot tell
    from the fastest, the first is the one with the fewest knobs, then the one whose engine comes
    first: a winner by luck is none.  What has slow quarters that the fastest has not is no tie.
    """

    def weighed(pair: tuple[Entry, Candidate]) -> float:
        return pair[0].median_us * pair[1].engine.MARGIN

    rest = sorted(found, key=weighed)
    if not rest:
        return []
    best = rest[0][0]
    place = {c.engine.id: i for i, c in enumerate(candidates)}
    ties = [
        pair
        for pair in rest
        if weighed(pair) <= _TIE * weighed(rest[0])
        and pair[0].low_us <= best.high_us
        and pair[0].high_us <= _STEADY * best.high_us
    ]
    first = min(ties, key=lambda pair: (len(pair[0].knobs), place[pair[0].engine_id]))
    return [first, *(pair for pair in rest if pair is not first)]


def _is_here(number: int, settings: Settings) -> bool:
    return any(entry.load().id == number for entry in engines(settings).values())


def winners(path: Path) -> Winners:
    """Return what a file (the setting ``engine.winners``) says now."""
    return _watched(path)


def _read(path: Path) -> Winners:
    try:
        text = read_file(path).decode()
    except (FileNotFoundError, NotADirectoryError):  # what is in the way is told by the cache
        return Winners(())
    except (OSError, ValueError) as error:
        log.warning("measured times in %s are ignored: %s", path, error)
        return Winners((), foreign=isinstance(error, ValueError))
    entries, trouble = read_entries(text)
    if trouble:
        log.warning("measured times in %s are skipped: %s", path, trouble)
    return Winners(entries, str(path), warned=bool(trouble), foreign=bool(trouble) and not entries)


_watched = Watched(_read)


def read_entries(text: str) -> tuple[list[Entry], str]:
    """Return the sound entries of a file, and what is wrong with the rest of it."""
    from msgspec.json import decode  # imported where there is a file only

    from .winner_entry import VERSION, Entry, WinnersFile

    try:
        return decode(text, type=WinnersFile).entries, ""
    except (ValueError, RecursionError):
        pass  # entry by entry

    def entry(item: Any) -> Entry | None:
        try:
            return decode(json.dumps(item), type=Entry)
        except (ValueError, RecursionError):
            return None

    try:
        # Python reads NaN, of which msgspec refuses the whole file: that costs one entry here.
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        return [], f"the file is damaged ({error})"
    if not isinstance(data, dict) or not isinstance(data.get("entries"), list):
        return [], "the file is not one of measured times"
    if data.get("version") != VERSION:
        return [], f"the file is of version {shown(data.get('version'))}, not {VERSION}"
    found = [entry(item) for item in data["entries"]]
    sound = [one for one in found if one is not None]
    return sound, f"{len(found) - len(sound)} of {len(found)} entries are damaged"


def remember(entries: Sequence[Entry], path: Path) -> None:
    """Store measurements in a file; what was known of the same graph, machine and engine gives way.

    A file that cannot be written is one warning: the times are lost with the process then.
    """
    places = {(entry.place, entry.engine_id) for entry in entries}
    try:
        make_private(path.parent)
        with key_lock(f"{path}.lock", _LOCK_S):
            known = winners(path)
            if known.foreign:  # of a later version, or what somebody may want to look at
                os.replace(path, f"{path}.old")
            kept = [e for e in known.entries if (e.place, e.engine_id) not in places]
            write_file(path, written([*kept, *entries]).encode(), devices=False)
    except OSError as error:
        log.warning("measured times cannot be stored in %s: %s", path, error)


def written(entries: Sequence[Entry]) -> str:
    """Return the text of a file of some entries."""
    from msgspec import to_builtins

    from .winner_entry import VERSION

    rows = ",\n".join(json.dumps(to_builtins(entry), sort_keys=True) for entry in entries)
    return f'{{"version": {VERSION}, "entries": [\n{rows}\n]}}\n'
