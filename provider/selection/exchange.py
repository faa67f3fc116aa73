# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Winners that go elsewhere: to an equal machine, or to hipDNN as engine override rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...graph_api.errors import FormatError, SettingError
from ...graph_api.files import write_file
from .engine_rules import EngineRule, TensorPattern, rules_text
from .winner_entry import Entry
from .winners import read_entries, remember, winners, written

__all__ = ["export", "import_file"]

_FORMS = ("winners", "hipdnn")


def export(path: Path, winners_file: Path, *, form: str = "winners") -> int:
    """Write what is remembered to a file, and return how many entries or rules.

    Parameters
    ----------
    path : Path
    winners_file : Path
        Where it is remembered (the setting ``engine.winners``).
    form : {"winners", "hipdnn"}
        All measurements, for `import_file`; or the winners as rules that hipDNN reads
        (``HIPDNN_HEUR_CONFIG_PATH``).  Graphs that hipDNN cannot tell apart share a rule, the
        newest one; those of ops that its rules do not know have none.

    Raises
    ------
    OSError
        If the file cannot be written.
    SettingError
        If there is no such form.
    """
    if form not in _FORMS:
        raise SettingError(f"unknown form {form!r}; known: {', '.join(_FORMS)}")
    known = winners(winners_file).entries
    if form == "winners":
        _write(path, written(known))
        return len(known)
    best: dict[tuple[str, str, str], Entry] = {}
    for entry in known:
        have = best.get(entry.place)
        if have is None or entry.median_us < have.median_us:
            best[entry.place] = entry
    rules: dict[object, EngineRule] = {}
    for entry in sorted(best.values(), key=lambda e: e.when):
        if (match := entry.rule).op:
            key = (match.op, tuple(sorted(match.criteria.items())), match.tensors)
            rules[key] = _rule(entry)
    _write(path, rules_text(list(rules.values())) + "\n")
    return len(rules)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, text.encode())


def import_file(path: Path, winners_file: Path) -> int:
    """Add the measurements of an exported file to those remembered, and return how many.

    Raises
    ------
    FormatError
        If the file is damaged or of another kind; nothing is added then.
    OSError
        If it cannot be read.
    """
    entries, trouble = read_entries(path.read_text(encoding="utf-8", errors="replace"))
    if trouble:
        raise FormatError(f"{path}: {trouble}")
    remember(entries, winners_file)
    return len(entries)


def _rule(entry: Entry) -> EngineRule:
    knobs = [{"knob_id": k, "type": "string", "value": v} for k, v in entry.knobs.items()]
    return EngineRule(
        op=entry.rule.op,
        engine_name=entry.engine,
        criteria=entry.rule.criteria,
        tensors=tuple(
            TensorPattern(tensor_id=id, dim=dims, stride=strides)
            for id, dims, strides in entry.rule.tensors
        ),
        autotune_metadata={**_metadata(entry), **({"knobs": knobs} if knobs else {})},
    )


def _metadata(entry: Entry) -> dict[str, Any]:
    return {
        "rank": 0,
        "min_time_ms": entry.low_us / 1e3,
        "avg_time_ms": entry.median_us / 1e3,
        "stddev_ms": (entry.high_us - entry.low_us) / 1.349 / 1e3,  # of a normal distribution
        "iterations_run": entry.samples,
        "mode": "standard",
        "strategy": "interleaved_median",
        "device": entry.target,
        "timestamp": entry.when,
    }
