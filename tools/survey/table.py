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
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from hipdnn_iree.graph_api.ops import OPS
from hipdnn_iree.provider.sweep.json_text import json_lines
from hipdnn_iree.provider.sweep.serving import TARGETS, Served, serving

__all__ = [
    "Table",
    "compiled_entry",
    "dumps",
    "emulated_entry",
    "loads",
    "served_entry",
    "stale",
    "uncompiled",
]

Table = dict[str, dict[str, dict[str, dict[str, Any]]]]
Row = Mapping[str, Any]


def served_entry(found: Served) -> dict[str, Any]:
    """Return what an entry says about the rules."""
    return {
        "samples": found.samples,
        "served": found.served,
        "declined": {rule: len(names) for rule, names in sorted(found.declined.items())},
    }


def compiled_entry(rows: Iterable[Row]) -> dict[str, Any]:
    """Return what an entry says about compilation, from rows of ``compilation.Compilation``."""
    tried = sorted((r for r in rows if r["status"] != "declined"), key=lambda r: str(r["case"]))
    good = [r for r in tried if r["status"] in ("compiled", "ran-ok")]

    def most(what: str) -> Any:
        return max((r[what] for r in good if r[what] is not None), default=None)

    return {
        "compiled": len(good),
        "failed": {r["case"]: f"{r['status']}: {r['note']}" for r in tried if r not in good},
        "seconds": most("seconds"),
        "dispatches": most("dispatches"),
        "spills": most("spills"),
        "mfma": most("mfma"),
        "ir": sha256("".join(r["ir"] for r in tried).encode()).hexdigest()[:16] if tried else "",
    }


def emulated_entry(rows: Iterable[Row]) -> dict[str, Any]:
    """Return what an entry says about emulation, from rows of ``emulation.Finding``."""
    rows = list(rows)
    without = [r["note"] for r in rows if r["status"] in ("cannot-emulate", "accused")]
    return {
        "ok": sum(r["status"] == "emulated-ok" for r in rows),
        "wrong": sorted(r["case"] for r in rows if r["status"] == "wrong"),
        "not": dict(sorted(Counter(map(_reason, without)).items())),
    }


# Part of the emulator's message -> why in short.
_REASONS = {
    "race on ": "race",
    "missing s_waitcnt": "missing wait",
    "outside every allocation": "access to memory of nobody",
    "took more than": "time limit",
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
