# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Suites: problems as data.  One format and one reader for samples, benchmarks and sweeps.

docs/suites.md describes the format; `schema` lists all keys.

A custom op's ``reference`` is a name in `numpy_functions`: the one part of a case that is code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NoReturn

from ...graph_api.dtypes import DataType
from ...graph_api.errors import FormatError, GraphError, Problem
from ...graph_api.formats.json.json_form import dumps
from ...graph_api.frozen import FrozenGraph
from ..graph import Graph
from ..graph_files import load
from .expand import Entry, expanded
from .graphs import (
    build,
    described_as,
    is_op,
    nearest,
    no_op,
    placed,
    problem,
    unknown_keys,
)
from .included import chosen
from .schema import (
    DTYPE_SETS,
    CaseEntry,
    IncludeEntry,
    ResultEntry,
    SharedEntry,
    SuiteEntry,
    TensorEntry,
    checked,
    keys,
    typed_targets,
)
from .targets import narrowed, unknown_target, within

__all__ = ["RULES", "Case", "Check", "Suite", "gathered", "given", "read"]

RULES: dict[str, str] = {
    "BENCH-01": "the file is YAML: a mapping with a list of cases, and keys that are known",
    "BENCH-02": "a case has a name of its own, and nodes or a graph file",
    "BENCH-03": "an op is one of hipDNN's or of ours, a pointwise mode or a composition of them, "
    "with arguments that it takes",
    "BENCH-04": "an operand is a tensor of the case, an earlier result, or a number",
    "BENCH-05": "a tensor has dims, and a layout, strides and data type that exist",
    "BENCH-06": "an included file is there, and does not include itself",
    "BENCH-07": "a target is the CPU or a GPU that is known",
}

Check = bool | Literal["keep"]
"""Whether graphs are built once; ``keep`` keeps cases with mistakes, as such."""

