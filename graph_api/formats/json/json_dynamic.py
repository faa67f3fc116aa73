# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dynamic dims in graph JSON: an extension of hipDNN's format, which its readers skip.

::

    "dynamic_dims": {"n": {"range": [1, 4096], "example": 8}},
    "tensors": [{"uid": 1, "dims": [8, 64], "dynamic_dims": {"0": "n"}, ...}]

``dims`` has the examples, so that the file is a graph with fixed dims to who does not know this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import GraphError

if TYPE_CHECKING:
    from ...graph import Graph
    from ...tensor import Tensor

__all__ = ["read_dims", "read_marks"]

_KEY = "dynamic_dims"


class Reader(Protocol):
    """What is needed of the reader of a whole file."""

    def report(self, rule: str, where: str, key: str, value: Any, wanted: str) -> None:
        """Add a problem with a value of the file."""

    def say(self, rule: str, where: str, key: str, got: str, wanted: str) -> None:
        """Add a problem in words."""

    def integers(self, where: str, key: str, value: Any) -> tuple[int, ...] | None:
        """Return an array of integers, or None with a problem."""

    def integer(self, where: str, key: str, value: Any) -> int | None:
        """Return an integer, or None with a problem."""


def read_dims(reader: Reader, graph: Graph, items: Any) -> None:
    """Add the dynamic dims of a file to the graph."""
    if items is None:
        return
    if not isinstance(items, Mapping):
        reader.report("JSON-04", "graph", _KEY, items, "an object of dims by name")
        return
    for name, item in items.items():
        where = f"{_KEY}.{name}"
        if not isinstance(item, Mapping):
            reader.report("JSON-04", "graph", where, item, "an object with range and example")
            continue
        bounds = reader.integers(where, "range", item.get("range"))
        example = reader.integer(where, "example", item.get("example"))
        if bounds is None or example is None:
            continue
        try:
            graph.dynamic(name, range=bounds, example=example)  # type: ignore[arg-type]
        except GraphError as error:
            problem = error.problems[0]
            reader.say("JSON-04", "graph", where, problem.got, problem.wanted)


def read_marks(reader: Reader, where: str, tensor: Tensor, items: Any) -> None:
    """Mark the dynamic dims of a tensor."""
    if items is None:
        return
    if not isinstance(items, Mapping):
        reader.report("JSON-04", where, _KEY, items, "an object of names by the number of the dim")
        return
    dims, symbols = tensor.given_dims or (), tensor.graph.symbols
    marks = [""] * len(dims)
    for key, name in items.items():
        axis = int(key) if key.isdecimal() and len(key) < 3 else len(dims)
        if axis >= len(dims):
            reader.say("JSON-04", where, _KEY, f"dim {key}", f"a dim from 0 to {len(dims) - 1}")
        elif not isinstance(name, str) or name not in symbols:
            known = ", ".join(symbols) or "none"
            reader.report("JSON-06", where, _KEY, name, f"a name in the graph's {_KEY}: {known}")
        elif dims[axis] != symbols[name].example:
            wanted = f"{symbols[name].example}, the example of {name}"
            reader.say("JSON-04", where, "dims", f"{dims[axis]} as dim {axis}", wanted)
        else:
            marks[axis] = name
    tensor.dynamic = tuple(marks) if any(marks) else ()
