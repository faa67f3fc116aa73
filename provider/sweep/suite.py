"""Files of benchmark cases: YAML that describes graphs, with errors that say where.

::

    title: convolutions
    threads: 2
    cases:
      - name: conv3x3_relu_nhwc
        tags: [conv, fused]
        io: float               # data types: of inputs and outputs, of what lies between, to
        intermediate: float     # compute in; FLOAT by default
        compute: float
        tensors:
          x: {dims: [1, 64, 56, 56], layout: channels_last}
          w: {dims: [64, 64, 3, 3], layout: channels_last}
          b: {dims: [1, 64, 1, 1]}
        nodes:
          - {op: conv_fprop, in: [x, w], out: y, padding: 1}
          - {op: add, in: [y, b], out: z}
          - {op: relu, in: [z], out: r}

An op is a method of ``Graph``; ``in`` are its operands in order (names or numbers), ``out`` names
its results (a list for several, null for one that is not wanted), and what else is given are the
method's keywords, where the name of a tensor stands for it.  Results that nothing reads are the
outputs, and those named in ``outputs``.  ``graph: FILE`` takes a graph file instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ...graph_api.dtypes import DataType
from ...graph_api.errors import FormatError, GraphError, Problem
from ...graph_api.frozen import FrozenGraph
from ...graph_api.layout import channels_last_strides
from ...graph_api.ops import OPS
from ...graph_api.ops.pointwise_methods import PointwiseMethods
from ...graph_api.tensor import Tensor
from ..graph import Graph, load

__all__ = ["RULES", "Case", "Suite", "read"]

RULES: dict[str, str] = {
    "BENCH-01": "the file is YAML: a mapping with a list of cases, and keys that are known",
    "BENCH-02": "a case has a name of its own, and nodes or a graph file",
    "BENCH-03": "an op is a method of the graph, with arguments that it takes",
    "BENCH-04": "an operand is a tensor of the case, an earlier result, or a number",
    "BENCH-05": "a tensor has dims, and a layout, strides and data type that exist",
}

_CASE_KEYS = (
    *("name", "tags", "io", "intermediate", "compute"),
    *("tensors", "nodes", "outputs", "graph"),
)
_SUITE_KEYS = ("title", "threads", "cases")
_TENSOR_KEYS = ("dims", "layout", "strides", "type", "value")
_LAYOUTS = ("contiguous", "channels_last")
_METHODS = frozenset({*OPS, *(n for n in vars(PointwiseMethods) if not n.startswith("_"))})


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One graph to measure.

    Attributes
    ----------
    name : str
    tags : tuple of str
        ``fused`` marks chains that are worth joining.
    build : callable
        Returns a fresh graph; raises `FormatError` and `GraphError`.
    """

    name: str
    tags: tuple[str, ...]
    build: Callable[[], Graph]

    def freeze(self) -> FrozenGraph:
        """Return the checked graph.

        Raises
        ------
        FormatError
            With all that is wrong; graph rules are told with the case's name.
        """
        try:
            return self.build().freeze()
        except GraphError as error:
            raise FormatError(f"case {self.name!r}: {error.message}", error.problems) from None


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """The cases of a file, and how many threads engines are given (0: their own choice)."""

    title: str
    threads: int
    cases: tuple[Case, ...]


def read(text: str | bytes, *, source: str = "suite", folder: Path | None = None) -> Suite:
    """Read a suite; every graph is described once, so that all mistakes show at once.

    Raises
    ------
    FormatError
        With all problems (BENCH-…, and those of the graphs' own rules).
    """
    data = _parsed(text, source)
    problems = list(_unknown(data, _SUITE_KEYS, ""))
    title, threads, given = data.get("title", ""), data.get("threads", 0), data.get("cases")
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 0:
        problems.append(_problem("BENCH-01", "", "threads", threads, "a whole number from 0"))
    if not isinstance(given, list) or not given:
        problems.append(_problem("BENCH-01", "", "cases", given, "a list of cases"))
        given = []
    cases: list[Case] = []
    for number, about in enumerate(given):
        found = _case(about, number, folder or Path(), {case.name for case in cases})
        if isinstance(found, Case):
            cases.append(found)
            try:
                found.freeze()
            except FormatError as error:
                problems += [_placed(p, found.name) for p in error.problems]
        else:
            problems += found
    if problems:
        raise FormatError(f"{source} is no suite of benchmarks", problems)
    return Suite(title=str(title), threads=threads, cases=tuple(cases))


