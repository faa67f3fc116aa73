# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The graph of a case: tensors and calls of `Graph`'s methods, made from data."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeGuard, cast

from msgspec import UNSET
from msgspec.structs import replace

from ...graph_api.arguments import shown
from ...graph_api.compositions import Compositions
from ...graph_api.dtypes import DataType
from ...graph_api.elsewhere import here
from ...graph_api.errors import FormatError, GraphError, Problem
from ...graph_api.ops import OPS
from ...graph_api.ops.pointwise_methods import OUTPUTS, PointwiseMethods
from ...graph_api.tensor import Tensor
from ..graph import Graph
from .numpy_functions import NUMPY_FUNCTIONS
from .schema import TYPE_WORDS, CaseEntry, ResultEntry, TensorEntry, checked, keys, resolved_type

__all__ = [
    "build",
    "is_op",
    "nearest",
    "no_op",
    "parameters",
    "placed",
    "problem",
    "result_ports",
]

COMPOSITIONS: frozenset[str] = frozenset(n for n in vars(Compositions) if not n.startswith("_"))
METHODS: frozenset[str] = frozenset(
    {*OPS, *(n for n in vars(PointwiseMethods) if not n.startswith("_")), *COMPOSITIONS}
)
"""What a case calls an op: methods of `Graph` that add nodes, of which compositions add several."""
_NODE_KEYS = ("op", "in", "out", "type")


def problem(
    rule: str, node: str, port: object, got: object, wanted: str, hint: str = ""
) -> Problem:
    """Return a problem; keys of YAML, which may be anything, are told as text."""
    text = got if isinstance(got, str) else shown(got)
    return Problem(rule=rule, node=node, port=str(port), got=text, wanted=wanted, hint=hint)


def placed(found: Problem, case: str) -> Problem:
    """Return a problem of a graph with the name of its case in front."""
    node = ".".join(part for part in (case, found.node) if part)
    if found.node == case or found.node.startswith(f"{case}."):
        node = found.node
    return problem(found.rule, node, found.port, found.got, found.wanted, found.hint)


def nearest(word: object, known: Iterable[str]) -> str:
    """Return a hint at the known word that is spelled most like this one."""
    near = get_close_matches(word, list(known), 1) if _is_word(word) else []
    return f"did you mean {near[0]}?" if near else ""


@cache
def _signature(method: str) -> inspect.Signature:
    return inspect.signature(getattr(Graph, method))


@cache
def parameters(method: str) -> dict[str, bool]:
    """Return the parameters of a method of `Graph`, and which of them take tensors."""
    found = list(_signature(method).parameters.values())[1:]
    return {
        p.name: "Tensor" in str(p.annotation) or "Operand" in str(p.annotation)
        for p in found
        if p.kind is not p.VAR_KEYWORD
    }


def result_ports(method: str) -> tuple[str, ...]:
    """Return what the results of a method are called."""
    if method in COMPOSITIONS:
        return ("y",)
    return tuple(port.name for port in (OPS[method].OUTPUTS if method in OPS else OUTPUTS))


def is_op(op: object) -> TypeGuard[str]:
    """Whether a case may call it an op."""
    return isinstance(op, str) and op in METHODS


def no_op(op: object, node: str, port: str) -> Problem:
    """Return the problem of an op that is none, with the one that was meant."""
    every = ", ".join(sorted(COMPOSITIONS))
    wanted = f"an op: one of `hipdnn-iree ops`, a pointwise mode, or {every}"
    return problem("BENCH-03", node, port, op, wanted, here(op) or nearest(op, sorted(METHODS)))


def build(case: CaseEntry, name: str, arguments: Mapping[str, Any], data_type: DataType) -> Graph:
    """Return the graph of a case.

    Parameters
    ----------
    case : CaseEntry
    name : str
        For messages.
    arguments : mapping
        Ports and parameters of a case of one node.
    data_type : DataType
        What ``dtype`` stands for.

    Raises
    ------
    FormatError
        With all that is wrong.
    """
    return _Builder(case, name, data_type).graph(arguments)