_ENTRIES: dict[str, type[ResultEntry]] = {"tensors": TensorEntry, "results": ResultEntry}
_OF_FILES = ("op", *keys(SharedEntry))


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A small or large problem that is solved in one or several data types.

    Attributes
    ----------
    name : str
        ``<op>.<what>`` in a file for one op; stable, as tests and records refer to it.
    tags : tuple of str
        What is special: ``nhwc``, ``padded``, ``broadcast``, ``mixed``...; ``fused`` marks chains
        that are worth fusing.
    dtypes : tuple of DataType
        Types for which it makes sense.
    build : callable
        From one of these to a fresh graph; raises `FormatError` and `GraphError`.
    op : str
        Its op, or the different ops of a chain.
    targets : tuple of str
        Targets for which it makes sense, of any type; empty: all.
    typed_targets : mapping of DataType to tuple of str
        Targets of single types, where these differ.
    source : str
        ``file:line``.
    line : int
        That line; 0 where it is not known.
    broken : tuple of Problem
        What is wrong with it; empty for a case that can be built in all of its types.
    typed_broken : mapping of DataType to tuple of Problem
        What is wrong in single types.
    sizes : mapping of str to int
        At which a graph with dynamic dims is checked and timed; its examples for those left out.
    """

    name: str
    tags: tuple[str, ...] = ()
    dtypes: tuple[DataType, ...] = DTYPE_SETS["floats"]
    build: Callable[[DataType], Graph]
    op: str = ""
    targets: tuple[str, ...] = ()
    typed_targets: Mapping[DataType, tuple[str, ...]] = field(default_factory=dict)
    source: str = ""
    line: int = 0
    broken: tuple[Problem, ...] = ()
    typed_broken: Mapping[DataType, tuple[Problem, ...]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    def matches(self, pattern: re.Pattern[str]) -> bool:
        """Whether a pattern is found in its name or in a tag."""
        return any(map(pattern.search, (self.name, *self.tags)))

    def graph(self, data_type: DataType) -> Graph:
        """Return a fresh graph."""
        graph = self.build(data_type)
        graph.name = graph.name or f"{self.name} {data_type.json}"
        return graph

    def freeze(self, data_type: DataType | None = None) -> FrozenGraph:
        """Return the checked graph, of the first type when none is given.

        Raises
        ------
        FormatError
            With all that is wrong; graph rules are reported with the case's name.
        """
        try:
            return self.graph(data_type or self.dtypes[0]).freeze()
        except GraphError as error:
            raise FormatError(f"case {self.name!r}: {error.message}", error.problems) from None

    def portable(self) -> Case:
        """Return the same case without need of a file of this machine.

        Raises
        ------
        FormatError, OSError
            If its graph file cannot be read.
        """
        if not isinstance(self.build, partial) or self.build.func is not _loaded:
            return self
        text = dumps(self.build(self.dtypes[0]).freeze())
        return replace(self, build=partial(given, text))

    def serves(self, target: str) -> bool:
        """Whether the case makes sense on a target, in one of its types at least."""
        return within(target, self.targets) and (
            not self.typed_targets
            or any(within(target, some) for some in self.typed_targets.values())
        )

    def by_type(self) -> Iterator[Case]:
        """Yield a case for each type; its name ends with the type where there are several."""
        for kind in self.dtypes:
            own = self.typed_targets.get(kind, ())
            kept = narrowed(own, self.targets)
            if kept is None:
                continue
            yield replace(
                self,
                name=f"{self.name} {kind.json}" if len(self.dtypes) > 1 else self.name,
                dtypes=(kind,),
                targets=kept,
                typed_targets={},
                broken=self.typed_broken.get(kind, () if self.typed_broken else self.broken),
                typed_broken={},
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """The cases of a file, and how many threads engines are given (0: their own choice)."""

    title: str
    threads: int
    cases: tuple[Case, ...]

    def by_type(self, target: str = "") -> Iterator[Case]:
        """Yield a case for each type, of those that make sense on a target where one is given."""
        for case in self.cases:
            for typed in case.by_type():
                if not target or typed.serves(target):
                    yield typed


def read(
    text: str | bytes,
    *,
    source: str = "suite",
    folder: Path | None = None,
    check: Check = True,
    seed: int | None = None,
) -> Suite:
    """Read a suite.

    Parameters
    ----------
    text : str or bytes
    source : str
        The file, for messages.
    folder : Path, optional
        Where graph files and included suites are.
    check : bool or "keep"
        Whether every graph is built once, so that all mistakes show at once.  With ``"keep"`` a
        case that is wrong stays, with what is wrong in `Case.broken`.
    seed : int, optional
        Of the cases that are drawn at random, instead of those that the file gives.

    Raises
    ------
    FormatError
        With all problems (BENCH-…, AXIS-…, and those of the graphs' own rules); with ``"keep"``
        only for what is wrong outside of a case.
    """
    reader = _Reader(source=source, folder=folder or Path(), check=check, seed=seed)
    return reader.suite(text)


def gathered(
    entries: Iterable[Entry],
    *,
    source: str,
    prefix: str = "",
    folder: Path | None = None,
    check: Check = True,
) -> tuple[Case, ...]:
    """Return the cases of entries that nothing is left to expand in; parameters as of `read`.

    Raises
    ------
    FormatError
        With all problems, unless these are kept.
    """
    reader = _Reader(source=source, folder=folder or Path(), check=check)
    reader.gather(entries, prefix)
    reader.must_be_right()
    return tuple(reader.cases.values())


@dataclass(slots=True)
class _Reader:
    """Reads one file; collects what is wrong on the way."""

    source: str
    folder: Path
    check: Check
    seed: int | None = None
    outer: tuple[Path, ...] = ()
    later: bool = False  # whether who includes this file checks the graphs of what it takes
    problems: list[Problem] = field(default_factory=list)
    cases: dict[str, Case] = field(default_factory=dict)

    def suite(self, text: str | bytes) -> Suite:
        data = _parsed(text, self.source)
        self.problems += unknown_keys(data, keys(SuiteEntry), "")
        for key, (_, kind) in keys(SuiteEntry).items():
            _, path, wanted = checked(kind, data[key]) if key in data else ("", "", "")
            if wanted:
                self.problems.append(problem("BENCH-01", "", f"{key}{path}", data[key], wanted))
        given = data.get("cases")
        if (given or "include" not in data) and not (isinstance(given, list) and given):
            self.problems.append(problem("BENCH-01", "", "cases", given, "a list of cases"))
        self.must_be_right()  # the cases are read by these keys
        self.include(data.get("include", []))
        shared = {key: data[key] for key in _OF_FILES if key in data}
        prefix = "".join(f"{data[key]}." for key in ("name", "op") if key in data)
        found = expanded(given or [], shared, sets=data.get("sets", {}), seed=self.seed)
        self.gather(found, prefix)
        self.must_be_right()
        return Suite(
            title=str(data.get("title", "")),
            threads=data.get("threads", 0),
            cases=tuple(self.cases.values()),
        )

    def must_be_right(self) -> None:
        if self.problems:
            raise FormatError(f"{self.source} is no suite", _each_once(self.problems))

    def include(self, given: str | list[Any]) -> None:
        """Take cases of other files; names that are taken get the file's in front."""
        for about in [given] if isinstance(given, str) else given:
            entry: IncludeEntry
            entry, _, _ = checked(
                IncludeEntry, {"suites": about} if isinstance(about, str) else about
            )
            for pattern in entry.patterns:
                paths = sorted(_matching(self.folder, pattern))
                if not paths:
                    known = [p.name for p in (self.folder / pattern).parent.glob("*.y*ml")]
                    hint = nearest(Path(pattern).name, known)
                    wanted = f"a file, or a pattern of files, in {self.folder}"
                    wrong = problem("BENCH-06", "", "include", pattern, wanted, hint)
                    self.problems.append(wrong)
                for path in paths:
                    self.include_file(path, entry)

    def include_file(self, path: Path, entry: IncludeEntry) -> None:
        whole = path.resolve()
        if whole in self.outer or len(self.outer) > _MOST_LEVELS:
            wanted = "files that do not include each other"
            self.problems.append(problem("BENCH-06", "", "include", str(path), wanted))
            return
        inner = _Reader(
            source=str(path),
            folder=path.parent,
            check=self.check,
            seed=self.seed,
            outer=(*self.outer, whole),
            later=self.later or not entry.takes_all,
        )
        try:
            suite = inner.suite(path.read_bytes())
        except FormatError as error:
            self.problems += [replace(p, hint=_joined(p.hint, str(path))) for p in error.problems]
            return
        except OSError as error:
            wrong = problem("BENCH-06", "", "include", str(path), f"a file ({error.strerror})")
            self.problems.append(wrong)
            return
        found = chosen(suite.cases, entry, self.seed)
        self.problems += found.problems
        for case in found.cases:
            name = f"{path.stem}.{case.name}" if case.name in self.cases else case.name
            unknown = inner.later and not self.later and case.name not in found.sound
            taken = case
            if self.check and unknown:
                taken = _checked_case(case, case.broken, case.line)
                self.problems += taken.broken if self.check != "keep" else ()
            self.cases[name] = replace(taken, name=name)

    def gather(self, entries: Iterable[Entry], prefix: str) -> None:
        """Add the cases of a file; what is wrong with them is told, or kept."""
        for number, entry in enumerate(entries):
            case, found = self.case(entry, number, prefix)
            if case is not None and self.check:
                case = (_known_case if self.later else _checked_case)(case, found, entry.line)
                found = list(case.broken)
            if self.check == "keep":
                case = self.kept(case, entry, number, prefix, found)
            else:
                self.problems += [_at_line(p, entry.line) for p in found]
            if case is not None:
                where = f"{self.source}:{entry.line}" if entry.line else self.source
                self.cases[case.name] = replace(case, source=where, line=entry.line)

    def kept(
        self, case: Case | None, entry: Entry, number: int, prefix: str, found: list[Problem]
    ) -> Case:
        """Return a case with what is wrong with it, under a name that no other has."""
        if case is not None:
            return case
        about = entry.about if isinstance(entry.about, dict) else {}
        given = about.get("name")
        name = f"{prefix}{given}" if isinstance(given, str) and given else f"{prefix}case {number}"
        while name in self.cases:
            name = f"{name} (again)"
        told = tuple(_at_line(p, entry.line) for p in found)
        make = partial(_refuse, name, told)
        return Case(name=name, dtypes=(DataType.FLOAT,), build=make, op=_op_of(about), broken=told)

    def case(self, entry: Entry, number: int, prefix: str) -> tuple[Case | None, list[Problem]]:
        about = entry.about
        if not isinstance(about, dict):
            return None, [problem("BENCH-02", f"case {number}", "", about, "a mapping")]
        if entry.problems:
            return None, list(entry.problems)
        given = about.get("name")
        name = f"{prefix}{given}"
        if not isinstance(given, str) or not given or name in self.cases:
            wanted = "a name that no other case has"
            return None, [problem("BENCH-02", f"case {number}", "name", given, wanted)]
        values, problems = _values(about, name)
        arguments = {key: value for key, value in about.items() if key not in keys(CaseEntry)}
        nodes, file, op = (about.get(key) for key in ("nodes", "graph", "op"))
        many = isinstance(nodes, list) and bool(nodes)
        short = not many and file is None
        if short and op is not None and not is_op(op):
            problems.append(no_op(op, name, "op"))
        elif not short or op is None:
            problems += unknown_keys(arguments, keys(CaseEntry), name)
        if (many and file is not None) or (short and op is None):
            wanted = "a list of nodes, or a graph file, or an op with its ports"
            problems.append(problem("BENCH-02", name, "nodes", nodes, wanted))
        dtypes, limits, wrong = _types_and_targets(about, name)
        problems += wrong
        if any(p.rule != "BENCH-05" for p in problems):
            return None, problems
        made = CaseEntry(**values)
        make: Callable[[DataType], Graph] = partial(build, made, name, arguments)
        if file is not None:
            make = partial(_loaded, self.folder / str(file))
        case = Case(
            name=name,
            tags=tuple(made.tags),
            dtypes=dtypes,
            build=make,
            op=_op_of(about),
            targets=_words(made.targets),
            typed_targets=limits,
        )
        return case, problems


_MOST_LEVELS = 8


def _matching(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield the files that a pattern names, relative to a folder."""
    if any(sign in pattern for sign in "*?["):
        base = Path(pattern)
        inside = base.parent if not any(sign in str(base.parent) for sign in "*?[") else Path()
        yield from (folder / inside).glob(str(base.relative_to(inside)))
    elif os.path.isfile(folder / pattern):
        yield folder / pattern


def _each_once(problems: Iterable[Problem]) -> list[Problem]:
    """Return what is wrong, without what the cases of one entry have in common."""
    found: dict[tuple[str, ...], Problem] = {}
    for each in problems:
        at_line = "line " in each.hint
        node = "" if at_line else each.node
        found.setdefault((each.rule, node, each.port, each.got, each.wanted, each.hint), each)
    return list(found.values())


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))


def _at_line(found: Problem, line: int) -> Problem:
    """Return a problem that tells its line, once."""
    told = f"line {line}" if line else ""
    if found.hint.endswith(told):
        return found
    return replace(found, hint=_joined(found.hint, told))


def _refuse(name: str, problems: tuple[Problem, ...], data_type: DataType) -> NoReturn:
    """Be the `Case.build` of a case that cannot be built."""
    raise FormatError(f"case {name!r}", problems)


def _loaded(path: Path, data_type: DataType) -> Graph:
    return load(path)


def given(text: str, data_type: DataType) -> Graph:
    """Be the `Case.build` of a graph that is there: its JSON, whatever the type."""
    return Graph.from_json(text)


def _op_of(about: Mapping[str, Any]) -> str:
    """Return the op of a case, or those of its chain, each once; at most four are told.

    That of a graph file is ``graph``; an entry that tells none could not be read.
    """
    if isinstance(about.get("op"), str):
        return str(about["op"])
    nodes = about.get("nodes")
    given = [node.get("op") for node in nodes if isinstance(node, dict)] if nodes else []
    ops = list(dict.fromkeys(str(op) for op in given))
    none = "graph" if "graph" in about else "(not read)"
    return "+".join(ops[:4]) + ("+..." if len(ops) > 4 else "") or none


def _words(given: str | list[str]) -> tuple[str, ...]:
    return tuple(given.split()) if isinstance(given, str) else tuple(given)


def _types_and_targets(
    about: Mapping[str, Any], name: str
) -> tuple[tuple[DataType, ...], dict[DataType, tuple[str, ...]], list[Problem]]:
    """Return the types of a case, the targets of each where they differ, and what is wrong."""
    given = about.get("dtypes") or about.get("io", "float")
    try:
        limits = typed_targets(given)
    except (AttributeError, TypeError, ValueError) as error:
        wrong = problem("BENCH-05", name, "dtypes", about.get("dtypes"), str(error))
        return (DataType.FLOAT,), {}, [wrong]
    named = [*(given if isinstance(given, dict) else ())]
    targets = about.get("targets", [])
    named += _words(targets) if isinstance(targets, str | list) else []
    problems = []
    for word in named:
        if (wanted := unknown_target(str(word))) is not None:
            problems.append(problem("BENCH-07", name, "targets", word, wanted[0], wanted[1]))
    return tuple(limits), limits if isinstance(given, dict) else {}, problems


def _known_case(case: Case, known: Sequence[Problem], line: int) -> Case:
    """Return the case with what is known to be wrong; its graphs are not built."""
    return replace(case, broken=tuple(_at_line(p, line) for p in known))


def _checked_case(case: Case, known: Sequence[Problem], line: int) -> Case:
    """Return the case with what is wrong: in all types, or in the graphs of some."""
    found: dict[DataType, tuple[Problem, ...]] = {}
    for data_type in case.dtypes:
        wrong = [*known, *_graph_problems(case, data_type)]
        if wrong:
            found[data_type] = tuple(_at_line(p, line) for p in wrong)
    return replace(case, broken=next(iter(found.values()), ()), typed_broken=found)


def _graph_problems(case: Case, data_type: DataType) -> list[Problem]:
    try:
        case.freeze(data_type)
    except FormatError as error:
        return [placed(p, case.name) for p in error.problems]
    except OSError as error:
        return [problem("BENCH-02", case.name, "graph", str(error), "a file that can be read")]
    return []


def _parsed(text: str | bytes, source: str) -> Mapping[str, Any]:
    from . import yaml_text  # PyYAML takes time that nothing else needs

    try:
        data = yaml_text.parse(text)
    except yaml_text.YAMLError as error:
        where, what = yaml_text.place(error)
        wrong = problem("BENCH-01", "", where, what, "YAML")
        raise FormatError(f"{source} is no YAML", [wrong]) from None
    if not isinstance(data, dict):
        wrong = problem("BENCH-01", "", "", type(data).__name__, "a mapping with cases")
        raise FormatError(f"{source} is no suite", [wrong])
    return data


def _values(about: Mapping[str, Any], name: str) -> tuple[dict[str, Any], list[Problem]]:
    """Return the values of a case's keys as its schema has them, and what is wrong with them."""
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for key, (attribute, kind) in keys(CaseEntry).items():
        if key not in about:
            continue
        given, entry = about[key], _ENTRIES.get(key)
        if entry is None or not isinstance(given, dict):
            value, path, wanted = checked(kind, given)
            if not wanted:
                values[attribute] = value
            else:
                rule = "BENCH-02" if key in ("name", "tags", "nodes", "graph") else "BENCH-05"
                problems.append(problem(rule, name, f"{key}{path}", given, wanted))
            continue
        values[attribute] = {}
        for label, described in given.items():
            values[attribute][str(label)], wrong = described_as(entry, described, name, str(label))
            problems += wrong
    return values, problems
