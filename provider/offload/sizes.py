# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One program for many sizes, read off programs at a few of them.

A module whose extents are only known at execution is taken through the pipeline at some sizes.
What differs between the programs is numbers; each is a product of sizes, or a sum of multiples of
them, that gives all of them.  So a program for any other size follows without MLIR, and the dims of
its graphs say which of them vary: a graph gets one code for all sizes where an engine has that
(docs/dynamic-shapes.md), the code of a bucket where buckets are wanted, else code for each size.

Two of the sizes are the smallest and the largest that are served, so that a bound in between, as
of a slice, is seen.  Where no rule gives all numbers, there is no family, and each size takes the
whole way.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any

from ...graph_api.dynamic import mark_dynamic
from ...graph_api.dynamic_dim import DynamicDim
from ...graph_api.errors import (
    BindError,
    Decline,
    GraphError,
    HipdnnIreeError,
    NotPrecompiledError,
    NotSupportedError,
    Problem,
)
from ...graph_api.frozen import FrozenGraph
from ..bucket_plan import BucketPlan
from ..dynamic_plan import DynamicPlan, ExactPlan
from ..plan import Plan
from .finished import Program, planned

__all__ = ["Build", "Family", "Programs", "Sizes", "family", "sizes_of"]

_HIGHEST, _LOWEST = (4099, 257), (1, 2)
"""Ends of the range that is served, the widest first; primes, so that nothing divides them."""
_BASE, _OTHER = (7, 11, 13), (18, 20, 22)
_MOST_SYMBOLS = len(_BASE)
_MOST_FACTORS = 4  # of one size in a number: of bytes, say

log = logging.getLogger("hipdnn_iree.offload")

_NUMBER = re.compile(r"0|[1-9]\d*")

Sizes = Mapping[str, int]
Dims = Sequence[int | str]
"""Of a tensor: an extent, or the name of one that is known at execution."""
Build = Callable[..., Plan]
"""Takes a graph, and as ``buckets`` the sizes of dynamic dims, by name, that are rounded up to."""


class _DiffersError(Exception):
    """Programs at several sizes have another form, or numbers that no rule gives."""


