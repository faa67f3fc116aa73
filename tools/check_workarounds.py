# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Try the reproducer of every known compiler defect on the compiler that is installed.

    scripts/check_workarounds                       all of them, as a table
    scripts/check_workarounds -k W-012 -k W-05      only those whose id contains one of these
    scripts/check_workarounds --record              also write what was found, and the page
    scripts/check_workarounds --page                run nothing; write the page from the record

A defect is a folder ``docs/upstream/W-NNN``: ``defect.toml`` says what to do and what is wrong,
``repro.mlir`` (or ``repro.py``) shows it, ``README.md`` is the report.  The verdict on each is

needed
    The defect is still there, so the rule that avoids it stays.
mended
    It is gone with the installed compiler: try to remove the rule.
cannot tell
    It was not tried (no GPU), or failed in another way; the reason says which.

Exit status: 0 if every verdict is what ``defect.toml`` records, 1 if one is not (an upgrade has
mended something, or has broken it again), 2 for a folder that cannot be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.workarounds.judge import MENDED, NEEDED, UNKNOWN, Verdict, judge
from tools.workarounds.schema import Defect, DefectError, defects

__all__ = ["main", "page", "recorded"]

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "upstream"
RECORD = FOLDER / "checked.json"
PAGE = ROOT / "docs" / "reference" / "workarounds.md"


def surprises(found: Iterable[tuple[Defect, Verdict]]) -> list[str]:
    """Return what is not as it is recorded: the ids, with what to do."""
    hints = {
        (MENDED, "needed"): "mended: remove its rule, or narrow its versions",
        (NEEDED, "cannot reproduce"): "is there again",
    }
    return [
        f"{d.id} ({d.title}): {hints[v.verdict, d.state]}"
        for d, v in found
        if (v.verdict, d.state) in hints
    ]


def recorded(record: Path = RECORD) -> dict[str, dict[str, Any]]:
    """Return the verdicts that were written down, by id."""
    if not record.exists():
        return {}
    known: dict[str, dict[str, Any]] = json.loads(record.read_text("utf-8"))
    return known


def _record(found: Iterable[Verdict], record: Path) -> None:
    """Write verdicts down; one that tells nothing does not replace one of the same versions."""
    known = recorded(record)
    for v in found:
        before = known.get(v.id)
        told = before and before["verdict"] != UNKNOWN and before["versions"] == v.versions
        if v.verdict != UNKNOWN or not told:
            known[v.id] = {"verdict": v.verdict, "reason": v.reason, "versions": dict(v.versions)}
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(known[k])}" for k in sorted(known))
    record.write_text(f"{{\n{lines}\n}}\n", "utf-8")


def page(all_of_them: Sequence[Defect], known: Mapping[str, Mapping[str, Any]]) -> str:
    """Return docs/reference/workarounds.md."""
    heads = ("id", "title", "symptom", "targets", "versions", "seen", "on the compiler", "rule")
    rows = [heads, ("---",) * len(heads)]
    for d in all_of_them:
        last = known.get(d.id)
        state = (
            f"{last['verdict']}, {last['versions']['iree-base-compiler']}" if last else "untried"
        )
        if last and last["verdict"] == UNKNOWN:
            state = f"{UNKNOWN}: {last['reason']}"
        link = f"[{d.id}](../upstream/{d.id}/README.md)"
        where = ", ".join(f"`{place}`" for place in d.where) or "none"
        lists = (", ".join(d.targets), ", ".join(d.versions))
        rows.append((link, d.title, d.symptom, *lists, d.how, state, where))
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join([_HEAD, *lines]) + "\n"


_HEAD = """\
<!-- Made by scripts/check_workarounds --record (or --page); change docs/upstream/ instead. -->

# Compiler defects and what is done about them

Each defect has a number, a reproducer and a report that can be filed with its project, in
`docs/upstream/`. `scripts/check_workarounds` tries the reproducers on the installed compiler:
*needed* means that the defect is still there, *mended* that its rule can go. *seen* says how it was
found: the compiler failed, the code was run, or gfx9 code was emulated (never on AMD hardware).

"""


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="check_workarounds",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-k", action="append", default=[], metavar="ID", help="part of an id")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the defects are")
    parser.add_argument("--jobs", type=int, default=1, help="cases at one time")
    parser.add_argument("--limit-s", type=float, help="time limit of each step, instead of its own")
    parser.add_argument("--json", action="store_true", help="print JSON lines instead of a table")
    parser.add_argument("--record", action="store_true", help="write the record and the page")
    parser.add_argument("--page", action="store_true", help="run nothing, write the page")
    parser.add_argument("--child", nargs="+", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    args = _arguments(given)
    if args.child:
        from tools.workarounds.numbers import perform

        perform(*args.child)
        return 0
    try:
        chosen = defects(args.folder, args.k)
        everything = defects(args.folder)
    except DefectError as error:
        print(f"check_workarounds: {error}", file=sys.stderr)
        return 2
    record = args.folder / RECORD.name
    found: list[tuple[Defect, Verdict]] = []
    if not args.page:
        if args.limit_s:
            chosen = [replace(d, check=replace(d.check, limit_s=args.limit_s)) for d in chosen]
        with ThreadPoolExecutor(max(args.jobs, 1)) as pool:
            verdicts = pool.map(judge, chosen)
            for d, v in zip(chosen, verdicts, strict=True):
                found.append((d, v))
                print(_line(d, v, as_json=args.json), flush=True)
    if args.record:
        _record((v for _, v in found), record)
    if args.record or args.page:
        PAGE.write_text(page(everything, recorded(record)), "utf-8")
    for text in surprises(found):
        print(text, file=sys.stderr)
    return int(bool(surprises(found)))


def _line(d: Defect, v: Verdict, *, as_json: bool) -> str:
    if as_json:
        row = {"id": v.id, "title": d.title, "symptom": d.symptom, "targets": d.targets}
        more = {"verdict": v.verdict, "reason": v.reason, "seconds": v.seconds}
        return json.dumps({**row, "state": d.state, **more, "versions": dict(v.versions)})
    return f"{v.id}  {v.verdict:11}  {v.seconds:6.1f} s  {d.title}\n{'':19}{v.reason}"


if __name__ == "__main__":
    sys.exit(main())