def _problem(rule: str, node: str, port: str, got: object, wanted: str, hint: str = "") -> Problem:
    return Problem(rule=rule, node=node, port=port, got=str(got), wanted=wanted, hint=hint)


def _placed(problem: Problem, case: str) -> Problem:
    """Return a problem of a graph with the name of its case in front."""
    node = ".".join(part for part in (case, problem.node) if part)
    if problem.node == case or problem.node.startswith(f"{case}."):
        node = problem.node
    return _problem(problem.rule, node, problem.port, problem.got, problem.wanted, problem.hint)


def _parsed(text: str | bytes, source: str) -> Mapping[str, Any]:
    import yaml  # the one place that needs it

    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        got = getattr(error, "problem", None) or str(error)
        problem = _problem("BENCH-01", "", where, got, "YAML")
        raise FormatError(f"{source} is no YAML", [problem]) from None
    if not isinstance(data, dict):
        problem = _problem("BENCH-01", "", "", type(data).__name__, "a mapping with cases")
        raise FormatError(f"{source} is no suite of benchmarks", [problem])
    return data


def _unknown(data: Mapping[str, Any], known: tuple[str, ...], node: str) -> Iterator[Problem]:
    for key in data:
        if key not in known:
            near = get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]}?" if near else ""
            yield _problem("BENCH-01", node, str(key), "an unknown key", ", ".join(known), hint)


def _case(about: Any, number: int, folder: Path, taken: set[str]) -> Case | list[Problem]:
    if not isinstance(about, dict):
        return [_problem("BENCH-02", f"case {number}", "", about, "a mapping")]
    name = about.get("name")
    if not isinstance(name, str) or not name or name in taken:
        wanted = "a name that no other case has"
        return [_problem("BENCH-02", f"case {number}", "name", name, wanted)]
    problems = list(_unknown(about, _CASE_KEYS, name))
    tags = about.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        problems.append(_problem("BENCH-02", name, "tags", tags, "a list of words"))
        tags = []
    nodes, file = about.get("nodes"), about.get("graph")
    if (file is None) == (not isinstance(nodes, list) or not nodes):
        wanted = "a list of nodes, or a graph file"
        problems.append(_problem("BENCH-02", name, "nodes", nodes, wanted))
    if problems:
        return problems
    if file is not None:
        return Case(name=name, tags=tuple(tags), build=lambda: load(folder / str(file)))
    return Case(name=name, tags=tuple(tags), build=lambda: _Builder(about).graph())


