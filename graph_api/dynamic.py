# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Extents that are only known at execution.

A graph is described, checked and inferred with an example size of each.  Inferring the graph for
further sizes shows which extents of other tensors follow them, so that ops need no code for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from .arguments import shown
from .dynamic_dim import DERIVED, DynamicDim, probes
from .errors import GraphError, Problem
from .frozen import FrozenGraph
from .specialise import packed_outputs, specialise
from .tensor import TensorSpec

__all__ = ["at_sizes", "mark_dynamic", "other_examples", "sizes_of"]

Ints = tuple[int, ...]
Names = tuple[str, ...]


def mark_dynamic(
    graph: FrozenGraph, symbols: Mapping[str, DynamicDim], given: Mapping[int, Names]
) -> FrozenGraph:
    """Return the graph with the dynamic dims of all tensors marked.

    Parameters
    ----------
    graph : FrozenGraph
        With the examples as dims.
    symbols : mapping of name to DynamicDim
    given : mapping of uid to names
        Marks of the tensors that were described with dynamic dims.

    Raises
    ------
    GraphError
        For a source that is not dense (DYN-02), marks of a result that do not follow (DYN-05),
        sizes at which the graph is not valid (DYN-06).
    """
    given = {uid: names for uid, names in given.items() if uid in graph.tensors}
    used = {name for names in given.values() for name in names} - {""}
    inputs = set(graph.inputs)
    sources = {uid: names for uid, names in given.items() if uid in inputs}
    _must_be_dense(graph, sources)
    kept = tuple(symbols[name] for name in symbols if name in used)
    graph = replace(
        graph,
        symbols=kept,
        tensors={
            uid: replace(spec, dynamic=sources.get(uid, ())) for uid, spec in graph.tensors.items()
        },
    )
    marks = {uid: [""] * len(spec.dims) for uid, spec in graph.tensors.items()}
    packed = packed_outputs(graph)  # whether the dims of outputs with gaps vary is found here
    for dim in kept:
        for size in (dim.low, dim.high):
            _at_end(packed, dim, size)
        others = [(size, at_sizes(packed, {dim.name: size}, partial=True)) for size in probes(dim)]
        for uid, spec in graph.tensors.items():
            for axis, extent in enumerate(spec.dims):
                found = [(size, other.tensors[uid].dims[axis]) for size, other in others]
                if all(have == extent for _, have in found):
                    continue
                same = all(have == size for size, have in found) and extent == dim.example
                marks[uid][axis] = dim.name if same and not marks[uid][axis] else DERIVED
    specs = {
        uid: replace(spec, dynamic=tuple(marks[uid]) if any(marks[uid]) else ())
        for uid, spec in graph.tensors.items()
    }
    problems = [
        Problem(
            rule="DYN-05",
            port=specs[uid].label,
            got=_shown(specs[uid].dims, names),
            wanted=_shown(specs[uid].dims, specs[uid].dynamic),
            hint="leave the dims of results out",
        )
        for uid, names in given.items()
        if names != specs[uid].dynamic
    ]
    if problems:
        raise GraphError(f"graph {graph.name!r} has other dynamic dims than were given", problems)
    _must_be_dense(graph, (uid for uid in graph.outputs if specs[uid].dynamic))
    return replace(graph, tensors=specs)


def _must_be_dense(graph: FrozenGraph, uids: Iterable[int]) -> None:
    problems = [p for uid in uids if (p := _not_dense(graph.tensors[uid])) is not None]
    if problems:
        raise GraphError(f"graph {graph.name!r} has dynamic dims where none can be", problems)


def _at_end(graph: FrozenGraph, dim: DynamicDim, size: int) -> None:
    try:
        at_sizes(graph, {dim.name: size}, partial=True)
    except GraphError as error:
        first = error.problems[0]
        wanted = "a graph that is valid there"
        hint = "choose another range for the dim"
        problem = Problem(
            rule="DYN-06", port=dim.name, got=f"size {size}: {first}", wanted=wanted, hint=hint
        )
        raise GraphError(
            f"graph {graph.name!r} is not valid at every size of {dim.name}",
            [problem, *error.problems],
        ) from None


def _not_dense(spec: TensorSpec) -> Problem | None:
    got = ""
    if spec.runtime_scalar or spec.value is not None:
        got = "a scalar"
    elif spec.ragged_offset_uid is not None:
        got = "a ragged tensor"
    elif not spec.layout.dense:
        got = f"strides {list(spec.strides)} for dims {list(spec.dims)}"
    wanted = "a permutation without gaps or repetition"
    return Problem(rule="DYN-02", port=spec.label, got=got, wanted=wanted) if got else None


