# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random graphs as cases of a sweep, named by a line that gives the same ones each time.

::

    fuzz --seed 1 --count 1000
    fuzz --seed 17 --style conv --nodes 4 --gaps

`read_all` takes such a line as the name of a suite, so that `sweep`, `report` and `repro` take
random graphs as any other problem.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ....graph_api.dtypes import DataType
from ....graph_api.errors import FormatError, Problem
from ....graph_api.formats.json.json_form import dumps
from ....graph_api.frozen import FrozenGraph
from ...graph import Graph
from ..graphs import nearest, problem
from ..suite import Case, Suite
from .random_graphs import STYLES, random_graph

__all__ = ["RULES", "Draw", "drawn_cases", "drawn_suite", "is_drawn"]

RULES: dict[str, str] = {
    "FUZZ-01": "random graphs are drawn by a seed, a count and what a graph is to be like",
    "FUZZ-02": "numbers are integers within limits, extent and size are two, styles are known",
}

_WORD = "fuzz"
MOST_GRAPHS, MOST_NODES = 100_000, 100
_SIZES = (1, 64)  # of a dynamic dim
_LIMITS = {
    "seed": (0, 2**63),
    "count": (1, MOST_GRAPHS),
    "nodes": (0, MOST_NODES),
    "extent": (2, 100_000),
    "size": _SIZES,
}
_DIM = "n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Draw:
    """Which graphs are drawn.

    Attributes
    ----------
    seed : int
        Of the first graph; the others have those that follow.
    count : int
    style : str
        One of `STYLES`; empty: one of them for each graph.
    nodes : int
        About how many; 0: 2 to 12.
    gaps : bool
        Whether outputs are parts of larger buffers.
    extent : int
        Dims of inputs that have this extent are made one dynamic dim; 0: none.
    size : int
        At which that is checked.
    """

    seed: int = 1
    count: int = 1
    style: str = ""
    nodes: int = 0
    gaps: bool = False
    extent: int = 0
    size: int = 0

    @property
    def how(self) -> str:
        """What is not as it is by default, but for seed and count."""
        given = {n: getattr(self, n) for n in ("style", "nodes", "extent", "size")}
        found = [f"--{name} {value}" for name, value in given.items() if value]
        return " ".join([*found, *(["--gaps"] if self.gaps else [])])

    def __str__(self) -> str:
        """Return the line that draws the same."""
        count = f"--count {self.count}" if self.count > 1 else ""
        return " ".join(filter(None, (_WORD, f"--seed {self.seed}", count, self.how)))


def is_drawn(text: str) -> bool:
    """Whether a text is a line of random graphs, right or wrong, and not the name of a file."""
    words = text.split()
    return len(words) > 1 and words[0] == _WORD and words[1].startswith("-")


def drawn_suite(text: str) -> Suite:
    """Return the suite that a line stands for.

    Raises
    ------
    FormatError
        With all that is wrong with the line (FUZZ-01, FUZZ-02).
    """
    draw, wrong = _read(text)
    if wrong:
        raise FormatError(f"{text:.200} draws no graphs", wrong)
    return Suite(title="random graphs", threads=0, cases=tuple(drawn_cases(draw)))


def drawn_cases(draw: Draw) -> Iterator[Case]:
    """Yield a case for each seed."""
    for seed in range(draw.seed, draw.seed + draw.count):
        one = replace(draw, seed=seed, count=1)
        yield Case(
            name=" ".join(filter(None, (f"{_WORD} {seed}", one.how.replace("--", "")))),
            tags=(_WORD,),
            dtypes=(DataType.FLOAT,),  # which says nothing of such a graph
            build=partial(_graph, one),
            op=_WORD,
            source=str(one),
            sizes={_DIM: one.size} if one.extent else {},
        )


def _graph(draw: Draw, data_type: DataType) -> Graph:
    """Return one graph; its types are drawn as well."""
    graph = random_graph(draw.seed, style=draw.style, nodes=draw.nodes).freeze()
    if draw.gaps:
        from ..gaps import with_gaps  # NumPy, which reading a line does not need

        graph = with_gaps(graph, draw.seed)
    # The order of nodes depends on strides, so it is found anew.
    return Graph.from_json(_opened(graph, draw.extent) if draw.extent else dumps(graph))


def _opened(graph: FrozenGraph, extent: int) -> str:
    """Return the JSON of a graph with an extent of its inputs made dynamic; the rest follows."""
    data = json.loads(dumps(graph))
    low, high = _SIZES
    data["dynamic_dims"] = {_DIM: {"range": [low, max(high, extent)], "example": extent}}
    for tensor in data["tensors"]:
        marks = {str(axis): _DIM for axis, d in enumerate(tensor["dims"]) if d == extent}
        if marks and tensor["uid"] in graph.inputs:
            tensor["dynamic_dims"] = marks
    return json.dumps(data)


def _read(text: str) -> tuple[Draw, list[Problem]]:
    """Return what a line asks for, and what is wrong with it."""
    try:
        words = shlex.split(text)[1:]
    except ValueError as error:
        return Draw(), [problem("FUZZ-01", "", "", str(error), "words and quotes that end")]
    draw, wrong = Draw(), list[Problem]()
    while words:
        flag, _, value = words.pop(0).partition("=")
        name = flag.removeprefix("--")
        if flag == "--gaps" and not value:
            draw = replace(draw, gaps=True)
        elif flag not in _FLAGS or name == "gaps":
            hint, got = nearest(flag, _FLAGS), f"{flag}={value}" if value else flag
            wrong.append(problem("FUZZ-01", "", flag, got, ", ".join(_FLAGS), hint))
        elif not value and not words:
            wrong.append(problem("FUZZ-01", "", flag, "nothing", "a value"))
        elif name == "style":
            draw = replace(draw, style=value or words.pop(0))
        else:
            draw, found = _with_number(draw, name, value or words.pop(0))
            wrong += found
    if draw.style and draw.style not in STYLES:
        hint = nearest(draw.style, STYLES)
        wrong.append(problem("FUZZ-02", "", "--style", draw.style, ", ".join(STYLES), hint))
    if not wrong and bool(draw.extent) != bool(draw.size):
        wrong.append(problem("FUZZ-02", "", "--size", draw.size, "--extent and --size, both"))
    return draw, wrong


_FLAGS = ("--seed", "--count", "--style", "--nodes", "--gaps", "--extent", "--size")


def _with_number(draw: Draw, name: str, value: str) -> tuple[Draw, list[Problem]]:
    low, high = _LIMITS[name]
    number = int(value) if value.isdecimal() and len(value) < 20 else -1
    if low <= number <= high:
        changes: dict[str, Any] = {name: number}
        return replace(draw, **changes), []
    return draw, [problem("FUZZ-02", "", f"--{name}", value, f"an integer from {low} to {high}")]
