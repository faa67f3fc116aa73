#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What every graph becomes before the compiler sees it, as digests: recorded and compared.

    tools/guard/record.py --compare              with the committed record, tools/guard/digests.txt
    tools/guard/record.py --compare --few        a part of it, in about half a minute
    tools/guard/record.py --compare -k conv_     problems with this in their names
    tools/guard/record.py --add                  add new problems to the committed record
    tools/guard/record.py -o FILE                write a record
    tools/guard/record.py --compare A --read B   compare two records
    tools/guard/record.py --show "matmul.primes half" gfx942 [matmul=plain]

Nothing is compiled.  Exit status 1 when something differs.  README.md says what is in a record.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from zlib import crc32

HERE = Path(__file__).resolve().parent
BASELINE = HERE / "digests.txt"
FORMAT = "hipdnn-iree guard, format 1"

TABLES = ("flags", "key", "declines", "offers")
"""Texts that many problems share; a problem names them by the first digits of their digest."""

_GFX9 = ("gfx908", "gfx90a", "gfx942", "gfx950")
_FEW = 10  # one problem in so many
_CHUNK = 25  # problems to a task


@dataclass(frozen=True)
class Code:
    """What one variant becomes: the digest of its IR, and names of texts in the tables."""

    mlir: str
    flags: str
    key: str

    def __str__(self) -> str:
        return f"{self.mlir}.{self.flags}.{self.key}"


@dataclass
class Served:
    """What becomes of a problem for one target."""

    declines: str
    offers: str
    variants: dict[str, Code] = field(default_factory=dict)


@dataclass
class Entry:
    """A problem: digest of the graph, or the exception that made none, and what it becomes."""

    graph: str
    targets: dict[str, Served] = field(default_factory=dict)


@dataclass
class Record:
    """All problems by name, and the texts that they share."""

    problems: dict[str, Entry] = field(default_factory=dict)
    tables: dict[str, dict[str, str]] = field(default_factory=lambda: {t: {} for t in TABLES})

    def text(self, table: str, name: str) -> str:
        """Return a shared text by its name; empty for ``-``."""
        return self.tables[table].get(name, "")


def short(text: str, digits: int = 8) -> str:
    """Return the first digits of the digest of a text."""
    return sha256(text.encode()).hexdigest()[:digits]


# -------------------------------------------------------------------- recording


def record_one(name: str, build: Callable[[], Any], into: Record) -> None:
    """Add what becomes of a problem."""
    import adapter

    def shared(table: str, text: str) -> str:
        if not text:
            return "-"
        into.tables[table][short(text, 6)] = text
        return short(text, 6)

    try:
        graph = build()
    except Exception as error:  # which one is what is recorded
        into.problems[name] = Entry(f"!{type(error).__name__}")
        return
    entry = into.problems[name] = Entry(adapter.digest(graph)[:10])
    for target in adapter.targets(name):
        reasons = [
            f"{rule} {node or '-'} {port or '-'} {short(text, 6)}"
            for rule, node, port, text in adapter.declines(graph, target)
        ]
        offers = [
            f"{op}:{','.join(names)};default={default};tried={','.join(tried)}"
            for op, (names, default, tried) in adapter.offered(graph, target).items()
        ]
        served = entry.targets[target] = Served(
            shared("declines", " | ".join(reasons)), shared("offers", " ".join(offers))
        )
        if reasons:
            continue  # there is no code that anybody gets
        for variant in adapter.variants(graph, target, name):
            code = adapter.lower(graph, target, variant)
            key = " ".join(f"{label}={value}" for label, value in sorted(code.key.items()))
            # The four of gfx9 share a text, as far as nothing but this differs.
            told = [
                f.replace(f"={target}", "=TARGET") if f.endswith(f"={target}") else f
                for f in code.flags
            ]
            served.variants[variant.name] = Code(
                f"!{code.error}" if code.error else short(code.mlir),
                shared("flags", " ".join(told)),
                shared("key", key),
            )


def _record_some(names: list[str]) -> Record:
    import adapter

    every, found = adapter.problems(), Record()
    for name in names:
        record_one(name, every[name], found)
    return found


def _start(fresh: bool) -> None:
    import adapter

    if not fresh:
        adapter.share_contexts()


def record(
    names: Iterable[str], jobs: int, tell: Callable[[str], None], *, fresh: bool = False
) -> Record:
    """Return the record of some problems, made in other processes."""
    names, whole, begin = list(names), Record(), time.monotonic()
    parts = [names[i : i + _CHUNK] for i in range(0, len(names), _CHUNK)]
    start = {"initializer": _start, "initargs": (fresh,)}
    with ProcessPoolExecutor(jobs, get_context("spawn"), **start) as pool:
        for i, found in enumerate(pool.map(_record_some, parts), 1):
            merge(whole, found)
            if i % 20 == 0:
                tell(f"{i * _CHUNK} of {len(names)}, {time.monotonic() - begin:.0f} s")
    return whole


def chosen(names: Iterable[str], pattern: str, few: bool) -> list[str]:
    """Return the names that are asked for."""
    return [name for name in names if pattern in name and not (few and crc32(name.encode()) % _FEW)]