@dataclass(frozen=True)
class Family:
    """A program for all sizes in a range.

    Attributes
    ----------
    symbols : tuple of str
        Names of extents.
    lowest, highest : int
        The sizes that are served, both included.
    template : mapping
        The program as JSON, with rules in place of numbers that vary.
    build : callable, optional
        Builds a plan; without it there is only the code of ``plans``, as of a file.
    buckets : tuple of int
        Sizes that others are rounded up to, as `prepared` was given them.
    plans : mapping of str to (Plan, mapping)
        By the name of their graph: those that serve every size, and the rules of their dims by
        name; without any for a graph that is the same at every size.
    each_size : mapping of str to str
        Why the other graphs have code for each size, by their name.
    """

    symbols: tuple[str, ...]
    lowest: int
    highest: int
    template: Mapping[str, Any]
    build: Build | None = None
    buckets: tuple[int, ...] = ()
    plans: dict[str, tuple[Plan, Mapping[str, Any]]] = field(default_factory=dict)
    each_size: dict[str, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether every graph has code that serves all sizes, or those of buckets."""
        return all(name in self.plans for name in self.template["graphs"])

    def code(self, name: str) -> str:
        """Return what a graph's code serves: fixed, all sizes, buckets, or each size."""
        if name not in self.plans:
            return "each size"
        plan, rules = self.plans[name]
        if not rules:
            return "fixed"
        return "buckets" if isinstance(plan, BucketPlan) else "all sizes"

    def covers(self, sizes: Sizes) -> bool:
        """Whether the family serves these sizes."""
        return all(self.lowest <= sizes[name] <= self.highest for name in self.symbols)

    def at(self, sizes: Sizes) -> tuple[Program, dict[str, Plan]]:
        """Return the program at some sizes, and its plans; code for these sizes may be compiled.

        Raises
        ------
        HipdnnIreeError
            If a graph is not served at these sizes, or has no code for them where nothing can be
            compiled.
        """
        program = planned(self._program(sizes))
        return program, {name: self._plan(name, g, sizes) for name, g in program.graphs.items()}

    def _program(self, sizes: Sizes) -> Program:
        record = _filled(self.template, sizes)
        graphs = {name: json.dumps(graph) for name, graph in record["graphs"].items()}
        return Program.from_json({**record, "graphs": graphs})

    def _plan(self, name: str, graph: FrozenGraph, sizes: Sizes) -> Plan:
        whole, dims = self.plans.get(name, (None, {}))
        if whole is not None and not dims:
            return whole
        if whole is not None:
            wanted = {dim: _filled(rule, sizes) for dim, rule in dims.items()}
            try:
                found = whole.with_sizes(wanted)
            except GraphError:  # above the largest bucket
                return self._met(name, graph, sizes)
            have, tensors = found.graph.tensors, graph.tensors
            if all(have[uid].dims == tensors[uid].dims for uid in (*graph.inputs, *graph.outputs)):
                return found
        return self._met(name, graph, sizes)

    def in_words(self, sizes: Sizes) -> str:
        """Return the sizes for a message."""
        return ", ".join(f"{name} = {sizes[name]}" for name in self.symbols)

    def _met(self, name: str, graph: FrozenGraph, sizes: Sizes) -> Plan:
        """Return a plan for sizes that the graph's code does not serve."""
        if self.build is not None:
            return self.build(graph)
        largest = max(sizes[symbol] for symbol in self.symbols)
        have = "other dims"
        way_out = "run the model that it was written from"
        if self.code(name) == "buckets":
            sides = ", ".join(map(str, self.buckets))
            have = f"the buckets {' and '.join(self.symbols)} = {sides}"
            way_out = f"write it with a bucket of at least {largest} (option buckets), or {way_out}"
        raise NotSupportedError(
            f"the model with compiled code has none for {self.in_words(sizes)}: the graph of "
            f"{', '.join(self.template['nodes'][name])} has code for {have}; {way_out}"
        )

    def prepared(self, build: Build, buckets: Sequence[int] = ()) -> Family:
        """Return the family with plans that serve every size, or those of buckets, where it can."""
        found = replace(self, build=build, buckets=tuple(buckets), plans={}, each_size={})
        base = dict(zip(self.symbols, _BASE, strict=False))
        for name, graph in self._program(base).graphs.items():
            made = found._for_all_sizes(build, name, graph)
            if isinstance(made, str):
                found.each_size[name] = made
                log.info("graph %s has code for each size: %s", name, made)
            else:
                found.plans[name] = made
        return found

    def _for_all_sizes(
        self, build: Build, name: str, graph: FrozenGraph
    ) -> tuple[Plan, Mapping[str, Any]] | str:
        """Return a plan for every size with the rules of its dims, or why there is none."""
        if not self._varies(name):
            return build(graph), {}
        rules: dict[str, Any] = {}  # by the name of the dim
        marks: dict[int, tuple[str, ...]] = {}
        for tensor in self.template["graphs"][name]["tensors"]:
            uid = tensor["uid"]
            if uid in graph.inputs and any(isinstance(rule, dict) for rule in tensor["dims"]):
                marks[uid] = tuple(_named(rule, rules) for rule in tensor["dims"])
        dims = {dim: self._dim(dim, rule) for dim, rule in rules.items()}
        if not dims:
            return "no dim of an input tells the size"
        try:
            marked = mark_dynamic(graph, dims, marks)
        except GraphError as error:
            return _reason(error)
        rounded = {
            dim: sorted({_filled(rule, dict.fromkeys(self.symbols, size)) for size in self.buckets})
            for dim, rule in rules.items()
        }
        reasons = []
        for more in ({"buckets": rounded}, {}) if self.buckets else ({},):
            try:
                plan = build(marked, **more)
            except NotPrecompiledError:
                raise
            except HipdnnIreeError as error:
                reasons.append(_reason(error))
                continue
            if isinstance(plan, DynamicPlan) and not isinstance(plan, ExactPlan):
                return plan, rules
            reasons.append(f"{plan.engine} has no code for all sizes")
        return "; ".join(reasons)

    def _varies(self, name: str) -> bool:
        graph = self.template["graphs"][name]
        low, high = (
            _filled(graph, dict.fromkeys(self.symbols, size))
            for size in (self.lowest, self.highest)
        )
        return bool(low != high)

    def _dim(self, name: str, rule: Any) -> DynamicDim:
        low, high = (
            _filled(rule, dict.fromkeys(self.symbols, size)) for size in (self.lowest, self.highest)
        )
        example = _filled(rule, dict(zip(self.symbols, _BASE, strict=False)))
        return DynamicDim(name, low, min(high, 2**31 - 1), example)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form, without plans."""
        names = ("symbols", "lowest", "highest", "template", "buckets")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Family:
        """Return the family that `as_json` wrote; `prepared` gives it plans."""
        low, high, template = (record[name] for name in ("lowest", "highest", "template"))
        buckets = tuple(record.get("buckets", ()))  # files of older versions lack them
        return cls(tuple(record["symbols"]), low, high, template, buckets=buckets)


def _reason(error: HipdnnIreeError) -> str:
    declines: Sequence[Decline] = getattr(error, "declines", ())
    problems: Sequence[Problem] = getattr(error, "problems", [one.problem for one in declines])
    if problems:
        first = problems[0]  # without its hint, which is for a caller of `Graph.build`
        return f"{first.where}: [{first.rule}] got {first.got}; wanted {first.wanted}"
    return " ".join(str(error).split())[:600]


@dataclass(frozen=True)
class Programs:
    """The programs of a function for all sizes.

    Attributes
    ----------
    whole : callable
        Returns program and plans at sizes that the family does not serve.
    family : Family, optional
    """

    whole: Callable[[Sizes], tuple[Program, dict[str, Plan]]]
    family: Family | None = None

    def at(self, sizes: Sizes) -> tuple[Program, dict[str, Plan]]:
        """Return program and plans at some sizes.

        Raises
        ------
        HipdnnIreeError
            If something is not served at these sizes.
        """
        if self.family is not None and self.family.covers(sizes):
            return self.family.at(sizes)
        return self.whole(sizes)


def sizes_of(dims: Sequence[Dims], shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """Return the sizes that the shapes of tensors tell, by the dims that are declared.

    Raises
    ------
    BindError
        For another number of shapes (OFFLOAD-08), and for some that do not fit (OFFLOAD-09).
    """
    sizes: dict[str, int] = {}
    if len(dims) != len(shapes):
        got, wanted = f"{len(shapes)} inputs", f"{len(dims)}"
        problem = Problem(rule="OFFLOAD-08", got=got, wanted=wanted)
        raise BindError("the inputs do not fit the function", [problem])
    for k, (declared, shape) in enumerate(zip(dims, shapes, strict=True)):
        fits = len(declared) == len(shape) and all(
            size == (sizes.setdefault(wanted, size) if isinstance(wanted, str) else wanted)
            for wanted, size in zip(declared, shape, strict=True)
        )
        if not fits:
            known = [f"{name} = {size}" for name, size in sizes.items()]
            wanted = f"[{', '.join(map(str, declared))}], {', '.join(known)}"
            problem = Problem(
                rule="OFFLOAD-09", port=f"input {k}", got=str(list(shape)), wanted=wanted
            )
            raise BindError("the shapes of the inputs do not fit one another", [problem])
    return sizes


def _named(rule: Any, rules: dict[str, Any]) -> str:
    """Return the name of the dim with a rule, a new one if there is none; empty for a number."""
    if not isinstance(rule, dict):
        return ""
    for name, known in rules.items():
        if known == rule:
            return name
    rules[f"d{len(rules)}"] = rule
    return f"d{len(rules) - 1}"


def family(program: Callable[[Sizes], Program], symbols: Sequence[str]) -> Family | None:
    """Return a module's programs at all sizes, or None where no rules give them.

    Parameters
    ----------
    program : callable
        Returns the program at some sizes, its buffers not planned; what it raises of ours means
        that there is none.
    symbols : sequence of str
        Names of the extents.
    """
    names = tuple(symbols)
    if not 1 <= len(names) <= _MOST_SYMBOLS:
        return None
    base = dict(zip(names, _BASE, strict=False))
    points = [base, *({**base, n: other} for n, other in zip(names, _OTHER, strict=False))]
    records: dict[tuple[int, ...], Any] = {}

    def record(point: Sizes) -> Any:
        key = tuple(point.values())
        if key not in records:
            records[key] = _record(program(point))
        return records[key]

    for highest, lowest in product(_HIGHEST, _LOWEST):
        ends = [{**base, name: highest} for name in names] + [dict.fromkeys(names, lowest)]
        try:
            template = _ruled([record(point) for point in (*points, *ends)], [*points, *ends])
        except NotPrecompiledError:
            raise
        except (_DiffersError, HipdnnIreeError) as error:
            log.info("no program for sizes from %d to %d: %s", lowest, highest, error)
            continue
        return Family(names, lowest, highest, template)
    return None


def _record(program: Program) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(json.dumps(program.as_json()))
    record["graphs"] = {name: json.loads(graph) for name, graph in record["graphs"].items()}
    for graph in record["graphs"].values():
        # Their order when frozen depends on dims; regions number results as nodes are added.
        graph["nodes"].sort(key=_first_result)
    return record


def _first_result(node: Mapping[str, Any]) -> int:
    sides = (value for key, value in node.items() if "output" in key)
    return min((uid for side in sides for uid in _integers(side)), default=0)


def _integers(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _integers(one)


# -------------------------------------------------------------------------- rules


def _ruled(values: Sequence[Any], points: Sequence[Sizes]) -> Any:
    """Return what gives each value at its point: itself where all are equal, else a rule."""
    first = values[0]
    if any(type(v) is not type(first) for v in values):
        raise _DiffersError
    if all(v == first for v in values):
        return first
    match first:
        case dict() if all(v.keys() == first.keys() for v in values):
            laid = {"strides"} if "dims" in first and "strides" in first else set[str]()
            found = {k: _ruled([v[k] for v in values], points) for k in first if k not in laid}
            if laid:
                found["strides"] = _strides([(v["dims"], v["strides"]) for v in values])
            return found
        case list() if all(map(_is_text, values)):
            return {"$bytes": _ruled([bytes(v).decode() for v in values], points)}
        case list() if all(len(v) == len(first) for v in values):
            return [_ruled(list(each), points) for each in zip(*values, strict=True)]
        case str() if _pieces(first) != [first]:
            return {"$text": _ruled([_pieces(v) for v in values], points)}
        case int() if not isinstance(first, bool):
            return _number(values, points)
    raise _DiffersError


def _is_text(value: Sequence[Any]) -> bool:
    """Whether a list is the bytes of a text, as graphs hold functions that are no ops of theirs."""
    return len(value) > 64 and all(isinstance(v, int) and 9 <= v < 127 for v in value)


def _pieces(text: str) -> list[str | int]:
    """Return a text, such as a function in MLIR, with its numbers apart."""
    return [int(part) if _NUMBER.fullmatch(part) else part for part in re.split(r"(\d+)", text)]


def _number(values: Sequence[int], points: Sequence[Sizes]) -> Any:
    names = list(points[0])
    for rule in (_product(values, points, names), _sum(values, points, names)):
        if rule and all(_filled(rule, p) == v for v, p in zip(values, points, strict=True)):
            return rule
    raise _DiffersError


def _product(values: Sequence[int], points: Sequence[Sizes], names: Sequence[str]) -> Any:
    """Return the product of sizes that would give the values; the point k + 1 varies name k."""
    powers, base = {}, points[0]
    for k, name in enumerate(names):
        for power in range(_MOST_FACTORS + 1):
            if values[k + 1] * base[name] ** power == values[0] * points[k + 1][name] ** power:
                powers[name] = power
                break
        else:
            return None
    whole = prod(base[name] ** power for name, power in powers.items())
    return {"$product": [values[0] // whole, powers]}


def _sum(values: Sequence[int], points: Sequence[Sizes], names: Sequence[str]) -> Any:
    base = points[0]
    factors = {
        name: (values[k + 1] - values[0]) // (points[k + 1][name] - base[name])
        for k, name in enumerate(names)
    }
    rest = values[0] - sum(factor * base[name] for name, factor in factors.items())
    return {"$sum": [rest, factors]}


def _strides(tensors: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Any:
    """Return strides that are equal, or the order of dims in memory of dense ones."""
    first = tensors[0][1]
    if all(strides == first for _, strides in tensors):
        return first
    order = sorted(range(len(first)), key=lambda axis: -first[axis])
    for dims, strides in tensors:
        dense = _dense(dims, order)
        if any(n > 1 and s != d for n, s, d in zip(dims, strides, dense, strict=True)):
            raise _DiffersError("strides")
    return {"$order": order}


def _dense(dims: Sequence[int], order: Sequence[int]) -> list[int]:
    found, step = [0] * len(dims), 1
    for axis in reversed(order):
        found[axis] = step
        step *= dims[axis]
    return found


def _filled(template: Any, sizes: Sizes) -> Any:
    """Return a template at some sizes."""
    match template:
        case {"$product": [factor, powers]}:
            return factor * prod(sizes[name] ** power for name, power in powers.items())
        case {"$sum": [rest, factors]}:
            return rest + sum(factor * sizes[name] for name, factor in factors.items())
        case {"$text": pieces}:
            return "".join(str(_filled(piece, sizes)) for piece in pieces)
        case {"$bytes": text}:
            return list(_filled(text, sizes).encode())
        case dict():
            found = {key: _filled(value, sizes) for key, value in template.items()}
            match found.get("strides"):
                case {"$order": order}:
                    found["strides"] = _dense(found["dims"], order)
            return found
        case list():
            return [_filled(value, sizes) for value in template]
    return template