class _Builder:
    """Makes the graph of a case; collects what is wrong on the way."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        self._about = about
        self._case = str(about["name"])
        self._problems: list[Problem] = []
        self._values: dict[str, Tensor] = {}
        self._read: set[str] = set()
        self._made: list[str] = []

    def graph(self) -> Graph:
        about = self._about
        types = {
            f"{key}_data_type": self._type(about.get(key, default), key)
            for key, default in (("io", "float"), ("intermediate", "float"), ("compute", "float"))
        }
        graph = Graph(self._case, **types)
        given = about.get("tensors") or {}
        if not isinstance(given, dict):
            self._add("BENCH-05", "tensors", given, "a mapping from names to tensors")
            given = {}
        for name, spec in given.items():
            self._tensor(graph, str(name), spec)
        for number, node in enumerate(about["nodes"]):
            self._node(graph, number, node)
        named = about.get("outputs") or []
        for name in named if isinstance(named, list) else [named]:
            if name not in self._made:
                self._add("BENCH-04", "outputs", name, "the name of a result")
        if self._problems:
            raise FormatError(f"case {self._case!r}", self._problems)
        for name in self._made:
            if name not in self._read or name in named:
                self._values[name].set_output()
        return graph

    def _add(self, rule: str, port: str, got: object, wanted: str, hint: str = "") -> None:
        self._problems.append(_problem(rule, self._case, port, got, wanted, hint))

    def _type(self, text: object, port: str) -> DataType:
        try:
            return DataType.parse(str(text))
        except ValueError:
            known = ", ".join(kind.json for kind in DataType)
            self._add("BENCH-05", port, text, f"one of {known}")
            return DataType.FLOAT

    def _tensor(self, graph: Graph, name: str, about: Any) -> None:
        if not isinstance(about, dict):
            self._add("BENCH-05", name, about, "a mapping with dims")
            about = {"dims": [1]}  # so that its readers are not wrong as well
        self._problems += _unknown(about, _TENSOR_KEYS, f"{self._case}.{name}")
        kind = self._type(about["type"], name) if "type" in about else DataType.UNSET
        if "value" in about:
            self._values[name] = graph.scalar(about["value"], data_type=kind, name=name)
            return
        dims, strides = about.get("dims"), about.get("strides")
        layout = about.get("layout", "contiguous")
        if not isinstance(dims, list) or not _whole(dims, 1):
            self._add("BENCH-05", f"{name}.dims", dims, "a list of extents from 1")
        elif strides is not None and not (_whole(strides, 0) and len(strides) == len(dims)):
            self._add("BENCH-05", f"{name}.strides", strides, f"{len(dims)} numbers from 0")
        elif layout not in _LAYOUTS:
            self._add("BENCH-05", f"{name}.layout", layout, " or ".join(_LAYOUTS))
        else:
            if layout == "channels_last" and strides is None:
                strides = channels_last_strides(dims)
            made = graph.tensor(dims=dims, strides=strides, data_type=kind, name=name)
            self._values[name] = made
            return
        self._values[name] = graph.tensor(dims=(1,), name=name)  # as above

    def _node(self, graph: Graph, number: int, about: Any) -> None:
        where = f"nodes[{number}]"
        op = about.get("op") if isinstance(about, dict) else None
        if op not in _METHODS:
            near = get_close_matches(str(op), _METHODS, 1)
            hint = f"did you mean {near[0]}?" if near else ""
            wanted = "a mapping with op, a method of the graph"
            self._add("BENCH-03", where, about if op is None else op, wanted, hint)
            return
        method, before = getattr(graph, op), len(self._problems)
        given = about.get("in", [])
        given = given if isinstance(given, list) else [given]
        operands = [self._operand(x, f"{where}.in") for x in given]
        more = {
            key: self._keyword(value)
            for key, value in about.items()
            if key not in ("op", "in", "out", "type")
        }
        if len(self._problems) > before:
            return
        try:
            inspect.signature(method).bind(*operands, **more)
            results = method(*operands, **more)
        except TypeError as error:
            self._add("BENCH-03", where, f"{op}: {error}", "arguments that the op takes")
            return
        except GraphError as error:
            self._problems += [_placed(p, self._case) for p in error.problems]
            return
        self._results(results, about, where)

    def _operand(self, given: Any, where: str) -> Any:
        if isinstance(given, str) and given in self._values:
            self._read.add(given)
            return self._values[given]
        if isinstance(given, list):
            return [self._operand(each, where) for each in given]
        if isinstance(given, int | float) and not isinstance(given, bool):
            return given
        near = get_close_matches(str(given), self._values, 1)
        hint = f"did you mean {near[0]}?" if near else ""
        self._add("BENCH-04", where, given, "a tensor, an earlier result or a number", hint)
        return None

    def _keyword(self, value: Any) -> Any:
        """Return a keyword's value: the tensor of that name, where there is one."""
        if isinstance(value, str) and value in self._values:
            self._read.add(value)
            return self._values[value]
        return value

    def _results(self, results: Any, about: Mapping[str, Any], where: str) -> None:
        made = [t for t in (results if isinstance(results, tuple) else (results,)) if t is not None]
        names = about.get("out")
        names = names if isinstance(names, list) else [names]
        if len(names) > len(made) or not any(isinstance(name, str) for name in names):
            wanted = f"a name for each of the {len(made)} result(s) that is wanted"
            self._add("BENCH-03", f"{where}.out", about.get("out"), wanted)
            return
        for name, tensor in zip(names, made, strict=False):
            if not isinstance(name, str):
                continue
            if name in self._values:
                self._add("BENCH-03", f"{where}.out", name, "a name that is not taken")
                continue
            tensor.set_name(name)
            if "type" in about:
                tensor.set_data_type(self._type(about["type"], f"{where}.type"))
            self._values[name] = tensor
            self._made.append(name)


def _whole(values: Any, least: int) -> bool:
    return isinstance(values, list) and all(
        isinstance(v, int) and not isinstance(v, bool) and v >= least for v in values
    )
