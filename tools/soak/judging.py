# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What must hold for the bytes of a graph, whatever they are: all that is asked without code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

from hipdnn_iree.graph_api.draw import to_dot, to_mermaid
from hipdnn_iree.graph_api.dynamic import at_sizes
from hipdnn_iree.graph_api.errors import (
    FormatError,
    GraphError,
    HipdnnIreeError,
)
from hipdnn_iree.graph_api.formats.flatbuffer.decode import decode
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode
from hipdnn_iree.graph_api.formats.json.json_form import dumps
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.graph_api.layout import contiguous_strides
from hipdnn_iree.graph_api.specialise import as_shapes, specialise
from hipdnn_iree.jit import support
from hipdnn_iree.jit.lowering.module import lower_graph
from hipdnn_iree.jit.options import BuildOptions
from hipdnn_iree.jit.pipeline import cache_key, signature_of
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.jit.work import graph_work
from hipdnn_iree.provider.graph_files import loads
from hipdnn_iree.provider.selection.select import candidates

from tools.soak.attack import BrokenError

__all__ = ["judge"]

_TARGETS = (Target.parse("cpu"), Target.parse("gfx942"))
_CANNOT_HOLD = {"WIRE-13", "WIRE-14", "JSON-08"}
_MOST_TEXT = 110_000
_MOST_LOWERED = 1000  # nodes, a millisecond each: lowering is a part of compiling, and no answer
_SELDOM = 1 / 32  # what takes longer, or seldom breaks
_EXTENTS = (0, -1, 1, 2, 3, 17, 1000, 2**31, 2**62, 2**63 - 1, 2**64)


def judge(data: bytes) -> Iterator[str]:
    """Yield what becomes of the bytes, answer by answer; raise for what must never come of them."""
    try:
        builder = loads(data)
        yield "read"
        graph = builder.freeze()
    except (FormatError, GraphError) as error:
        yield _refused(error)
        return
    yield "frozen"
    digest = graph.digest
    yield "digest"
    target = _TARGETS[int(digest[4], 16) % len(_TARGETS)]
    problems = list(support.problems(graph, target))
    yield "applicability"
    outcome = "declined" if problems else f"served by {target}"
    if not problems:
        _plan(graph, target)
        yield "plan"
    elif any(not (p.rule and p.got and p.wanted) for p in problems):
        raise BrokenError(f"a reason that says nothing: {problems[0]}")
    yield from _round_trip(graph)
    rng = Random(digest)
    if rng.random() < _SELDOM:
        yield from _elsewhere(rng, graph, target)
    if rng.random() < _SELDOM and not problems and len(graph.nodes) <= _MOST_LOWERED:
        with suppress(HipdnnIreeError):
            lower_graph(graph, target)
        yield "lowering"
    if rng.random() < _SELDOM:
        candidates(graph, target, settings())
        yield "engines"
        for text in (repr(graph), to_dot(graph), to_mermaid(graph)):
            text.encode("utf-8", "backslashreplace")
        yield "drawing"
    yield outcome


def _refused(error: FormatError | GraphError) -> str:
    if not error.problems:
        raise BrokenError(f"an error without problems: {error!s:.200}")
    if any(not (p.rule and p.got and p.wanted) for p in error.problems):
        raise BrokenError(f"a problem that says nothing: {error.problems[0]!s:.200}")
    if len(str(error)) > _MOST_TEXT:
        raise BrokenError(f"a text of {len(str(error))} characters: {error!s:.200}")
    return "no graph" if isinstance(error, GraphError) else f"refused {error.problems[0].rule}"


def _plan(graph: FrozenGraph, target: Target) -> None:
    """Ask for all that follows from a graph that is served, but for its code."""
    key = cache_key(graph, target, BuildOptions.of(settings()).code)
    if len(key.digest) < 32:
        raise BrokenError("a key without a digest")
    graph_work(graph)
    signature_of(graph)


def _elsewhere(rng: Random, graph: FrozenGraph, target: Target) -> Iterator[str]:
    """Ask for the graph at other sizes: those of dynamic dims, and shapes given at execution."""
    ends = [rng.choice((d.low, d.high, d.example, rng.choice(_EXTENTS))) for d in graph.symbols]
    sizes = {d.name: size for d, size in zip(graph.symbols, ends, strict=True)}
    shapes: dict[int, Any] = {}
    for uid in rng.sample(graph.inputs, min(len(graph.inputs), rng.choice((1, 1, 2)))):
        dims = list(graph.tensors[uid].dims)
        dims[rng.randrange(len(dims))] = rng.choice(_EXTENTS)
        shapes[uid] = rng.choice((dims, (dims, contiguous_strides(dims)), (dims, None), dims[1:]))
    makers: dict[str, Callable[[], FrozenGraph]] = {
        "sizes": lambda: at_sizes(graph, sizes),
        "other shapes": lambda: specialise(graph, as_shapes(graph, shapes)),
    }
    for name, make in makers.items():
        with suppress(GraphError):
            list(support.problems(make(), target))
        yield name


def _round_trip(graph: FrozenGraph) -> Iterator[str]:
    """Write the graph in a form that its digest picks, and read it again."""
    forms: dict[str, tuple[Callable[[], Any], Callable[[Any], Graph]]] = {
        "JSON": (lambda: dumps(graph), Graph.from_json),
        "FlatBuffer": (lambda: encode(graph), lambda data: decode(data, Graph).graph),
    }
    name = list(forms)[int(graph.digest[5], 16) % len(forms)]
    write, read = forms[name]
    try:
        data = write()
    except FormatError as error:
        if not {p.rule for p in error.problems} <= _CANNOT_HOLD:
            raise
        return
    yield f"{name} written"
    try:
        builder = read(data)
        yield f"{name} read"
        again = builder.freeze()
    except HipdnnIreeError as error:
        raise BrokenError(f"{name} that was written is refused: {error!s:.300}") from error
    yield f"{name} frozen"
    if again.digest != graph.digest:
        raise BrokenError(f"another graph after {name}")
