"""Suites: problems as data.  One format and one reader for samples, benchmarks and sweeps.

::

    title: convolutions
    threads: 2
    cases:
      - name: conv3x3_relu_nhwc
        tags: [conv, fused]
        dtypes: [float, half]   # a case for each type; `io`, `intermediate` and `compute` give the
        compute: float          # types of inputs and outputs, of intermediates, to compute in
        tensors:
          x: {dims: [1, 64, 56, 56], layout: channels_last}
          w: {dims: [64, 64, 3, 3], layout: channels_last}
        nodes:
          - {op: conv_fprop, in: [x, w], out: y, padding: 1}
          - {op: add, in: [y, [1, 64, 1, 1]], out: z}
          - {op: relu, in: z, out: r}
        results:
          r: {type: float}

An op is a method of ``Graph``; ``in`` are its operands in order, ``out`` names its results (a
list for several, null for one that is not wanted), and what else is given are the method's
keywords.  An operand is a name, a number, the dims of a new tensor, or a mapping that describes
one; where a port takes several, it is a list of these.  Results that nothing reads are the
outputs, and those named in ``outputs``.  ``graph: FILE`` takes a graph file instead.

A case of one node is shorter: ports and parameters stand beside its name, and what a result is
like under the result's port.  The node's op is the case's ``op`` or the file's, whose name then
precedes the names of all cases::

    op: matmul
    dtypes: numbers
    cases:
      - {name: batch, a: [3, 8, 12], b: [3, 12, 10], tags: [batch]}
      - dtypes: [half, bfloat16]      # a group: what its cases share, unless they say otherwise
        cases:
          - {name: half_to_float, a: [9, 50], b: [50, 13], c: {type: float}, tags: [mixed]}

A custom op's ``reference`` is a name in `numpy_functions`: the one part of a case that is code.
`schema` lists all keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...graph_api.dtypes import DataType
from ...graph_api.errors import FormatError, GraphError, Problem
from ...graph_api.frozen import FrozenGraph
from ..graph import Graph
from ..graph_files import load
from .graphs import METHODS, build, described_as, nearest, placed, problem, unknown_keys
from .schema import (
    DTYPE_SETS,
    CaseEntry,
    ResultEntry,
    SuiteEntry,
    TensorEntry,
    checked,
    keys,
    type_set,
)

__all__ = ["RULES", "Case", "Suite", "read"]

RULES: dict[str, str] = {
    "BENCH-01": "the file is YAML: a mapping with a list of cases, and keys that are known",
    "BENCH-02": "a case has a name of its own, and nodes or a graph file",
    "BENCH-03": "an op is a method of the graph, with arguments that it takes",
    "BENCH-04": "an operand is a tensor of the case, an earlier result, or a number",
    "BENCH-05": "a tensor has dims, and a layout, strides and data type that exist",
}

_ENTRIES: dict[str, type[ResultEntry]] = {"tensors": TensorEntry, "results": ResultEntry}


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
    """

    name: str
    tags: tuple[str, ...] = ()
    dtypes: tuple[DataType, ...] = DTYPE_SETS["floats"]
    build: Callable[[DataType], Graph]

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """The cases of a file, and how many threads engines are given (0: their own choice)."""

    title: str
    threads: int
    cases: tuple[Case, ...]

    def by_type(self) -> Iterator[Case]:
        """Yield a case for each type; its name ends with the type where there are several."""
        for case in self.cases:
            for kind in case.dtypes:
                suffix = f" {kind.json}" if len(case.dtypes) > 1 else ""
                yield replace(case, name=case.name + suffix, dtypes=(kind,))


