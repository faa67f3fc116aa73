# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is served, compiled and emulated, by op, data type and target: the data of a page.

The JSON form (``docs/reference/support.json``)::

    {"about": {...}, "ops": {op: {data type: {target: entry}}}}

with in each entry

- ``samples``, ``served``, ``declined`` (rule to number): of all sample problems; nothing is
  compiled for that;
- ``compiled``: samples that were compiled (and on the CPU run and verified), with ``failed``
  (sample to reason), ``seconds`` (the slowest), ``dispatches``, ``spills``, ``mfma`` (the most) and
  ``ir``, a digest of what was compiled;
- ``emulated``: ``ok`` (number), ``wrong`` (samples), ``not`` (reason to number), only gfx9.

The file leaves out what is empty, `loads` puts it back.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from hipdnn_iree.graph_api.ops import OPS
from hipdnn_iree.jit.cache import versions
from hipdnn_iree.jit.pipeline import made_with
from hipdnn_iree.provider.sweep.json_text import json_lines
from hipdnn_iree.provider.sweep.row import FAILED, Header, Row
from hipdnn_iree.provider.sweep.samples import sample_problems
from hipdnn_iree.provider.sweep.serving import TARGETS, Served, serving

__all__ = [
    "Table",
    "accused",
    "compiled_entry",
    "dumps",
    "emulated_entry",
    "failed",
    "loads",
    "merged",
    "of_samples",
    "served_entry",
    "stale",
    "uncompiled",
]

Table = dict[str, dict[str, dict[str, dict[str, Any]]]]

_NOT_EMULATED = "hipErrorNotSupported"
_ACCUSATIONS = (
    "race on ",
    "missing s_waitcnt",
    "is outside every allocation",
    "is read-only",
    "is beyond its ",
)
"""What errors say of a kernel that does what no kernel may, not of what is not emulated."""


def of_samples(rows: Iterable[Row]) -> tuple[list[Row], int]:
    """Return the rows of sample problems as they are now, and how many others there are."""
    rows = list(rows)
    wanted = {(row.case, row.dtype) for row in rows}
    digests = {
        key: case.graph(kind).freeze().digest
        for case in sample_problems()
        for kind in case.dtypes
        for name in (f"{case.name} {kind.json}", case.name)
        if (key := (name, kind.json)) in wanted
    }
    mine = [
        row
        for row in rows
        if row.engine == "iree"
        and row.target in TARGETS
        and digests.get((row.case, row.dtype)) == row.digest
    ]
    return mine, len(rows) - len(mine)


def accused(row: Row) -> bool:
    """Whether emulation found a race, a missing wait, or an access to memory of nobody."""
    return row.emulated and any(part in row.log for part in _ACCUSATIONS)


def failed(row: Row) -> bool:
    """Whether the code of a sample could not be made, or is wrong."""
    return row.status in FAILED


def merged(before: Mapping[str, Any], headers: Sequence[Header], rows: Iterable[Row]) -> Any:
    """Return a table with what is new; entries without a row stay, but for what the rules say.

    Parameters
    ----------
    before : mapping
        The table, as `loads` returns it.
    headers : sequence of Header
        Of the runs that the rows are from, the last one of each.
    rows : iterable of Row
    """
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.case.partition(".")[0], row.dtype, row.target), []).append(row)
    ops: Table = {}
    for op, by_type in serving():
        for data_type, by_target in by_type.items():
            for target, served in by_target.items():
                entry = before["ops"].get(op, {}).get(data_type.json, {}).get(target, {})
                mine = found.get((op, data_type.json, target), [])
                fresh = compiled_entry(mine) if mine else {}
                if fresh and fresh["ir"] != entry.get("ir"):
                    entry = {}  # what was emulated is no longer what is compiled
                known = {name: fact for name, fact in fresh.items() if fact is not None}
                kept = {**compiled_entry(()), **entry, **known, **served_entry(served)}
                if any(map(_tried, mine)):
                    kept["emulated"] = emulated_entry(mine)
                ops.setdefault(op, {}).setdefault(data_type.json, {})[target] = kept
    about = {"sources": made_with()["lowering"][:16], "limit_s": 0, **before["about"], **versions()}
    for header in headers:
        about["sources"] = str(header.versions["lowering"])[:16]
        about["limit_s"] = header.options["timeout_s"]
    return {"about": about, "ops": ops}


def served_entry(found: Served) -> dict[str, Any]:
    """Return what an entry says about the rules."""
    return {
        "samples": found.samples,
        "served": found.served,
        "declined": {rule: len(names) for rule, names in sorted(found.declined.items())},
    }


