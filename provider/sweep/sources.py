# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where cases come from: suites, folders, graph files, lines of other drivers, random graphs.

::

    read_all(["networks/resnet50", "my.yaml", "logged_graphs/", "lines.txt",
              "conv -n 16 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1",
              "fuzz --seed 1 --count 200"])

A name stands for a file or a folder that is there, or else for one of the suites that come with
this project.  A folder stands for all its suites and graph files, those of inner folders too.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ...graph_api.dtypes import DataType
from ...graph_api.errors import FormatError, HipdnnIreeError, Problem
from ..graph_files import load
from . import drivers
from .driver_flags import is_line
from .expand import Entry
from .fuzz.cases import drawn_suite, is_drawn
from .graphs import nearest, problem
from .samples import SUITES
from .suite import Case, Check, Suite, gathered, read

__all__ = ["RULES", "read_all", "suite_of"]

RULES: dict[str, str] = {
    "SOURCE-01": "a suite is a file, a folder, the name of a shipped suite or a driver's line",
    "SOURCE-02": "a folder has suites or graph files",
}

_YAML = (".yaml", ".yml")
_GRAPHS = (".json", ".bin", ".fb", ".graph", ".zip", ".hipdnn")


def read_all(given: Sequence[str], *, check: Check = "keep", seed: int | None = None) -> Suite:
    """Read everything that is named, as one suite in which no name comes twice.

    Parameters
    ----------
    given : sequence of str
        Files, folders, names of shipped suites, and lines.
    check, seed
        As of `suite.read`.

    Returns
    -------
    Suite
        Cases in the order given.  A name that two sources give has the source's in front.

    Raises
    ------
    FormatError
        For a name that stands for nothing, and for a file that is no suite.
    """
    parts = [part for text in dict.fromkeys(given) for part in _parts(text, check, seed)]
    counts = Counter(name for _, suite in parts for name in {case.name for case in suite.cases})
    cases: dict[str, Case] = {}
    for stem, suite in parts:
        for case in suite.cases:
            name = case.name if counts[case.name] == 1 else f"{stem}.{case.name}"
            while name in cases:
                name = f"{name} (again)"
            cases[name] = replace(case, name=name, source=_shown(case.source))
    threads = {suite.threads for _, suite in parts}
    return Suite(
        title=", ".join(dict.fromkeys(suite.title for _, suite in parts if suite.title)),
        threads=threads.pop() if len(threads) == 1 else 0,
        cases=tuple(cases.values()),
    )


def suite_of(file: str) -> str:
    """Return the suite that the file of a row belongs to: graph files together are one."""
    return "the graph files" if file.endswith(_GRAPHS) else file


def _parts(text: str, check: Check, seed: int | None) -> Iterator[tuple[str, Suite]]:
    """Yield the suites that a text stands for, each with a word for it."""
    if is_drawn(text):
        yield "fuzz", drawn_suite(text)
        return
    path = _found(text)
    if path is None:
        if not is_line(text):
            raise _unknown(text)
        yield "line", _lines(text, "command line", check)
        return
    if os.path.isfile(path):
        yield path.stem, _file(path, check, seed)
        return
    files = sorted(p for p in path.rglob("*") if os.path.isfile(p) and _serves(p))
    suites = [p for p in files if p.suffix in _YAML]
    graphs = [p for p in files if p.suffix not in _YAML]
    if not files:
        wanted = f"files that end with {', '.join((*_YAML, *_GRAPHS))}"
        raise FormatError(f"{text} has no suite", [_wrong("SOURCE-02", text, wanted)])
    for each in suites:
        yield each.stem, _file(each, check, seed)
    if graphs:
        yield path.name, _graphs(path, graphs, check)


def _found(text: str) -> Path | None:
    """Return the file or the folder that a text names, here or among the shipped ones."""
    if "\n" in text or "\0" in text or len(text) > 4096:
        return None
    for path in (Path(text), SUITES / text, SUITES / f"{text}.yaml"):
        if text and os.path.exists(path):
            return path
    return None


def _unknown(text: str) -> FormatError:
    known = [p.relative_to(SUITES).with_suffix("").as_posix() for p in SUITES.rglob("*.yaml")]
    folders = [p.relative_to(SUITES).as_posix() for p in SUITES.rglob("*") if os.path.isdir(p)]
    hint = nearest(text, [*folders, *known])
    wanted = f"a file, a folder, or one of {', '.join(sorted((*folders, *known)))}"
    return FormatError(f"no suite {text:.200}", [_wrong("SOURCE-01", text, wanted, hint)])


def _wrong(rule: str, got: str, wanted: str, hint: str = "") -> Problem:
    return problem(rule, "", "suite", got, wanted, hint)


def _file(path: Path, check: Check, seed: int | None) -> Suite:
    if path.suffix in _YAML:
        text = path.read_bytes()
        return read(text, source=_shown(str(path)), folder=path.parent, check=check, seed=seed)
    if path.suffix in _GRAPHS:
        return _graphs(path.parent, [path], check)
    try:
        lines = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        wanted = f"lines of a driver, or a file that ends with {', '.join((*_YAML, *_GRAPHS))}"
        problems = [_wrong("SOURCE-01", str(path), wanted)]
        raise FormatError(f"{path} is no suite", problems) from None
    return _lines(lines, _shown(str(path)), check)


def _lines(text: str, source: str, check: Check) -> Suite:
    """Return lines of MIOpenDriver and Fusilli's driver as cases, each problem once."""
    found: dict[str, Entry] = {}
    for entry in drivers.entries(text):
        found.setdefault(entry.about["name"], entry)
    return Suite(title="", threads=0, cases=gathered(found.values(), source=source, check=check))


def _shown(source: str) -> str:
    """Return a file as rows name it: one of ours by its place among the shipped ones."""
    whole = Path(source).resolve()
    return whole.relative_to(SUITES).as_posix() if whole.is_relative_to(SUITES) else source


def _serves(path: Path) -> bool:
    return path.suffix in _YAML or path.suffix in _GRAPHS


def _graphs(folder: Path, files: Sequence[Path], check: Check) -> Suite:
    """Return graph files as cases, each in the type of its first input."""
    cases: list[Case] = []
    for path in files:
        name = path.relative_to(folder).as_posix()
        about = {"name": name, "graph": name, "dtypes": [_type(path).json]}
        cases += gathered(
            [Entry(about=about)], source=_shown(str(path)), folder=folder, check=check
        )
    return Suite(title=folder.name, threads=0, cases=tuple(cases))


def _type(path: Path) -> DataType:
    try:
        graph = load(path).freeze()
    except (HipdnnIreeError, OSError):
        return DataType.FLOAT
    tensors = graph.inputs or graph.outputs
    return graph.spec(tensors[0]).data_type if tensors else DataType.FLOAT
