# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Seeds and mutators of graphs: of their structure, of consistent wholes, and of plain bytes.

A graph's JSON and the record that becomes its FlatBuffer are both nested dicts and arrays with
hipDNN's keys, so that one set of mutators serves both.  A mutator takes a generator of random
numbers, the value and another one, and returns a new value; nothing is changed in place.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import inf, nan
from pathlib import Path
from random import Random
from typing import Any

from hipdnn_iree.graph_api.errors import FormatError, GraphError
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode_record
from hipdnn_iree.graph_api.formats.flatbuffer.schema_types import Era, Record
from hipdnn_iree.graph_api.formats.json.json_form import dumps
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.graph_api.layout import contiguous_strides
from hipdnn_iree.provider.graph import Graph
from hipdnn_iree.provider.sweep.fuzz.random_graphs import random_graph
from hipdnn_iree.provider.sweep.samples import sample_problems

__all__ = ["damaged", "mutated", "recorded", "seeds_json", "seeds_record"]

_RECORDED = Path(__file__).resolve().parents[2] / "tests" / "data" / "opgraphs"
_RANDOM_SEEDS = 120
_WOVEN = (5, 8, 12, 20, 20, 30, 30, 60, 60, 120)  # nodes
Mutator = Callable[[Random, Any, Any], Any]


# ---------------------------------------------------------------------------- seeds


@cache
def _frozen() -> tuple[FrozenGraph, ...]:
    """Return every sample problem in one of its types, and random graphs."""
    rng, found = Random("seeds"), []
    for case in sample_problems():
        found.append(case.graph(rng.choice(case.dtypes)).freeze())
    found += [random_graph(seed).freeze() for seed in range(_RANDOM_SEEDS)]
    found += [_woven(rng, nodes) for nodes in _WOVEN]
    return tuple(found)


def _woven(rng: Random, nodes: int) -> FrozenGraph:
    """Return a graph in which every value has many users: what walks its paths never ends."""
    graph = Graph("woven", io_data_type="float")
    known = [graph.tensor(dims=(4, 4))]
    reach = rng.choice((1, 2, 3, nodes))
    for _ in range(nodes):
        method = rng.choice((graph.add, graph.mul, graph.max, graph.matmul, graph.sub))
        known.append(method(rng.choice(known[-reach:]), rng.choice(known[-reach:])))
    known[-1].set_output()
    return graph.freeze()


@cache
def seeds_json() -> tuple[str, ...]:
    """Return the seeds as texts."""
    found = [path.read_text(encoding="utf-8") for path in sorted(_RECORDED.glob("*.json"))]
    for graph in _frozen():
        try:
            found.append(dumps(graph))
        except FormatError:
            continue  # JSON cannot hold its numbers
    return tuple(found)


@cache
def seeds_record() -> tuple[tuple[Record, Era], ...]:
    """Return the seeds as records, each with its era."""
    found = []
    for graph in _frozen():
        for era in Era:
            try:
                found.append((encode_record(graph, era), era))
            except FormatError:
                continue  # beyond the era
    return tuple(found)


@cache
def recorded() -> tuple[bytes, ...]:
    """Return what hipDNN's backend has passed to a plugin."""
    files = [path for path in sorted(_RECORDED.iterdir()) if path.suffix in (".bin", ".cfg")]
    return tuple(path.read_bytes() for path in files)


# ---------------------------------------------------------------------------- places in a value

Path_ = tuple[Any, ...]


def _children(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return list(value)
    return range(len(value)) if isinstance(value, list | tuple) else ()


def _place(rng: Random, value: Any) -> Path_:
    """Return a path to a place; deep ones are as likely as shallow ones."""
    path: list[Any] = []
    while children := _children(value):
        key = rng.choice(children)
        path.append(key)
        value = value[key]
        if rng.random() < (0.1 if _children(value) else 1):
            break
    return tuple(path)


def _get(value: Any, path: Path_) -> Any:
    for key in path:
        value = value[key]
    return value


_GONE = object()


def _put(value: Any, path: Path_, new: Any) -> Any:
    """Return the value with another one at a place, or with nothing there (`_GONE`)."""
    if not path:
        return value if new is _GONE else new
    key, rest = path[0], path[1:]
    below = new if not rest else _put(value[key], rest, new)
    if isinstance(value, dict):
        copy: Any = Record(value.table, **value) if isinstance(value, Record) else dict(value)
        if below is _GONE:
            del copy[key]
        else:
            copy[key] = below
        return copy
    items = list(value)
    items[key : key + 1] = [] if below is _GONE else [below]
    return type(value)(items)


# ---------------------------------------------------------------------------- numbers and texts

_INTS = (0, -1, 1, 2, 3, 7, 8, 127, 128, 255, 256, 65535, 2**24 + 1, 2**31 - 1, 2**31, 2**32,
         2**40, 2**53 + 1, 2**62, 2**63 - 1, -(2**31), -(2**63))  # fmt: skip
_BEYOND: tuple[Any, ...] = (
    *(2**63, 2**64, -(2**63) - 1, 10**400, 1e308, 0.5, -0.0, 1e19, 9.0, nan, inf, True, False),
    *("3", "", "relu_fwd", "float", None, [], {}, [[]], {"uid": 1}),
)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e-310, 3.4e38, 1e300, inf, -inf, nan, 0.1, 1 / 3)