def compiled_entry(rows: Iterable[Row]) -> dict[str, Any]:
    """Return what an entry says about compilation; on the CPU, where it runs, what is right."""
    tried = sorted((r for r in rows if r.status != "declined"), key=lambda r: r.case)
    good = [r for r in tried if r.code and (r.status == "ok" or r.target != "cpu")]
    bad = [r for r in tried if r not in good]
    codes = [r.code for r in good if r.code]
    seconds = [r.compile.total_s for r in good if r.compile and r.compile.cache == "miss"]
    irs = "".join(r.code.ir for r in tried if r.code)

    def most(what: str) -> Any:
        values = (getattr(one, what) for one in codes)
        return max((value for value in values if value is not None), default=None)

    return {
        "compiled": len(good),
        "failed": {_sample(r): f"{r.status}: {r.detail}" for r in bad},
        "seconds": round(max(seconds), 2) if seconds else None,
        "dispatches": most("dispatches"),
        "spills": most("spills"),
        "mfma": most("mfma"),
        "ir": sha256(irs.encode()).hexdigest()[:16] if tried else "",
    }


def _sample(row: Row) -> str:
    return row.case.removesuffix(f" {row.dtype}")


def _tried(row: Row) -> bool:
    """Whether emulation was tried, even if it lacks an instruction."""
    return row.emulated or _NOT_EMULATED in row.log


def emulated_entry(rows: Iterable[Row]) -> dict[str, Any]:
    """Return what an entry says about emulation."""
    tried = [r for r in rows if _tried(r)]
    right = [r for r in tried if r.emulated and r.status == "ok"]
    wrong = [r for r in tried if r.status == "wrong"]
    without = [r.log or r.detail for r in tried if r not in right and r not in wrong]
    return {
        "ok": len(right),
        "wrong": sorted(map(_sample, wrong)),
        "not": dict(sorted(Counter(map(_reason, without)).items())),
    }


# Part of the emulator's message -> why in short.
_REASONS = {
    "race on ": "race",
    "missing s_waitcnt": "missing wait",
    "outside every allocation": "access to memory of nobody",
    "no end within": "time limit",
    "instructions, the limit": "instruction limit",
}
_INSTRUCTION = re.compile(r" at 0x[0-9a-f]+, (\w+): ")


def _reason(note: str) -> str:
    """Return why something was not emulated, without what differs from case to case."""
    for part, short in _REASONS.items():
        if part in note:
            return short
    found = _INSTRUCTION.search(note)
    return f"instruction {found[1]}" if found else "other"


def loads(text: str) -> dict[str, Any]:
    """Return a table from its JSON text, with all keys in each entry."""
    data: dict[str, Any] = json.loads(text)
    return {**data, "ops": _mapped(data["ops"], _filled)}


def dumps(data: Mapping[str, Any]) -> str:
    """Return the JSON text of a table, a data type of an op a line, without what is empty."""
    return json_lines({**data, "ops": _mapped(data["ops"], _stripped)}, 3) + "\n"


def _mapped(ops: Table, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Table:
    return {
        op: {t: {where: change(e) for where, e in by.items()} for t, by in by_type.items()}
        for op, by_type in ops.items()
    }


def _filled(entry: dict[str, Any]) -> dict[str, Any]:
    found = {**compiled_entry(()), "declined": {}, **entry}
    if "emulated" in entry:
        found["emulated"] = {**emulated_entry(()), **entry["emulated"]}
    return found


def _stripped(entry: dict[str, Any]) -> dict[str, Any]:
    emulated = {key: value for key, value in entry.get("emulated", {}).items() if value}
    found = {**entry, "emulated": emulated}
    return {key: value for key, value in found.items() if value or value == 0}


def stale(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield in what a table does not say what the rules say now; numbers of samples may differ."""
    entries = table["ops"]
    for op in sorted(set(entries) - set(OPS)):
        yield f"{op} is no op any more"
    for op, by_type in serving():
        if set(entries.get(op, {})) != {t.json for t in by_type}:
            yield f"{op}: the data types are {', '.join(t.json for t in by_type) or 'none'}"
            continue
        for data_type, by_target in by_type.items():
            for target in TARGETS:
                entry, now = entries[op][data_type.json].get(target), by_target[target]
                where = f"{op} {data_type.json} {target}"
                if entry is None:
                    yield f"{where} is missing"
                elif set(entry["declined"]) != set(now.declined):
                    yield f"{where} is declined by {', '.join(sorted(now.declined)) or 'no rule'}"
                elif bool(entry["served"]) != bool(now.served):
                    yield f"{where}: {now.served} samples are served"


def uncompiled(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is served and was not compiled since its entry was made."""
    for op, by_type in table["ops"].items():
        for data_type, by_target in by_type.items():
            for target, entry in by_target.items():
                if entry["served"] and not entry["compiled"] and not entry["failed"]:
                    yield f"{op} {data_type} {target} was not compiled"