# -------------------------------------------------------------------- the file


def write(record: Record) -> str:
    """Return a record as text: the tables, then a line for each problem, sorted."""
    lines = [FORMAT]
    for table in TABLES:
        lines += ["", f"[{table}]"]
        lines += [f"{name} {text}" for name, text in sorted(record.tables[table].items())]
    lines += ["", "[problems]"]
    lines += [_line(name, entry) for name, entry in sorted(record.problems.items())]
    return "\n".join(lines) + "\n"


def _line(name: str, entry: Entry) -> str:
    groups: dict[str, list[str]] = {}
    for target, served in entry.targets.items():
        words = [served.declines, served.offers]
        default = served.variants.get("")
        for variant, code in served.variants.items():
            same = default if variant else None
            # What is as in the default variant is left out.
            less = [
                "" if same and same.flags == code.flags else code.flags,
                "" if same and same.key == code.key else code.key,
            ]
            words.append(f"{variant.replace(' ', '_')}>{'.'.join((code.mlir, *less)).rstrip('.')}")
        groups.setdefault(" ".join(words), []).append(target)
    texts = [
        f"{','.join(found).replace(','.join(_GFX9), 'gfx9')} {t}" for t, found in groups.items()
    ]
    return "\t".join((name, entry.graph, *texts))


def read(text: str) -> Record:
    """Return the record that a text holds."""
    lines = text.splitlines()
    if not lines or lines[0] != FORMAT:
        raise SystemExit(f"this is no record: wanted {FORMAT!r} as the first line")
    found, table = Record(), ""
    for line in lines[1:]:
        if line.startswith("[") and line.endswith("]"):
            table = line[1:-1]
        elif line and table == "problems":
            name, graph, *groups = line.split("\t")
            found.problems[name] = Entry(graph, dict(_read_groups(groups)))
        elif line:
            name, _, rest = line.partition(" ")
            found.tables[table][name] = rest
    return found


def _read_groups(groups: Iterable[str]) -> Iterator[tuple[str, Served]]:
    for group in groups:
        targets, declines, offers, *words = group.split(" ")
        variants: dict[str, Code] = {}
        for word in words:
            name, _, rest = word.rpartition(">")
            mlir, told, key = (*rest.split("."), "", "")[:3]
            default = variants.get("", Code("", "", ""))
            variants[name] = Code(mlir, told or default.flags, key or default.key)
        for target in targets.split(","):
            for one in _GFX9 if target == "gfx9" else (target,):
                yield one, Served(declines, offers, variants)


# -------------------------------------------------------------------- comparing


@dataclass(frozen=True)
class Difference:
    """One thing that is not as it was.

    Attributes
    ----------
    what : str
        ``missing``, ``graph``, ``target``, ``declines``, ``texts`` (of declines alone),
        ``offers``, ``variants``, ``mlir``, ``flags`` or ``key``.
    """

    what: str
    problem: str
    target: str = ""
    variant: str = ""
    detail: str = ""

    def __str__(self) -> str:
        where = " ".join(part for part in (self.problem, self.target, self.variant) if part)
        return f"{self.what:9}{where}{': ' + self.detail if self.detail else ''}"


def compare(before: Record, now: Record, names: Iterable[str]) -> Iterator[Difference]:
    """Yield what differs in the named problems of ``before``."""
    for name in names:
        old, new = before.problems[name], now.problems.get(name)
        if new is None:
            yield Difference("missing", name, detail="there is no such problem now")
        elif old.graph != new.graph:
            # Another graph has other code: what it becomes is not compared.
            yield Difference("graph", name, detail=f"digest {old.graph} -> {new.graph}")
        else:
            for target, was in old.targets.items():
                yield from _compare_target(before, now, name, target, was, new.targets.get(target))


def _compare_target(
    before: Record, now: Record, name: str, target: str, was: Served, new: Served | None
) -> Iterator[Difference]:
    if new is None:
        yield Difference("target", name, target, detail="not recorded")
        return
    for table in ("declines", "offers"):
        old, found = (r.text(table, getattr(s, table)) for r, s in ((before, was), (now, new)))
        if old != found:
            same = table == "declines" and _rules(old) == _rules(found)
            yield Difference(
                "texts" if same else table, name, target, detail=f"{old or '-'} -> {found or '-'}"
            )
    if set(was.variants) != set(new.variants):
        gone, more = set(was.variants) - set(new.variants), set(new.variants) - set(was.variants)
        detail = f"without {sorted(gone)}, with {sorted(more)}"
        yield Difference("variants", name, target, detail=detail)
    for variant, code in was.variants.items():
        found = new.variants.get(variant, code)
        if found.mlir != code.mlir:
            yield Difference("mlir", name, target, variant, f"{code.mlir} -> {found.mlir}")
        for table in ("flags", "key"):
            old, other = (
                r.text(table, getattr(c, table)) for r, c in ((before, code), (now, found))
            )
            if old != other:
                yield Difference(table, name, target, variant, _words(old, other))