def _int(rng: Random, value: int) -> int:
    draw = rng.random()
    if draw < 0.5:
        return rng.choice(_INTS)
    if draw < 0.8:
        return value + rng.choice((-1, 1, 2, -2))
    return min(value * rng.choice((2, 3, 1000, -1)), 2**63 - 1)


_TEXTS = ("", "\0", "\ud800", 'q"<>\n\\', "é" * 50, "nodes", "%s{}", "$(x)", "../..", "\u202e",
          "float", "half")  # fmt: skip


def _text(rng: Random) -> str:
    return rng.choice((*_TEXTS, "x" * rng.choice((10, 1000, 100_000))))


def _other(rng: Random, value: Any, *, loose: bool) -> Any:
    """Return another value of the same kind; ``loose`` allows those of another one."""
    if loose and rng.random() < 0.15:
        return rng.choice(_BEYOND)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return _int(rng, value)
    if isinstance(value, float):
        return rng.choice(_FLOATS)
    if isinstance(value, str):
        return _text(rng)
    if isinstance(value, bytes):
        return rng.randbytes(rng.choice((0, 1, 16, 400)))
    if isinstance(value, list | tuple):
        return _items(rng, value)
    if value is None:
        return rng.choice((0, 1, -1)) if not loose else rng.choice(_BEYOND)
    code = getattr(value, "wire", None)  # a member of an enumeration, in a record
    return (
        rng.choice((0, 1, -1, 127, code + 1, code - 1, rng.randrange(40)))
        if code is not None
        else value
    )


def _items(rng: Random, items: list[Any] | tuple[Any, ...]) -> Any:
    found, draw = list(items), rng.randrange(7)
    if draw == 0:
        found = found[: rng.randrange(len(found) + 1)]
    elif draw == 1:
        rng.shuffle(found)
    elif draw == 2 and found:
        found.append(rng.choice(found))
    elif draw == 3:
        found = found * rng.choice((2, 2, 3, 10))
    elif draw == 4:
        found = []
    elif found and all(type(v) is int for v in found):
        at = rng.randrange(len(found))
        found[at] = _int(rng, found[at])
    elif found:
        del found[rng.randrange(len(found))]
    return type(items)(found)


# ---------------------------------------------------------------------------- one place


def _replace(rng: Random, value: Any, _: Any) -> Any:
    path = _place(rng, value)
    loose = not isinstance(value, Record)
    return _put(value, path, _other(rng, _get(value, path), loose=loose))


def _remove(rng: Random, value: Any, _: Any) -> Any:
    return _put(value, _place(rng, value), _GONE)


def _transplant(rng: Random, value: Any, other: Any) -> Any:
    """Take what another graph has under the same key."""
    path = _place(rng, value)
    names = [key for key in path if isinstance(key, str)]
    if not names:
        return value
    held = [v for key, v in _pairs(other) if key == names[-1]]
    upto = path[: len(path) - path[::-1].index(names[-1])]
    return _put(value, upto, rng.choice(held)) if held else value


