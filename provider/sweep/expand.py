# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Groups and axes of a suite, written out: what one entry with ``for`` stands for.

::

    sets:
      stages: [[a, 64, 56], [b, 128, 28]]
    cases:
      - for: {"stage c hw": stages, n: [1, 8], f: {from: 1, to: 7, step: 2}}
        let: {pad: f // 2}
        where: f <= hw
        cases:
          - {name: "{stage}_conv", op: conv_fprop, x: [n, c, hw, hw], w: [c, c, f, f], padding: pad}

Axes of groups and cases multiply.  An axis is a list, a range (``from``, ``to`` and ``step`` to
add or ``times`` to multiply) or the name of a set; several names at once take the rows of a
table.  ``let`` names values that follow from others, and ``where`` keeps the points for which it
holds.  A text is an expression where it reads an axis; in ``name`` and ``tags`` it has braces.
Axes that a name does not mention are appended to it (``conv_n8``).

``random: {count: 20, seed: 1}`` draws that many points instead of taking all of them; ``log:
true`` in a range draws small and large values alike.
"""

from __future__ import annotations

import math
import random
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

from ...graph_api.dtypes import DataType
from ...graph_api.errors import Problem
from .expressions import ExpressionError, evaluate, is_name, names_in
from .graphs import is_op, nearest, parameters, problem
from .schema import (
    DTYPE_SETS,
    TYPE_WORDS,
    CaseEntry,
    DrawEntry,
    RangeEntry,
    checked,
    keys,
    typed_targets,
)

__all__ = ["RESERVED", "RULES", "Entry", "expanded"]

RULES: dict[str, str] = {
    "AXIS-01": "an axis has a name of its own that nothing else in its case has",
    "AXIS-02": "an axis is a list, a range or the name of a set, with values for all of its names",
    "AXIS-03": "an expression reads axes that are given, and has a value that fits its place",
    "AXIS-04": "a suite stands for a bounded number of cases",
    "AXIS-05": "a case that is drawn has a number of draws, and points from which to draw",
}

_MOST_POINTS = 200_000  # that are looked at in a file
_MOST_CASES = 20_000
_TRIES = 200  # to draw a point for which `where` holds, for each point that is wanted
_MANY = ("for", "let", "where", "cases")
_TEXTS = ("name", "tags")  # in which axes have braces
_TEMPLATE = re.compile(r"\{([^{}]*)\}")
_SHORT = {"contiguous": "nchw", "channels_last": "nhwc"}
RESERVED: dict[str, str] = {
    **TYPE_WORDS,
    **dict.fromkeys(DTYPE_SETS, "several types, in `dtypes`"),
    **dict.fromkeys(_SHORT, "a layout"),
    **dict.fromkeys((kind.json for kind in DataType), "a data type"),
    **dict.fromkeys(("min", "max"), "a function of expressions"),
    **dict.fromkeys(("and", "or", "not", "in", "if", "else"), "an operator of expressions"),
}
"""Words that an axis cannot have as its name, and what they mean; docs/suites.md lists them."""

Values = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A case of a suite, with nothing left to expand.

    Attributes
    ----------
    about : Any
        Its keys and values, as the file has them; not a mapping where the file is wrong.
    line : int
        Where it begins, 0 where nobody knows.
    problems : tuple of Problem
        What is wrong with its axes.
    """

    about: Any
    line: int = 0
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Step:
    """What a ``for``, ``let`` or ``where`` adds to the points: one of the three."""

    names: tuple[str, ...] = ()
    values: Any = None
    let: str = ""
    where: str = ""
    line: int = 0


class _WrongError(Exception):
    def __init__(self, found: Problem, line: int = 0) -> None:
        super().__init__(str(found))
        self.problem, self.line = found, line


@dataclass(slots=True)
class _Expansion:
    """The state of reading one file."""

    sets: Mapping[str, Any]
    seed: int | None
    left: int = _MOST_POINTS
    where: str = ""  # the case that is read, for messages

    # -------------------------------------------------------------------- groups

    def entries(
        self, given: Sequence[Any], shared: Values, steps: tuple[_Step, ...]
    ) -> Iterator[Entry]:
        for about in given:
            line = getattr(about, "line", 0)
            if not isinstance(about, dict):
                yield Entry(about=about, line=line)
                continue
            merged: dict[str, Any] = {**shared, **about}
            own = {key: merged.pop(key) for key in _MANY if key in about}
            self.where = str(merged.get("name", ""))
            try:
                mine = (*steps, *self.steps(own, line))
            except _WrongError as error:
                yield _invalid(
                    merged, error, line, _product(_points(steps), self.size(own, merged))
                )
                continue
            inner = own.get("cases")
            if isinstance(inner, list) and inner:
                yield from self.entries(inner, merged, mine)
            elif inner is not None:
                yield Entry(about=inner, line=line)
            else:
                yield from self.case(merged, mine, line)

    def case(self, about: Values, steps: tuple[_Step, ...], line: int) -> Iterator[Entry]:
        """Yield what one case stands for."""
        drawn = about.get("random")
        about = {key: value for key, value in about.items() if key != "random"}
        self.where = str(about.get("name", ""))
        made = 0
        try:
            self.must_differ(steps, about)
            points = self.points(steps, {}) if drawn is None else self.drawn(drawn, steps, about)
            for number, point in enumerate(points):
                given = dict(about)
                if point or drawn is not None:
                    name = _name(str(about.get("name", "")), steps, point, drawn, number)
                    given = {**self.filled(about, point), "name": self.text(name, point)}
                    if "tags" in given:
                        given["tags"] = self.tags(about["tags"], point)
                yield from _by_layout(given, line)
                made += 1
        except _WrongError as error:
            whole = _product(_points(steps), self.size({}, about)) if drawn is None else None
            yield _invalid(about, error, line, None if made else whole)

    def size(self, own: Values, about: Values) -> int | None:
        """Return how many problems an entry stands for; None where only its expressions tell.

        Parameters
        ----------
        own : mapping
            Its ``for``, ``let``, ``where`` and ``cases``.
        about : mapping
            What else it has, that of its groups included.
        """
        axes, inner = own.get("for", {}), own.get("cases")
        if not isinstance(axes, dict) or "where" in own or "random" in about:
            return None
        found = _product(*(_length(self.sets.get(v, v) if isinstance(v, str) else v)
                           for v in axes.values()))  # fmt: skip
        if inner is None:
            return _product(found, _layouts_and_types(about))
        sizes = [
            self.size(each, {**about, **each}) if isinstance(each, dict) else None
            for each in (inner if isinstance(inner, list) else [inner])
        ]
        known = [size for size in sizes if size is not None]
        return _product(found, sum(known) if len(known) == len(sizes) else None)

    # -------------------------------------------------------------------- steps

    def steps(self, own: Values, line: int) -> Iterator[_Step]:
        """Yield what a group or a case says of the points, in the order in which it holds."""
        axes, lets = own.get("for", {}), own.get("let", {})
        for key, given in (("for", axes), ("let", lets)):
            if not isinstance(given, dict):
                raise self.wrong("AXIS-02", key, given, "a mapping from names", line=line)
        at = getattr(axes, "line", 0) or line
        for key, values in axes.items():
            names = tuple(str(key).replace(",", " ").split())
            for name in names:
                self.must_be_axis(name, "for", at)
            yield _Step(names=names, values=self.values(str(key), names, values, at), line=at)
        at = getattr(lets, "line", 0) or line
        for name in lets:
            self.must_be_axis(str(name), "let", at)
        for name in self.in_order(lets, at):
            yield _Step(names=(name,), let=str(lets[name]), line=at)
        conditions = own.get("where", [])
        for text in conditions if isinstance(conditions, list) else [conditions]:
            yield _Step(where=str(text), line=line)

    def in_order(self, lets: Values, line: int) -> Iterator[str]:
        """Return the names of ``let``, each behind those from which it follows."""
        reads = {name: names_in(str(text)) & lets.keys() - {name} for name, text in lets.items()}
        try:
            return iter([*TopologicalSorter(reads).static_order()])
        except CycleError as error:
            circle = ", ".join(error.args[1][:-1])
            wanted = "values that follow from axes, not from each other"
            raise self.wrong("AXIS-03", "let", circle, wanted, line=line) from None

    def must_be_axis(self, name: str, key: str, line: int) -> None:
        if not is_name(name) or name in RESERVED:
            wanted = "a name of letters, digits and _ that is no word of suites"
            hint = f"{name} means {RESERVED[name]}; rename it" if name in RESERVED else ""
            raise self.wrong("AXIS-01", key, name, wanted, hint, line)

    def values(self, key: str, names: tuple[str, ...], given: Any, line: int) -> Any:
        """Return the values of an axis: a list, or a range that is not yet written out."""
        port = f"for.{key}"
        if isinstance(given, str):
            if given not in self.sets:
                wanted = f"a list, a range, or one of the sets {', '.join(self.sets) or '(none)'}"
                hint = nearest(given, list(self.sets))
                raise self.wrong("AXIS-02", port, given, wanted, hint, line)
            given = self.sets[given]
        if not names or len(set(names)) < len(names):
            raise self.wrong("AXIS-01", port, key, "names, each once", line=line)
        if isinstance(given, dict):
            found, path, wanted = checked(RangeEntry, given)
            if unknown := [str(key) for key in given if key not in keys(RangeEntry)]:
                hint = nearest(unknown[0], keys(RangeEntry))
                raise self.wrong(
                    "AXIS-02", port, unknown[0], ", ".join(keys(RangeEntry)), hint, line
                )
            if wanted:
                raise self.wrong("AXIS-02", f"{port}{path}", given, wanted, line=line)
            if len(names) == 1:
                return found
        if not isinstance(given, list) or not given:
            raise self.wrong("AXIS-02", port, given, "a list of values, or a range", line=line)
        if len(names) > 1:
            for row in given:
                if not isinstance(row, list) or len(row) != len(names):
                    wanted = f"rows of {len(names)} values ({key})"
                    raise self.wrong("AXIS-02", port, row, wanted, line=line)
        return given

    def must_differ(self, steps: Sequence[_Step], about: Values) -> None:
        axes = {name: step for step in steps for name in step.names}
        taken = axes.keys() & _names_of(about)
        if taken:
            name = min(taken)
            wanted = "an axis with another name than the tensors, ports and results of its case"
            raise self.wrong("AXIS-01", "let" if axes[name].let else "for", name, wanted)

    # -------------------------------------------------------------------- points

    def points(self, steps: Sequence[_Step], point: Values) -> Iterator[Values]:
        """Yield every point of the product for which the conditions hold."""
        self.left -= 1
        if self.left < 0:
            raise self.wrong("AXIS-04", "for", f"more than {_MOST_POINTS} points", "fewer")
        if not steps:
            yield point
            return
        step, rest = steps[0], steps[1:]
        if step.where:
            if self.value(step.where, point, "where", step.line):
                yield from self.points(rest, point)
        elif step.let:
            yield from self.points(rest, {**point, **self.named(step, step.let, point)})
        else:
            for value in self.listed(step, point):
                yield from self.points(rest, {**point, **self.named(step, value, point)})

    def named(self, step: _Step, value: Any, point: Values) -> dict[str, Any]:
        """Return the values of a step's names; a text that reads earlier axes is computed."""
        values = [value] if len(step.names) == 1 else value
        if step.let:
            return {step.names[0]: self.value(step.let, point, f"let.{step.names[0]}", step.line)}
        found: dict[str, Any] = {}
        for name, given in zip(step.names, values, strict=True):
            found[name] = self.filled(given, {**point, **found})
        return found

    def listed(self, step: _Step, point: Values) -> Sequence[Any]:
        if not isinstance(step.values, RangeEntry):
            found: Sequence[Any] = step.values
            return found
        low, high, by, times = self.limits(step, step.values, point)
        if step.values.log and times is None:
            wanted = "times instead of log, which is for draws"
            raise self.wrong("AXIS-02", f"for.{step.names[0]}", "log", wanted, line=step.line)
        if times is None:
            return range(low, high + 1, by)
        count = int(math.log(high / low, times) + 1e-9) if 0 < low <= high else -1
        return [low * times**power for power in range(count + 1)]

    def limits(
        self, step: _Step, given: RangeEntry, point: Values
    ) -> tuple[int, int, int, int | None]:
        """Return first and last value, and what is added or multiplied."""
        port = f"for.{step.names[0]}"
        found = []
        for name, text in (("from", given.from_), ("to", given.to), ("step", given.step)):
            value = text if isinstance(text, int) else self.value(text, point, port, step.line)
            if type(value) is not int or (name == "step" and value < 1):
                raise self.wrong("AXIS-02", f"{port}.{name}", value, "an integer", line=step.line)
            found.append(value)
        return found[0], found[1], found[2], given.times

    def drawn(self, given: Any, steps: Sequence[_Step], about: Values) -> Iterator[Values]:
        """Yield points drawn at random, each once."""
        given = {"count": given} if type(given) is int else given
        entry, path, wanted = checked(DrawEntry, given)
        if wanted:
            raise self.wrong("AXIS-05", f"random{path}", given, f"count and seed: {wanted}")
        seed = entry.seed if self.seed is None else self.seed
        label = f"{about.get('op', '')}.{about.get('name', '')}"
        draw = random.Random(seed * 2**32 + zlib.crc32(label.encode()))
        seen: set[str] = set()
        for _ in range(_TRIES * entry.count):
            point = self.draw(draw, steps)
            if point is not None and (known := repr(point)) not in seen:
                seen.add(known)
                yield point
            if len(seen) == entry.count:
                return
        if not seen:
            raise self.wrong("AXIS-05", "random", "no point", "some for which where holds")

    def draw(self, draw: random.Random, steps: Sequence[_Step]) -> Values | None:
        self.left -= 1
        if self.left < 0:
            raise self.wrong("AXIS-04", "random", f"more than {_MOST_POINTS} points", "fewer")
        point: dict[str, Any] = {}
        for step in steps:
            if step.where:
                if not self.value(step.where, point, "where", step.line):
                    return None
                continue
            value: Any = None
            if not step.let:
                some = step.values
                if isinstance(some, RangeEntry) and some.log and some.times is None:
                    low, high, by, _ = self.limits(step, some, point)
                    if not 0 < low <= high:
                        return None
                    value = round(math.exp(draw.uniform(math.log(low), math.log(high))))
                    value = min(max(value // by * by, low), high)
                elif listed := self.listed(step, point):
                    value = draw.choice(listed)
                else:
                    return None
            point |= self.named(step, value, point)
        return point

    # -------------------------------------------------------------------- values

    def value(self, text: str, point: Values, port: str, line: int = 0) -> Any:
        try:
            return evaluate(text, point)
        except ExpressionError as error:
            wanted = f"an expression of {', '.join(point) or 'axes'}"
            raise self.wrong("AXIS-03", port, str(error), wanted, error.hint, line) from None

    def filled(
        self, given: Any, point: Values, port: str = "", known: frozenset[str] = frozenset()
    ) -> Any:
        """Return a value in which every expression that reads an axis is computed."""
        if isinstance(given, str):
            names = names_in(given)
            if not names or names.isdisjoint(point):
                return given
            return self.value(given, point, port)
        if isinstance(given, dict):
            known = known or _names_of(given)
            return {
                key: value
                if key in ("name", "tags")
                else self.filled(value, point, str(key), known)
                for key, value in given.items()
            }
        if isinstance(given, list):
            found = [self.filled(value, point, port, known) for value in given]
            computed = any(new != old for new, old in zip(found, given, strict=True))
            for value in found if computed else ():
                if isinstance(value, str) and is_name(value) and value not in known:
                    self.must_be_known(value, point, port, known)
            return found
        return given

    def must_be_known(self, text: str, point: Values, port: str, known: frozenset[str]) -> None:
        """Refuse a name beside computed values that is neither an axis nor a tensor."""
        if text in RESERVED or text in point.values():
            return
        wanted = f"an axis ({', '.join(point)}) or a tensor of the case"
        raise self.wrong("AXIS-03", port, text, wanted, nearest(text, [*point, *known]))

    def text(self, template: str, point: Values) -> str:
        """Return a template with its braces computed."""
        return _TEMPLATE.sub(lambda m: _word(self.value(m[1], point, "name")), template)

    def tags(self, given: Any, point: Values) -> Any:
        if not isinstance(given, list):
            return given
        return [self.text(tag, point) if isinstance(tag, str) else tag for tag in given]

    def wrong(
        self, rule: str, port: str, got: object, wanted: str, hint: str = "", line: int = 0
    ) -> _WrongError:
        return _WrongError(problem(rule, self.where, port, got, wanted, hint), line)


def expanded(
    given: Sequence[Any], shared: Values, *, sets: Values, seed: int | None = None
) -> Iterator[Entry]:
    """Yield the cases that entries of a file stand for.

    Parameters
    ----------
    given : sequence
        The file's list of cases and groups.
    shared : mapping
        What all of them have in common, ``for``, ``let`` and ``where`` included.
    sets : mapping
        Values by name.
    seed : int, optional
        Instead of those that ``random`` gives.
    """
    state = _Expansion(sets=sets, seed=seed)
    group = {key: value for key, value in shared.items() if key in _MANY}
    rest = {key: value for key, value in shared.items() if key not in _MANY}
    whole = [{**group, "cases": list(given)}] if group and given else given
    for number, entry in enumerate(state.entries(whole, rest, ())):
        if number == _MOST_CASES:
            wrong = problem("AXIS-04", "", "cases", f"more than {_MOST_CASES} cases", "fewer")
            yield Entry(about={}, line=entry.line, problems=(wrong,))
            return
        yield entry


def _invalid(about: Any, error: _WrongError, line: int, size: int | None) -> Entry:
    """Return an entry that is wrong as a whole; ``size`` is of `_Expansion.size`."""
    told = f"the entry stands for {size:,} problems" if size is not None and size > 1 else ""
    hint = "; ".join(filter(None, (error.problem.hint, told)))
    return Entry(
        about=about, line=error.line or line, problems=(replace(error.problem, hint=hint),)
    )


def _product(*sizes: int | None) -> int | None:
    """Return the product of sizes, None where one is not known."""
    known = [size for size in sizes if size is not None]
    return math.prod(known) if len(known) == len(sizes) else None


def _points(steps: Sequence[_Step]) -> int | None:
    """Return how many points steps have together, None where a condition decides."""
    if any(step.where for step in steps):
        return None
    return _product(*(_length(step.values) for step in steps if not step.let))


def _length(values: Any) -> int | None:
    """Return how many values an axis has, None where that takes an expression."""
    if isinstance(values, list):
        return len(values)
    if isinstance(values, dict):
        values = checked(RangeEntry, values)[0]
    if not isinstance(values, RangeEntry) or values.times is not None:
        return None
    low, high, step = values.from_, values.to, values.step
    if not (isinstance(low, int) and isinstance(high, int) and isinstance(step, int) and step > 0):
        return None
    return len(range(low, high + 1, step))


def _layouts_and_types(about: Values) -> int | None:
    layouts = about.get("layouts", [""])
    try:
        types = typed_targets(about.get("dtypes") or about.get("io", "float"))
    except (AttributeError, TypeError, ValueError):
        return None
    return len(layouts) * len(types) if isinstance(layouts, list) else None


def _names_of(about: Values) -> frozenset[str]:
    """Return the names that tensors have in a case: given ones, ports, and results."""
    found: list[Any] = []
    for key in ("tensors", "results"):
        found += about[key] if isinstance(about.get(key), dict) else ()
    nodes = about.get("nodes")
    for node in nodes if isinstance(nodes, list) else ():
        out = node.get("out") if isinstance(node, dict) else None
        found += out if isinstance(out, list) else [out]
    op = about.get("op")
    if nodes is None and is_op(op):
        takes = parameters(op)
        found += [key for key in about if takes.get(key) and key not in keys(CaseEntry)]
    return frozenset(name for name in found if isinstance(name, str))


def _name(template: str, steps: Sequence[_Step], point: Values, drawn: Any, number: int) -> str:
    """Return a case's name with the axes that it does not mention, or the number of its draw."""
    if drawn is not None:
        return f"{template}_{number:03}"
    mentioned = {name for part in _TEMPLATE.findall(template) for name in names_in(part)}
    parts = [template]
    for step in steps:
        if step.names and not step.let and mentioned.isdisjoint(step.names):
            parts.append(_label(step.names, [point[name] for name in step.names]))
    return "_".join(filter(None, parts))


def _label(names: Sequence[str], values: Sequence[Any]) -> str:
    """Return what a point is called on one axis: a row of a table by its first value if a text."""
    if isinstance(values[0], str):
        return _word(values[0])
    parts = []
    for name, value in zip(names, values, strict=True):
        if isinstance(value, bool):
            parts.append(name if value else f"no_{name}")
        else:
            parts.append(_word(value) if isinstance(value, str) else f"{name}{_word(value)}")
    return "_".join(parts)


def _word(value: Any) -> str:
    if isinstance(value, list):
        return "x".join(map(_word, value))
    if isinstance(value, float):
        return f"{value:g}"
    return _SHORT.get(value, value) if isinstance(value, str) else str(value)


def _by_layout(about: dict[str, Any], line: int) -> Iterator[Entry]:
    """Yield the case in each of its layouts."""
    if "layouts" not in about:
        yield Entry(about=about, line=line)
        return
    layouts, name = about.pop("layouts"), str(about.get("name", ""))
    words = [str(word) for word in layouts] if isinstance(layouts, list) else [str(layouts)]
    unknown = [word for word in words if word not in _SHORT]
    if unknown or not words or not isinstance(layouts, list):
        hint = nearest(unknown[0], _SHORT) if unknown else ""
        wanted = f"a list of {' and '.join(_SHORT)}"
        wrong = problem("AXIS-02", name, "layouts", layouts, wanted, hint)
        yield Entry(about=about, line=line, problems=(wrong,))
        return
    for layout in words:
        tags = about.get("tags", [])
        last = layout == "channels_last" and isinstance(tags, list) and "nhwc" not in tags
        more = {"tags": [*tags, "nhwc"]} if last else {}
        given = {**about, **more, "name": f"{name}_{_SHORT[layout]}", "layout": layout}
        yield Entry(about=given, line=line)
