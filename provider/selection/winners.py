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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...graph_api.files import write_file
from ...graph_api.frozen import FrozenGraph
from ...jit.cache.locks import key_lock
from ...jit.settings_table import Settings
from ...jit.target import Target, cpu_features
from ..registry import engines
from .candidate import Candidate, with_choice
from .files import Watched
from .match_key import match_keys

__all__ = [
    "Entry",
    "Winners",
    "machine_of",
    "ranked",
    "read_entries",
    "remember",
    "winners",
    "written",
]

log = logging.getLogger("hipdnn_iree.selection")

VERSION = 1
_LOCK_S = 10.0
_TIE = 1.02
"""Times this close whose quartiles overlap are the same."""
_STEADY = 1.05
"""Upper quartiles further above that of the fastest are of something unsteady."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One measurement.

    Attributes
    ----------
    graph : str
        Digest of the graph.
    target, machine : str
        Canonical spelling of the target; what the time was measured on (`machine_of`).
    engine : str
        Name of the engine.
    engine_id : int
    knobs : mapping of str to str
        Those that are not the engine's defaults.
    versions : mapping of str to str
        ``Engine.versions()`` at the time.
    median_us, low_us, high_us : float
        Median and quartiles of the time of one execution, in microseconds.
    samples : int
    estimated_us : float
        What the cost model said, before calibration; 0 when it was not asked.
    model : int
        Version of that model.
    when : str
        Time of the measurement, ISO 8601 in UTC.
    name : str
        Name of the graph, for people.
    rule : mapping
        ``op``, ``criteria`` and ``tensors`` of hipDNN's rules; empty where they have no such op.
    """

    graph: str
    target: str
    machine: str
    engine: str
    engine_id: int
    knobs: Mapping[str, str] = field(hash=False)
    versions: Mapping[str, str] = field(hash=False)
    median_us: float
    low_us: float
    high_us: float
    samples: int
    estimated_us: float = 0.0
    model: int = 0
    when: str = ""
    name: str = ""
    rule: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def of(
        cls,
        candidate: Candidate,
        quartiles: tuple[float, float, float],
        samples: int,
        *,
        estimated_us: float,
        model: int,
    ) -> Entry:
        """Return the entry of a candidate that was measured; times in microseconds."""
        graph, low, median, high = candidate.graph, *quartiles
        return cls(
            graph=graph.digest,
            target=str(candidate.target),
            machine=machine_of(candidate.target),
            engine=candidate.name,
            engine_id=candidate.engine.id,
            knobs=dict(candidate.choice),
            versions=candidate.engine.versions(),
            median_us=median,
            low_us=low,
            high_us=high,
            samples=samples,
            estimated_us=estimated_us,
            model=model,
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            name=graph.name,
            rule=_rule_of(graph),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form of what was measured."""
        names = ("engine", "engine_id", "knobs", "median_us", "low_us", "high_us", "samples")
        return {**{name: getattr(self, name) for name in names}, "when": self.when}

    @property
    def place(self) -> tuple[str, str, str]:
        """What it was measured for and on."""
        return self.graph, self.target, self.machine

    @property
    def key(self) -> tuple[object, ...]:
        """What it is found by, but for the versions: a newer one takes its place."""
        return (*self.place, self.engine_id, tuple(sorted(self.knobs.items())))


_TYPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("graph", "target", "machine", "engine", "when", "name"), str),
    **dict.fromkeys(("engine_id", "samples", "model"), int),
    **dict.fromkeys(("knobs", "versions", "rule"), dict),
    **dict.fromkeys(("median_us", "low_us", "high_us", "estimated_us"), (int, float)),
}
_NEEDED = frozenset(f.name for f in fields(Entry)) - {
    *("when", "name", "rule", "estimated_us", "model")
}


@lru_cache(maxsize=16)
def machine_of(target: Target) -> str:
    """Return what a time depends on besides the target: for a CPU its kind and how many."""
    if target.is_cpu:
        return f"cpu:{cpu_features()}:{len(os.sched_getaffinity(0))}"
    return str(target)


class Winners:
    """The entries of one state of the file."""

    def __init__(self, entries: Iterable[Entry], source: str = "", *, told: bool = False) -> None:
        self.entries = tuple(entries)
        self._source = source
        self._told = told
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
        if skipped and not self._told:
            self._told = True
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
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Winners(())
    except (OSError, ValueError) as error:
        log.warning("measured times in %s are ignored: %s", path, error)
        return Winners(())
    entries, trouble = read_entries(text)
    if trouble:
        log.warning("measured times in %s are skipped: %s", path, trouble)
    return Winners(entries, str(path), told=bool(trouble))


_watched = Watched(_read)


def read_entries(text: str) -> tuple[list[Entry], str]:
    """Return the sound entries of a file, and what is wrong with the rest of it."""
    try:
        data = json.loads(text)
    except ValueError as error:
        return [], f"the file is damaged ({error})"
    if not isinstance(data, dict) or not isinstance(data.get("entries"), list):
        return [], "the file is not one of measured times"
    if data.get("version") != VERSION:
        return [], f"the file is of version {data.get('version')!r}, not {VERSION}"
    found = [_entry(item) for item in data["entries"]]
    sound = [entry for entry in found if entry is not None]
    bad = len(found) - len(sound)
    return sound, f"{bad} of {len(found)} entries are damaged" if bad else ""


def _entry(item: Any) -> Entry | None:
    if not isinstance(item, dict) or not item.keys() >= _NEEDED:
        return None
    kept = {name: item[name] for name in _TYPES if name in item}
    sound = all(isinstance(v, _TYPES[n]) and not isinstance(v, bool) for n, v in kept.items())
    if not sound or not 0 < kept["median_us"] < 1e12:
        return None
    for name in ("knobs", "versions"):
        if not all(isinstance(v, str) for v in kept[name].values()):
            return None
    return Entry(**kept)


def remember(entries: Sequence[Entry], path: Path) -> None:
    """Store measurements in a file; what was known of the same graph, machine and engine gives way.

    A file that cannot be written is one warning: the times are lost with the process then.
    """
    places = {(entry.place, entry.engine_id) for entry in entries}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with key_lock(f"{path}.lock", _LOCK_S):
            kept = [e for e in winners(path).entries if (e.place, e.engine_id) not in places]
            write_file(path, written([*kept, *entries]).encode())
    except OSError as error:
        log.warning("measured times cannot be stored in %s: %s", path, error)


def written(entries: Sequence[Entry]) -> str:
    """Return the text of a file of some entries."""
    rows = ",\n".join(json.dumps(asdict(entry), sort_keys=True) for entry in entries)
    return f'{{"version": {VERSION}, "entries": [\n{rows}\n]}}\n'


def _rule_of(graph: FrozenGraph) -> dict[str, Any]:
    keys = match_keys(graph)
    if not keys:
        return {}
    return {
        "op": keys[0].op,
        "criteria": dict(keys[0].criteria),
        "tensors": [[t.id, list(t.dims), list(t.strides)] for t in keys[0].tensors],
    }