def _shown(dims: Ints, names: Names) -> str:
    marks = names or ("",) * len(dims)
    words = (name or str(d) for d, name in zip(dims, marks, strict=True))
    return f"dims [{', '.join(words)}]"


def at_sizes(graph: FrozenGraph, sizes: Mapping[str, int], *, partial: bool = False) -> FrozenGraph:
    """Return the graph for some sizes: one like any other, without dynamic dims.

    Parameters
    ----------
    graph : FrozenGraph
    sizes : mapping of name to int
        A size for each dynamic dim; with ``partial`` the example stands for those left out.

    Raises
    ------
    GraphError
        For a size that is missing, not a dynamic dim's or out of its range (DYN-03), and for
        rules that the graph breaks at these sizes.
    """
    known = {dim.name: dim for dim in graph.symbols}
    problems = [p for name in sizes if (p := _misfit(known, name, sizes[name])) is not None]
    if not partial:
        problems += [
            Problem(rule="DYN-03", port=name, got="no size", wanted=f"{dim.low} to {dim.high}")
            for name, dim in known.items()
            if name not in sizes
        ]
    if problems:
        raise GraphError("the sizes do not fit the graph's dynamic dims", problems)
    shapes = {}
    for uid in graph.inputs:
        spec = graph.tensors[uid]
        if spec.dynamic:
            pairs = zip(spec.dims, spec.dynamic, strict=True)
            shapes[uid] = (tuple(sizes.get(name, extent) for extent, name in pairs), None)
    return specialise(graph, shapes)


def other_examples(graph: FrozenGraph) -> Iterator[FrozenGraph]:
    """Yield the same graph with other examples, twice, in the order of nodes and ports it has."""
    for k in (0, 1):
        # Two dims that share an example get different ones, so that they can be distinguished too.
        sizes = {
            d.name: p[(k + i) % len(p)]
            for i, d in enumerate(graph.symbols)
            if (p := probes(d, 2 * i))
        }
        other = at_sizes(graph, sizes)
        ops = {tuple(node.outputs.values()): node.op for node in other.nodes}
        yield replace(
            graph,
            symbols=tuple(replace(d, example=sizes[d.name]) for d in graph.symbols),
            nodes=tuple(replace(n, op=ops[tuple(n.outputs.values())]) for n in graph.nodes),
            tensors={
                uid: replace(spec, dims=(o := other.tensors[uid]).dims, strides=o.strides)
                for uid, spec in graph.tensors.items()
            },
        )


def _misfit(known: Mapping[str, DynamicDim], name: str, size: object) -> Problem | None:
    if name not in known:
        wanted = f"one of {', '.join(known)}" if known else "no sizes: no dim is dynamic"
        return Problem(rule="DYN-03", port=str(name), got="a size", wanted=wanted)
    dim = known[name]
    whole = isinstance(size, int) and not isinstance(size, bool)
    if whole and dim.low <= size <= dim.high:  # type: ignore[operator]
        return None
    wanted = f"an integer from {dim.low} to {dim.high}"
    return Problem(rule="DYN-03", port=name, got=shown(size), wanted=wanted)


def sizes_of(graph: FrozenGraph, dims: Mapping[int, Ints]) -> dict[str, int]:
    """Return the sizes that the dims of some tensors give; further problems are not searched.

    Raises
    ------
    GraphError
        For tensors that disagree (DYN-04).
    """
    found: dict[str, tuple[int, int]] = {}
    problems = list(_read_sizes(graph, dims, found))
    if problems:
        raise GraphError("the tensors are of different sizes", problems)
    return {name: size for name, (size, _) in found.items()}


def _read_sizes(
    graph: FrozenGraph, dims: Mapping[int, Ints], found: dict[str, tuple[int, int]]
) -> Iterator[Problem]:
    for uid, extents in dims.items():
        spec = graph.tensors[uid]
        if len(extents) != len(spec.dims):
            continue  # reported when the buffer is checked
        for name, extent in zip(spec.dynamic, extents, strict=False):
            if name in ("", DERIVED):
                continue
            size, first = found.setdefault(name, (extent, uid))
            if size != extent:
                wanted = f"{size}, as in {graph.tensors[first].label}"
                yield Problem(
                    rule="DYN-04", port=spec.label, got=f"{name} = {extent}", wanted=wanted
                )