class _Builder:
    """Makes the graph of a case; collects what is wrong on the way."""

    def __init__(self, case: CaseEntry, name: str, data_type: DataType) -> None:
        self._case, self._name, self._data_type = case, name, data_type
        self._problems: list[Problem] = []
        self._values: dict[str, Tensor] = {}
        self._results: dict[str, ResultEntry] = dict(case.results)
        self._read: set[str] = set()
        self._made: list[str] = []
        self._graph = Graph(
            f"{name} {data_type.json}",
            io_data_type=self._type("dtype" if case.io is UNSET else str(case.io), "io"),
            intermediate_data_type=self._type(case.intermediate, "intermediate"),
            compute_data_type=self._type(case.compute, "compute"),
        )
        self._graph.checks_calls = False  # a suite reports everything that is wrong at once

    def graph(self, arguments: Mapping[str, Any]) -> Graph:
        case = self._case
        for name, entry in case.tensors.items():
            self._values[name] = self._tensor(name, cast(TensorEntry, entry))
        if case.nodes is UNSET:
            self._single(str(case.op), arguments)
        else:
            for number, node in enumerate(case.nodes):
                self._node(node, f"nodes[{number}]")
        outputs = [case.outputs] if isinstance(case.outputs, str) else case.outputs
        for name in outputs:
            if name not in self._made:
                self._add("BENCH-04", "outputs", name, "the name of a result")
        for name in self._results:
            if name not in self._made:
                self._add("BENCH-04", name, "no result of that name", "a name that a node gives")
        if self._problems:
            raise FormatError(f"case {self._name!r}", self._problems)
        for name in self._made:
            if name not in self._read or name in outputs:
                self._values[name].set_output()
        return self._graph

    def _add(self, rule: str, port: str, got: object, wanted: str, hint: str = "") -> None:
        self._problems.append(problem(rule, self._name, port, got, wanted, hint))

    def _type(self, text: str, port: str) -> DataType:
        try:
            return resolved_type(text, self._data_type) if text else DataType.UNSET
        except ValueError:
            known = [*TYPE_WORDS, *(kind.json for kind in DataType)]
            self._add("BENCH-05", port, text, f"one of {', '.join(known)}", nearest(text, known))
            return DataType.FLOAT

    # ------------------------------------------------------------------------ tensors

    def _tensor(self, name: str, entry: TensorEntry, label: str = "") -> Tensor:
        kind = self._type(entry.type, label or name)
        if entry.value is not UNSET:
            return self._graph.scalar(entry.value, data_type=kind, name=name)
        if entry.dims is UNSET:
            self._add("BENCH-05", f"{label or name}.dims", None, "a list of extents from 1")
            return self._graph.tensor(dims=(1,), name=name)  # so that its readers are right
        strides = self._strides(entry, label or name)
        return self._graph.tensor(dims=entry.dims, strides=strides, data_type=kind, name=name)

    def _strides(self, entry: ResultEntry, name: str) -> Sequence[int] | None:
        """Return the strides that are given, or those of the order and the gaps."""
        if entry.dims is not UNSET and self._case.layout is not UNSET:
            entry = _with_layout(entry, self._case.layout)
        given = [key for key in ("layout", "order", "strides") if getattr(entry, key) is not UNSET]
        if entry.gaps is not UNSET and (not given or given[-1] == "strides"):
            given.append("gaps")
        if not given:
            return None
        if entry.strides is not UNSET and len(given) == 1 and entry.dims is UNSET:
            return entry.strides
        if entry.dims is UNSET:
            self._add("BENCH-05", f"{name}.dims", None, "a list of extents from 1")
            return None
        rank = len(entry.dims)
        if len(given) > 1:
            self._add("BENCH-05", f"{name}.{given[1]}", given, "one of them")
            return None
        if entry.strides is not UNSET:
            if len(entry.strides) == rank:
                return entry.strides
            self._add("BENCH-05", f"{name}.strides", entry.strides, f"{rank} numbers from 0")
            return None
        order = list(range(rank)) if entry.order is UNSET else entry.order
        gaps = [0] * rank if entry.gaps is UNSET else entry.gaps
        if entry.layout == "channels_last":
            order = [0, *range(2, rank), 1] if rank > 2 else order
        if sorted(order) != list(range(rank)):
            self._add("BENCH-05", f"{name}.order", order, f"the dims 0 to {rank - 1}, each once")
        elif len(gaps) != rank:
            self._add("BENCH-05", f"{name}.gaps", gaps, f"{rank} numbers from 0")
        else:
            return _strides_with_gaps(entry.dims, order, gaps)
        return None

    def _inline(self, given: Any, name: str, where: str) -> Tensor | None:
        """Return a new input that is described where it is used."""
        entry, problems = described_as(TensorEntry, given, self._name, where)
        self._problems += problems
        if problems:
            return None
        tensor = self._tensor(name, entry, where)
        if name:
            self._values[name] = tensor
        return tensor

    # ------------------------------------------------------------------------ nodes

    def _single(self, op: str, arguments: Mapping[str, Any]) -> None:
        """Make the one node of a case in its short form."""
        ports, known = result_ports(op), parameters(op)
        given: dict[str, Any] = {}
        for key, value in arguments.items():
            if key in known:
                name = key if key not in self._values else ""
                given[key] = self._keyword(op, key, value, key, name)
            elif key in ports:
                entry, problems = described_as(ResultEntry, value, self._name, key)
                self._results[key], self._problems = entry, [*self._problems, *problems]
            else:
                every = (*known, *ports, *keys(CaseEntry))
                wanted = f"a key of a case, or one of {op}: {', '.join((*known, *ports))}"
                self._add("BENCH-01", key, "an unknown key", wanted, nearest(key, every))
        operands = [] if self._case.in_ is UNSET else self._operands(self._case.in_, "in")
        out = ports if self._case.out is UNSET else self._case.out
        if not self._problems:
            self._call(op, operands, given, out, "", "", defaults=self._case.out is UNSET)

    def _node(self, node: Any, where: str) -> None:
        op = node.get("op") if isinstance(node, dict) else None
        if op is None:
            self._add("BENCH-03", where, node, "a mapping with op, in and out")
            return
        if not is_op(op):
            self._problems.append(no_op(op, self._name, where))
            return
        before = len(self._problems)
        operands = self._operands(node.get("in", []), f"{where}.in")
        given = {
            key: self._keyword(op, key, value, f"{where}.{key}", "")
            for key, value in node.items()
            if key not in _NODE_KEYS
        }
        if len(self._problems) == before:
            self._call(op, operands, given, node.get("out"), str(node.get("type", "")), where)

    def _call(
        self,
        op: str,
        operands: Sequence[Any],
        given: Mapping[str, Any],
        out: Any,
        kind: str,
        where: str,
        *,
        defaults: bool = False,
    ) -> None:
        method: Callable[..., Any] = getattr(self._graph, op)
        try:
            _signature(op).bind(self._graph, *operands, **given)
            results = method(*operands, **given)
        except TypeError as error:
            self._add("BENCH-03", where, f"{op}: {error}", "arguments that the op takes")
            return
        except GraphError as error:
            self._problems += [placed(p, self._name) for p in error.problems]
            return
        if not isinstance(results, tuple):
            results = (results,)
        if defaults:
            named = dict(zip(getattr(results, "_fields", out), results, strict=False))
            out = [name for name, tensor in named.items() if tensor is not None]
        self._name_results([t for t in results if t is not None], out, kind, where)

    def _operands(self, given: Any, where: str) -> list[Any]:
        return [self._operand(x, where) for x in (given if isinstance(given, list) else [given])]

    def _operand(self, given: Any, where: str, name: str = "") -> Any:
        """Return a tensor, a list of tensors or a number; a new tensor gets the name."""
        if isinstance(given, str) and given in self._values:
            self._read.add(given)
            return self._values[given]
        if isinstance(given, dict) or _dims(given):
            return self._inline(given, name, where)
        if isinstance(given, list):
            return [self._operand(each, where) for each in given]
        if isinstance(given, int | float) and not isinstance(given, bool):
            return given
        wanted = "a tensor, an earlier result or a number"
        self._add("BENCH-04", where, given, wanted, nearest(given, list(self._values)))
        return None

    def _keyword(self, op: str, key: str, value: Any, where: str, name: str) -> Any:
        """Return the value of a parameter, or the operand where the parameter is a port."""
        if parameters(op).get(key, False):
            return self._operand(value, where, name)
        if key == "reference" and isinstance(value, str):
            return NUMPY_FUNCTIONS.get(value, value)
        return value

    def _name_results(self, made: list[Tensor], out: Any, kind: str, where: str) -> None:
        names = out if isinstance(out, list) else [out]
        if len(names) > len(made) or not any(isinstance(name, str) for name in names):
            wanted = f"a name for each of the {len(made)} result(s) that is wanted"
            self._add("BENCH-03", f"{where}.out", out, wanted)
            return
        for name, tensor in zip(names, made, strict=False):
            if not isinstance(name, str):
                continue
            if name in self._values:
                self._add("BENCH-03", f"{where}.out", name, "a name that is not taken")
                continue
            tensor.set_name(name)
            if kind:
                tensor.set_data_type(self._type(kind, f"{where}.type"))
            self._describe(tensor, self._results.get(name), name)
            self._values[name] = tensor
            self._made.append(name)

    def _describe(self, tensor: Tensor, entry: ResultEntry | None, name: str) -> None:
        if entry is None:
            return
        strides = self._strides(entry, name)
        if entry.dims is not UNSET:
            tensor.set_dim(entry.dims)
        if strides is not None:
            tensor.set_stride(strides)
        if entry.type:
            tensor.set_data_type(self._type(entry.type, name))