def read(
    text: str | bytes, *, source: str = "suite", folder: Path | None = None, check: bool = True
) -> Suite:
    """Read a suite.

    Parameters
    ----------
    text : str or bytes
    source : str
        The file, for messages.
    folder : Path, optional
        Where graph files are.
    check : bool
        Whether every graph is built once, so that all mistakes show at once.

    Raises
    ------
    FormatError
        With all problems (BENCH-…, and those of the graphs' own rules).
    """
    data = _parsed(text, source)
    problems = list(unknown_keys(data, keys(SuiteEntry), ""))
    for key, (_, kind) in keys(SuiteEntry).items():
        _, path, wanted = checked(kind, data[key]) if key in data else ("", "", "")
        if wanted:
            problems.append(problem("BENCH-01", "", f"{key}{path}", data[key], wanted))
    given = data.get("cases")
    if not isinstance(given, list) or not given:
        problems.append(problem("BENCH-01", "", "cases", given, "a list of cases"))
        given = []
    shared = {key: data[key] for key in ("op", "dtypes") if key in data}
    prefix = f"{data['op']}." if "op" in data else ""
    cases: dict[str, Case] = {}
    for number, (about, line) in enumerate(_ungrouped(given, shared)):
        case, found = _case(about, number, prefix, folder or Path(), cases)
        if case is not None:
            cases[case.name] = case
            found += _problems_of(case) if check else []
        hint = f"line {line}" if line else ""
        problems += [replace(p, hint="; ".join(filter(None, (p.hint, hint)))) for p in found]
    if problems:
        raise FormatError(f"{source} is no suite", problems)
    return Suite(
        title=str(data.get("title", "")),
        threads=data.get("threads", 0),
        cases=tuple(cases.values()),
    )


def _problems_of(case: Case) -> list[Problem]:
    for data_type in case.dtypes:
        try:
            case.freeze(data_type)
        except FormatError as error:
            return [placed(p, case.name) for p in error.problems]
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


def _ungrouped(given: list[Any], shared: Mapping[str, Any]) -> Iterator[tuple[Any, int]]:
    """Yield each entry with what its file and groups share, and its line."""
    for about in given:
        line = getattr(about, "line", 0)
        if not isinstance(about, dict):
            yield about, line
            continue
        merged = {**shared, **about}
        inner = merged.pop("cases", None)
        if isinstance(inner, list) and inner:
            yield from _ungrouped(inner, merged)
        else:
            yield (merged if inner is None else inner), line


def _case(
    about: Any, number: int, prefix: str, folder: Path, taken: Mapping[str, object]
) -> tuple[Case | None, list[Problem]]:
    if not isinstance(about, dict):
        return None, [problem("BENCH-02", f"case {number}", "", about, "a mapping")]
    given = about.get("name")
    name = f"{prefix}{given}"
    if not isinstance(given, str) or not given or name in taken:
        wanted = "a name that no other case has"
        return None, [problem("BENCH-02", f"case {number}", "name", given, wanted)]
    values, problems = _values(about, name)
    arguments = {key: value for key, value in about.items() if key not in keys(CaseEntry)}
    nodes, file, op = (about.get(key) for key in ("nodes", "graph", "op"))
    many = isinstance(nodes, list) and bool(nodes)
    if many or file is not None or not isinstance(op, str) or op not in METHODS:
        problems += unknown_keys(arguments, keys(CaseEntry), name)
        if many == (file is not None):
            hint = nearest(op, sorted(METHODS)) if op else ""
            wanted = "a list of nodes, or a graph file, or an op with its ports"
            problems.append(problem("BENCH-02", name, "nodes", nodes, wanted, hint))
    dtypes: tuple[DataType, ...] = (DataType.FLOAT,)
    try:
        dtypes = type_set(about.get("dtypes") or about.get("io", "float"))
    except (AttributeError, TypeError, ValueError) as error:
        problems.append(problem("BENCH-05", name, "dtypes", about.get("dtypes"), str(error)))
    if any(p.rule != "BENCH-05" for p in problems):
        return None, problems
    entry = CaseEntry(**values)
    make: Callable[[DataType], Graph] = partial(build, entry, name, arguments)
    if file is not None:
        make = lambda data_type: load(folder / str(file))  # noqa: E731
    return Case(name=name, tags=tuple(entry.tags), dtypes=dtypes, build=make), problems


def _values(about: Mapping[str, Any], name: str) -> tuple[dict[str, Any], list[Problem]]:
    """Return the values of a case's keys as its schema has them, and what is wrong with them."""
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for key, (field, kind) in keys(CaseEntry).items():
        if key not in about:
            continue
        given, entry = about[key], _ENTRIES.get(key)
        if entry is None or not isinstance(given, dict):
            value, path, wanted = checked(kind, given)
            if not wanted:
                values[field] = value
            else:
                rule = "BENCH-02" if key in ("name", "tags", "nodes", "graph") else "BENCH-05"
                problems.append(problem(rule, name, f"{key}{path}", given, wanted))
            continue
        values[field] = {}
        for label, described in given.items():
            values[field][str(label)], wrong = described_as(entry, described, name, str(label))
            problems += wrong
    return values, problems
