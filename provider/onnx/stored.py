# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What was claimed of a graph, kept in the cache: a second session asks MLIR nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...graph_api.errors import FormatError, HipdnnIreeError, NotPrecompiledError, Problem
from ...jit.cache import CacheKey, CacheStore, source_digest
from ...jit.pipeline import made_with
from ...jit.settings_table import Settings
from ..offload.finished import Program
from ..offload.pipeline import Options
from ..offload.sizes import Family
from . import partition as partitions
from .claims import Declined
from .model import Model
from .partition import Group, Partition

__all__ = ["partition"]

log = logging.getLogger("hipdnn_iree.onnx")

_MOST_BYTES = 1 << 28


def partition(
    model: Model,
    options: Options,
    settings: Settings,
    *,
    min_nodes: int = 1,
    buckets: tuple[int, ...] = (),
) -> Partition:
    """Return `partition.partition`, from the cache where it is known."""
    if settings.cache_mode == "off":
        return partitions.partition(model, options, min_nodes=min_nodes, buckets=buckets)
    cache = _store(settings.cache_dir)
    facts = {"min_nodes": min_nodes, "buckets": buckets}
    key = _key(model, options, facts)
    entry = cache.get(key)
    if entry is not None:
        try:
            return _read(entry.manifest, model, options, buckets)
        except NotPrecompiledError:
            raise
        except (HipdnnIreeError, KeyError, TypeError, ValueError) as error:
            log.warning("what was kept of the graph is not used: %s", error)
            cache.discard(key)
    found = partitions.partition(model, options, min_nodes=min_nodes, buckets=buckets)
    try:
        cache.put(key, {}, _record(found))
    except FormatError as error:  # an infinite scalar
        log.info("what was claimed is not kept: %s", error)
    return found


@lru_cache(maxsize=8)
def _store(folder: Path) -> CacheStore:
    return CacheStore(folder / "onnx", _MOST_BYTES)


def _key(model: Model, options: Options, facts: Mapping[str, Any]) -> CacheKey:
    more = ("engine", "policy", "holds_weights")
    facts = {**facts, **{name: getattr(options, name) for name in more}}
    return CacheKey(
        {
            "model": partitions.digest(model, facts),
            "target": str(options.target),
            "sources": source_digest(_sources()),
            **made_with(),
        }
    )


def _sources() -> Iterator[Path]:
    here = Path(__file__).resolve().parent
    for folder in (here, here.parent / "offload"):
        yield from folder.rglob("*.py")


def _record(found: Partition) -> dict[str, Any]:
    return {
        "groups": [
            {
                "nodes": [n.label for n in g.model.nodes],
                "program": g.program.as_json(),
                "family": g.family and g.family.as_json(),
                "no_family": g.no_family,
            }
            for g in found.groups
        ],
        "declined": [
            {"node": d.node, "op": d.op, "problem": d.problem.as_dict()} for d in found.declined
        ],
    }


def _read(
    record: Mapping[str, Any], model: Model, options: Options, buckets: tuple[int, ...]
) -> Partition:
    nodes = {node.label: node for node in model.nodes}
    groups = []
    for one in record["groups"]:
        part = model.part([nodes[n] for n in one["nodes"]])
        if one["family"] is not None:
            every = Family.from_json(one["family"]).prepared(options.build, buckets)
            sizes = dict.fromkeys(every.symbols, partitions.SAMPLE)
            groups.append(Group(part, *every.at(sizes), every))
            continue
        program = Program.from_json(one["program"])
        plans = {name: options.build(graph) for name, graph in program.graphs.items()}
        groups.append(Group(part, program, plans, no_family=one["no_family"]))
    declined = tuple(
        Declined(node=d["node"], op=d["op"], problem=Problem(**d["problem"]))
        for d in record["declined"]
    )
    return Partition(tuple(groups), declined)