def _rules(declines: str) -> list[str]:
    """Return declines without the digests of their texts."""
    return [part.rpartition(" ")[0] for part in declines.split(" | ")]


def _words(old: str, new: str) -> str:
    """Return the words in which two texts differ."""
    a, b = old.split(), new.split()
    gone, more = [w for w in a if w not in b], [w for w in b if w not in a]
    return f"{' '.join(gone) or '-'} -> {' '.join(more) or '-'}" if gone or more else "the order"


def report(found: list[Difference], count: int, new: int, most: int) -> str:
    """Return what a comparison found, in lines."""
    differ = {d.problem for d in found}
    lines = [f"{count - len(differ)} of {count} problems are identical"]
    if new:
        lines.append(f"{new} problems are not in the record")
    tally = Counter(d.what for d in found)
    for what, times in tally.items():
        some = [d for d in found if d.what == what]
        lines.append(f"{what}: {times}, in {len({d.problem for d in some})} problems")
        lines += [f"  {d}" for d in some[:most]]
        if times > most:
            lines.append(f"  and {times - most} more; -k and --most show them")
    return "\n".join(lines)


# -------------------------------------------------------------------- the command


def show(problem: str, target: str, variant: str) -> str:
    """Return IR, flags, declines and key of a problem."""
    import adapter

    every = adapter.problems()
    if problem not in every:
        raise SystemExit(f"there is no problem {problem!r}")
    graph = every[problem]()
    known = {v.name: v for v in adapter.variants(graph, target, problem)}
    if variant not in known:
        raise SystemExit(f"no variant {variant!r}; there are {', '.join(map(repr, known))}")
    code = adapter.lower(graph, target, known[variant])
    lines = [f"// {problem}, {target}, variant {variant!r}, graph {adapter.digest(graph)}"]
    lines += [f"// decline {' '.join(d)}" for d in adapter.declines(graph, target)]
    lines += [f"// flag {f}" for f in code.flags]
    lines += [f"// key {k} = {v}" for k, v in sorted(code.key.items())]
    lines += [f"// error {code.error}"] if code.error else []
    return "\n".join((*lines, code.mlir))


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, help="write a record")
    parser.add_argument(
        "--compare", type=Path, nargs="?", const=BASELINE, help="with a record; exit 1 if different"
    )
    parser.add_argument(
        "--add", type=Path, nargs="?", const=BASELINE, help="write what is new into a record"
    )
    parser.add_argument("--read", type=Path, help="compare this record instead of making one")
    parser.add_argument(
        "--show", nargs="+", metavar=("PROBLEM", "TARGET"), help="print the IR; VARIANT may follow"
    )
    parser.add_argument("--few", action="store_true", help=f"one problem in {_FEW}")
    parser.add_argument("-k", default="", metavar="TEXT", help="problems with this in their names")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--fresh", action="store_true", help="an MLIR context for each lowering")
    parser.add_argument("--most", type=int, default=10, help="differences of a kind that are shown")
    args = parser.parse_args(argv)
    if not (args.output or args.compare or args.show or args.add):
        parser.error("nothing to do: --compare, --add, -o FILE or --show")
    if args.show and len(args.show) not in (2, 3):
        parser.error("--show takes PROBLEM TARGET [VARIANT]")
    return args


def merge(whole: Record, more: Record) -> None:
    """Add the problems of another record, and the texts that they share."""
    whole.problems |= more.problems
    for table in TABLES:
        whole.tables[table] |= more.tables[table]


def add(path: Path, jobs: int) -> int:
    """Add the problems that a record lacks, and return their number."""
    import adapter

    whole = read(path.read_text(encoding="utf-8"))
    new = [name for name in adapter.problems() if name not in whole.problems]
    merge(whole, record(new, jobs, _tell))
    path.write_text(write(whole), encoding="utf-8")
    return len(new)


def without_settings(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that would change what is recorded."""
    return [v for v in environment if v.startswith(("HIPDNN_IREE_", "HIPDNN_HEUR_"))]


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    args = arguments(argv)
    sys.path.insert(0, str(HERE))  # the adapter, here and in the processes that are started
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(HERE), os.environ.get("PYTHONPATH", "")))
    )
    for variable in without_settings(os.environ):
        del os.environ[variable]
    if args.show:
        print(show(*args.show, *[""] * (3 - len(args.show))))
        return 0
    if args.add:
        print(f"{add(args.add, args.jobs)} problems added")
        return 0
    if args.read:
        now = read(args.read.read_text(encoding="utf-8"))
    else:
        import adapter

        names = chosen(adapter.problems(), args.k, args.few)
        now = record(names, args.jobs, _tell, fresh=args.fresh)
    if args.output:
        args.output.write_text(write(now), encoding="utf-8")
        print(f"{len(now.problems)} problems, {args.output.stat().st_size} bytes")
    if not args.compare:
        return 0
    before = read(args.compare.read_text(encoding="utf-8"))
    names = chosen(before.problems, args.k, args.few)
    found = list(compare(before, now, names))
    new = sum(name not in before.problems for name in now.problems)
    print(report(found, len(names), new, args.most))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
