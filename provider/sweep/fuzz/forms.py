# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A graph in other forms: written and read again, or in other words, it is the same graph."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random
from typing import Any

from ....graph_api.errors import FormatError
from ....graph_api.formats.flatbuffer import decode, encode
from ....graph_api.formats.flatbuffer.schema_types import Era
from ....graph_api.formats.json.json_form import dumps
from ....graph_api.frozen import FrozenGraph
from ...graph import Graph

__all__ = ["other_forms"]

# What formats cannot hold, they say by these rules.
_NOT_HELD = {"WIRE-13", "WIRE-14", "JSON-08"}


def other_forms(graph: FrozenGraph, seed: int) -> Iterator[tuple[str, str]]:
    """Yield each form with what is wrong with the graph in it; nothing where it is the same.

    Parameters
    ----------
    graph : FrozenGraph
    seed : int
        Of the other names, ids and orders.
    """
    for form, again in _forms(graph, seed):
        try:
            same = again().digest == graph.digest
        except FormatError as error:
            rules = sorted({p.rule for p in error.problems})
            yield form, "" if set(rules) <= _NOT_HELD else ", ".join(rules)
        else:
            yield form, "" if same else "the digest is another one"


def _forms(graph: FrozenGraph, seed: int) -> Iterator[tuple[str, Callable[[], FrozenGraph]]]:
    yield "json", lambda: Graph.from_json(dumps(graph)).freeze()
    words = partial(_in_other_words, dumps(graph), Random(seed))
    yield "other words", lambda: Graph.from_json(words()).freeze()
    ops = {node.op.NAME for node in graph.nodes}
    for era in Era:
        if era is Era.N25 and "batchnorm_inference_variance_ext" in ops:
            continue  # its epsilon, which that format does not hold, comes back as a double
        yield f"wire {era.value}", partial(_through_bytes, graph, era)


def _through_bytes(graph: FrozenGraph, era: Era) -> FrozenGraph:
    return decode.decode(encode.encode(graph, era), Graph).graph.freeze()


def _in_other_words(text: str, rng: Random) -> str:
    """Return a graph file with other uids and names, and its nodes and tensors in another order."""
    data = json.loads(text)
    uids = [t["uid"] for t in data["tensors"]]
    new = dict(zip(uids, rng.sample(range(1, 100_000), len(uids)), strict=True))
    for tensor in data["tensors"]:
        tensor["uid"] = new[tensor["uid"]]
        tensor["name"] = f"t{rng.randrange(1000)}"
    for node in data["nodes"]:
        node["name"] = f"n{rng.randrange(1000)}"
        _renumber(node, new)
    rng.shuffle(data["nodes"])
    rng.shuffle(data["tensors"])
    return json.dumps(data)


def _renumber(record: dict[str, Any], new: Mapping[int, int]) -> None:
    """Replace the uids in a node, in place."""
    for key, value in record.items():
        if isinstance(value, dict):
            _renumber(value, new)
        elif key == "axis_tensor_uid" or not key.endswith(("_uid", "_uids")):
            continue  # hipDNN keeps an axis under that name
        elif value is not None:
            record[key] = [new[v] for v in value] if isinstance(value, list) else new[value]