def _pairs(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from _pairs(inner)
    elif isinstance(value, list | tuple) and value and isinstance(value[0], dict):
        for inner in value:
            yield from _pairs(inner)


def _unknown(rng: Random, value: Any, _: Any) -> Any:
    """Add a key, or nest a value absurdly; a record takes no keys but the schema's."""
    if isinstance(value, Record):
        return value
    path = _place(rng, value)
    here = _get(value, path)
    if isinstance(here, dict):
        return _put(value, path, {**here, _text(rng): rng.choice(_BEYOND)})
    depth = rng.choice((2, 50, 400))
    for _ in range(depth):
        here = [here] if rng.random() < 0.5 else {"x": here}
    return _put(value, path, here)


# ---------------------------------------------------------------------------- consistent wholes


def _extents(rng: Random, value: Any, _: Any) -> Any:
    """Give every dim of one extent another one, with fitting strides: often still a graph."""
    tensors = value.get("tensors") or ()
    known = sorted({d for t in tensors for d in _dims(t)})
    if not known:
        return value
    old = rng.choice(known)
    new = rng.choice((1, 2, 3, 5, 16, 1000, 4099, 65536, 2**20, *_INTS))
    kept = rng.random() < 0.2  # the old strides stay
    found = []
    for tensor in tensors:
        dims = [new if d == old else d for d in _dims(tensor)]
        if tuple(dims) == _dims(tensor):
            found.append(tensor)
            continue
        changed = _with(tensor, "dims", dims)
        found.append(changed if kept else _with(changed, "strides", _strides(dims)))
    return _with(value, "tensors", found)


def _dims(tensor: Any) -> tuple[int, ...]:
    dims = tensor.get("dims") if isinstance(tensor, dict) else None
    if not isinstance(dims, list | tuple) or any(type(d) is not int for d in dims):
        return ()
    return tuple(dims)


def _strides(dims: Sequence[int]) -> list[int]:
    return [max(-(2**63), min(s, 2**63 - 1)) for s in contiguous_strides(tuple(dims))]


def _with(value: Any, key: str, new: Sequence[Any]) -> Any:
    return _put(value, (key,), type(value.get(key) or [])(new))


def _layout(rng: Random, value: Any, _: Any) -> Any:
    """Lay a tensor out otherwise: permuted, with gaps, repeated, overlapping."""
    tensors = value.get("tensors") or ()
    at = rng.randrange(len(tensors)) if tensors else 0
    if not tensors or not _dims(tensors[at]):
        return value
    dims = _dims(tensors[at])
    order = list(range(len(dims)))
    rng.shuffle(order)
    strides, step = [0] * len(dims), rng.choice((1, 1, 2, 2**20, 2**40, 0, -1))
    for axis in order:
        strides[axis] = max(-(2**63), min(step, 2**63 - 1))
        step = step * dims[axis] + rng.choice((0, 0, 0, 1, 2**10))
    return _put(value, ("tensors", at, "strides"), type(tensors[at]["dims"])(strides))


def _renumbered(rng: Random, value: Any, _: Any) -> Any:
    """Give a tensor another uid everywhere; now and then that of another one."""
    uids = [t["uid"] for t in value.get("tensors") or () if isinstance(t.get("uid"), int)]
    if not uids:
        return value
    old, new = rng.choice(uids), rng.choice((*_INTS, *uids))

    def change(inner: Any) -> Any:
        if isinstance(inner, dict):
            copy: Any = Record(inner.table, **inner) if isinstance(inner, Record) else dict(inner)
            for key, held in inner.items():
                named = key == "uid" or key.endswith("_uid")
                copy[key] = new if named and held == old else change(held)
            return copy
        if (
            isinstance(inner, list | tuple)
            and inner
            and not isinstance(inner[0], int | float | str)
        ):
            return type(inner)([change(v) for v in inner])
        return inner

    return change(value)


def _rewired(rng: Random, value: Any, _: Any) -> Any:
    """Let a node read or write another tensor that is there: cycles, two writers, other types."""
    uids = [t["uid"] for t in value.get("tensors") or () if isinstance(t.get("uid"), int)]
    nodes = value.get("nodes") or ()
    if not uids or not nodes:
        return value
    at = rng.randrange(len(nodes))
    places = [p for p in _uid_places(nodes[at], ()) if p[-1] != "axis_tensor_uid"]
    if not places:
        return value
    return _put(value, ("nodes", at, *rng.choice(places)), rng.choice(uids))


def _uid_places(value: Any, path: Path_) -> Iterator[Path_]:
    for key, held in value.items():
        if isinstance(held, dict):
            yield from _uid_places(held, (*path, key))
        elif isinstance(held, int) and key.endswith("_uid"):
            yield (*path, key)


def _dynamic(rng: Random, value: Any, _: Any) -> Any:
    """Leave an extent open, of the inputs that have it; a record cannot hold that."""
    extents = [d for t in value.get("tensors") or () for d in _dims(t)]
    if isinstance(value, Record) or not extents:
        return value
    open_, ends = rng.choice(extents), (0, 1, 1, 1, 64, 4096, 2**31, 2**63 - 1, -1)
    marked = [
        {**t, "dynamic_dims": {str(a): "n" for a, d in enumerate(_dims(t)) if d == open_}}
        if open_ in _dims(t) and not t.get("virtual") and rng.random() < 0.9
        else t
        for t in value["tensors"]
    ]
    low, high = rng.choice(ends), rng.choice(ends)
    held = {"n": {"range": [low, high], "example": rng.choice((open_, open_, 1, high))}}
    return {**value, "tensors": marked, "dynamic_dims": held}


def _spliced(rng: Random, value: Any, other: Any) -> Any:
    """Put the nodes of two graphs into one, with the tensors of both or of one."""
    if type(value) is not type(other):
        return value
    keys = rng.choice((("nodes", "tensors"), ("nodes", "tensors"), ("nodes",), ("tensors",)))
    for key in keys:
        both = [*(value.get(key) or ()), *(other.get(key) or ())]
        if rng.random() < 0.2:
            rng.shuffle(both)
        value = _with(value, key, both)
    return value


def _many(rng: Random, value: Any, _: Any) -> Any:
    """Repeat nodes or tensors, seldom very often."""
    key = rng.choice(("nodes", "tensors"))
    times = rng.choices((2, 30, 1000, 20_000), (100, 20, 1, 0.05))[0]
    return _with(value, key, list(value.get(key) or ()) * times)


def _chain(rng: Random, value: Any, _: Any) -> Any:
    """Repeat the whole with fresh uids: a valid graph of up to as many nodes as a host's."""
    tensors, nodes = value.get("tensors") or (), value.get("nodes") or (0,)
    uids = [t["uid"] for t in tensors if isinstance(t.get("uid"), int)]
    if not uids or max(uids) - min(uids) > 10**6:
        return value
    step = max(uids) - min(uids) + 1
    times = rng.choices((2, 10, 100, 4096), (100, 10, 2, 0.3))[0]
    times = min(times, 4096 // len(nodes), 16384 // len(tensors))

    def moved(inner: Any, by: int) -> Any:
        if isinstance(inner, dict):
            copy: Any = Record(inner.table, **inner) if isinstance(inner, Record) else dict(inner)
            for key, held in inner.items():
                named = key == "uid" or key.endswith("_uid")
                plain = named and isinstance(held, int) and key != "axis_tensor_uid"
                copy[key] = held + by if plain else moved(held, by)
            return copy
        if isinstance(inner, list | tuple) and inner and isinstance(inner[0], dict):
            return type(inner)([moved(v, by) for v in inner])
        return inner

    for key in ("nodes", "tensors"):
        items = value.get(key) or ()
        copies = [moved(item, step * k) for k in range(times) for item in items]
        value = _with(value, key, copies)
    return value


_WEIGHED: tuple[tuple[Mutator, float], ...] = (
    (_replace, 10),
    (_remove, 2),
    (_transplant, 4),
    (_unknown, 1),
    (_extents, 6),
    (_layout, 3),
    (_renumbered, 2),
    (_rewired, 3),
    (_dynamic, 1),
    (_spliced, 1),
    (_many, 0.3),
    (_chain, 0.4),
)
_MUTATORS = [mutator for mutator, _ in _WEIGHED]
_WEIGHTS = [weight for _, weight in _WEIGHED]


def mutated(rng: Random, value: Any, other: Any) -> Any:
    """Return a graph's JSON or record with a few things changed; ``other`` is a second one."""
    for mutator in rng.choices(_MUTATORS, _WEIGHTS, k=rng.choice((1, 1, 1, 2, 3))):
        try:
            value = mutator(rng, value, other)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, GraphError):
            continue  # what an earlier one has left is no graph any more
    return value


def as_json(value: Any) -> bytes:
    """Return JSON text, which may hold NaN and lone surrogates as Python writes them."""
    return json.dumps(value).encode("utf-8", "surrogatepass")


# ---------------------------------------------------------------------------- plain bytes

_WORDS = (0, 1, 2, 3, 4, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000,
          0xFFFFFFFC, 0xFFFFFFFF)  # fmt: skip


def damaged(rng: Random, data: bytes, other: bytes) -> bytes:
    """Return bytes with bits, words, offsets or pieces changed."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        if not found:
            break
        at, kind = rng.randrange(len(found)), rng.randrange(9)
        word = at - at % 4
        if kind == 0:
            found[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            found[at] = rng.choice((0, 0xFF, rng.randrange(256)))
        elif kind == 2 and word + 4 <= len(found):
            struct.pack_into("<I", found, word, rng.choice(_WORDS))
        elif kind == 3 and word + 8 <= len(found):
            near = struct.pack("<q", rng.choice(_INTS))
            found[word : word + 8] = near
        elif kind == 4 and word + 4 <= len(found):  # an offset, a little or a lot further
            (offset,) = struct.unpack_from("<I", found, word)
            moved = offset + rng.choice((-8, -4, 4, 8, len(found), rng.randrange(len(found))))
            struct.pack_into("<I", found, word, moved % 2**32)
        elif kind == 5:
            del found[at : at + rng.choice((1, 4, 8, 64, len(found)))]
        elif kind == 6:
            found[at:at] = rng.randbytes(rng.choice((1, 4, 8, 64)))
        elif kind == 7:
            source, size = rng.randrange(len(found)), rng.choice((4, 8, 16, 64))
            found[at : at + size] = found[source : source + size]
        else:
            source = rng.randrange(len(other)) if other else 0
            piece = other[source : source + rng.choice((4, 16, 64, 400))]
            found[at : at + len(piece)] = piece
    return bytes(found)