def unknown_keys(data: Any, known: Collection[str], node: str) -> Iterator[Problem]:
    """Yield a problem for each key that is not known."""
    for key in data if isinstance(data, Mapping) else ():
        if key not in known:
            hint = nearest(key, known)
            yield problem("BENCH-01", node, str(key), "an unknown key", ", ".join(known), hint)


def described_as(
    kind: type[ResultEntry], given: Any, node: str, port: str
) -> tuple[Any, list[Problem]]:
    """Return a tensor's or result's entry, one that harms nobody where something is wrong."""
    given = {"dims": given} if _dims(given) else given
    problems = list(unknown_keys(given, keys(kind), f"{node}.{port}"))
    known = {k: v for k, v in given.items() if k in keys(kind)} if problems else given
    entry, path, wanted = checked(kind, known)
    if wanted:
        problems.append(problem("BENCH-05", node, f"{port}{path}", given, wanted))
        entry = kind(dims=[1])
    return entry, problems


def _with_layout(entry: ResultEntry, layout: Any) -> ResultEntry:
    """Return a tensor in the layout of its case, unless it has one of its own or is a vector."""
    own = (entry.layout, entry.order, entry.gaps, entry.strides)
    dims = cast(list[int], entry.dims)
    if any(each is not UNSET for each in own) or sum(extent > 1 for extent in dims) < 2:
        return entry
    return replace(entry, layout=layout)


def _is_word(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= 80


def _dims(given: Any) -> bool:
    return isinstance(given, list) and bool(given) and all(type(each) is int for each in given)


def _strides_with_gaps(
    dims: Sequence[int], order: Sequence[int], gaps: Sequence[int]
) -> tuple[int, ...]:
    """Return strides in memory order with ``gaps[i]`` unused elements after dim i."""
    strides, stride = [0] * len(dims), 1
    for axis in reversed(order):
        strides[axis] = stride
        stride *= dims[axis] + gaps[axis]
    return tuple(strides)
