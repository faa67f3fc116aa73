# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From a graph to the groups that are claimed, each a program that has been built.

What is claimed compiles: a group is claimed when its program exists.  Where one does not, its
nodes are tried each by itself, and those that fail are declined.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from ...graph_api.errors import (
    ArtifactError,
    CompileError,
    DeviceError,
    FormatError,
    GraphError,
    HipdnnIreeError,
    NotPrecompiledError,
    NotSupportedError,
    Problem,
)
from ..offload.finished import Program
from ..offload.pipeline import Module, Options
from ..offload.sizes import Family
from ..plan import Plan
from .claims import Declined, claimable
from .expand import EXPANSIONS, expanded, trimmed
from .model import Model, Node
from .node_writer import Unserved
from .program import made, made_for_sizes
from .torch_text import text

__all__ = ["Group", "Partition", "partition", "with_code"]

log = logging.getLogger("hipdnn_iree.onnx")

SAMPLE = 2
"""The size for which a graph with extents known at execution is tried."""


@dataclass(frozen=True)
class Group:
    """Nodes that are claimed together.

    Attributes
    ----------
    model : Model
        These nodes alone; extents may be names.
    program : Program
        For the sizes that it was tried with.
    plans : mapping of str to Plan
    family : Family, optional
        Of a group whose extents are known at execution, the programs of all sizes.
    no_family : str
        Why a group whose extents are known at execution has none.
    """

    model: Model
    program: Program
    plans: Mapping[str, Plan]
    family: Family | None = None
    no_family: str = ""

    @classmethod
    def of(
        cls, model: Model, options: Options, sizes: Mapping[str, int], buckets: Sequence[int]
    ) -> Group:
        """Return a group, its extents known for some sizes; what is raised is that of `made`."""
        why = "no rule gives the numbers of its graphs at every size"
        try:
            every = made_for_sizes(model, options, buckets)
            if every is not None:
                return cls(model, *every.at(sizes), every)
        except NotPrecompiledError:
            raise
        except _FAILURES as error:
            why = " ".join(str(error).split())[:600]
            log.info("a group has no program for all sizes: %s", why)
        found = cls(model, *made(model.at(sizes), options))
        return replace(found, no_family=why) if found.is_dynamic else found

    @property
    def has_code(self) -> bool:
        """Whether its code serves all sizes, so that it can be written into a file."""
        return not self.is_dynamic or (self.family is not None and self.family.is_complete)

    def code(self, graph: str) -> str:
        """Return what the code of a graph serves: fixed, all sizes, buckets, or each size."""
        if self.family is not None:
            return self.family.code(graph)
        return "each size" if self.is_dynamic else "fixed"

    def each_size(self, graph: str) -> str:
        """Return why a graph has code for each size; empty for one that has other code."""
        return self.no_family if self.family is None else self.family.each_size.get(graph, "")

    @property
    def is_dynamic(self) -> bool:
        """Whether extents are known at execution only."""
        return any(not v.is_static for v in map(self.model.values.get, self._names()) if v)

    def faults(self) -> str:
        """Return which graphs have code for each size, and why."""
        if self.family is None:
            return f"its graphs have code for each size: {self.no_family}"
        return "; ".join(
            f"the graph of {', '.join(nodes)} has code for each size: {self.each_size(name)}"
            for name, nodes in self.program.nodes.items()
            if self.each_size(name)
        )

    def _names(self) -> Sequence[str]:
        return (*self.model.inputs, *self.model.outputs)


@dataclass(frozen=True)
class Partition:
    """The groups of a graph, the nodes that hold code already, and why others are in none."""

    groups: tuple[Group, ...]
    declined: tuple[Declined, ...]
    compiled: tuple[str, ...] = ()


def partition(
    model: Model, options: Options, *, min_nodes: int = 1, buckets: Sequence[int] = ()
) -> Partition:
    """Return the groups of nodes that are claimed.

    Parameters
    ----------
    model : Model
    options : Options
        Of the offload pipeline.
    min_nodes : int
        Smaller groups are not made.
    buckets : sequence of int
        Sizes that extents known at execution are rounded up to.
    """
    model = trimmed(model)
    sizes = dict.fromkeys(filter(None, model.symbols()), SAMPLE)
    chosen, declined = claimable(model, sizes)
    chosen, refused = _expandable(model, chosen, sizes)
    declined += refused
    left = _unconverted(model.at(sizes), chosen, options)
    declined += [_declined(n, "EP-06", f"onnx.{n.op}", "ATen ops") for n in left]
    chosen = [node for node in chosen if not any(node is one for one in left)]
    found: list[Group] = []
    while chosen:
        found, failed = [], []
        for nodes in model.groups(chosen):
            group = model.part(nodes)
            if not group.outputs:
                continue  # nothing reads it
            try:
                found.append(Group.of(group, options, sizes, buckets))
            except NotPrecompiledError:
                raise
            except _FAILURES as error:
                log.info("a group of %d nodes is not served as a whole: %s", len(nodes), error)
                failed += _failing(model, nodes, sizes, options, error)
                break
        if not failed:
            break
        declined += failed
        names = {one.node for one in failed}
        chosen = [node for node in chosen if node.label not in names]
    small = [group for group in found if len(group.model.nodes) < min_nodes]
    declined += [
        _declined(n, "EP-08", f"a group of {len(g.model.nodes)}", f"at least {min_nodes}")
        for g in small
        for n in g.model.nodes
    ]
    kept = tuple(group for group in found if len(group.model.nodes) >= min_nodes)
    return Partition(kept, _in_order(model, declined))


def with_code(found: Partition, model: Model) -> tuple[Partition, tuple[Group, ...]]:
    """Return the groups whose code serves all sizes, as it can be written, and the others."""
    kept = tuple(group for group in found.groups if group.has_code)
    left = tuple(group for group in found.groups if not group.has_code)
    wanted = "known extents, or graphs with one code for all sizes or for buckets"
    declined = [
        _declined(node, "EP-10", f"a group that is compiled when a size is met: {faults}", wanted)
        for group, faults in ((group, group.faults()) for group in left)
        for node in group.model.nodes
    ]
    return Partition(kept, _in_order(model, [*found.declined, *declined])), left


def _in_order(model: Model, declined: Iterable[Declined]) -> tuple[Declined, ...]:
    place = {node.label: k for k, node in enumerate(model.nodes)}
    return tuple(sorted(declined, key=lambda d: place[d.node]))


_FAILURES = (
    ArtifactError,
    CompileError,
    DeviceError,
    FormatError,
    GraphError,
    NotSupportedError,
)


def _declined(node: Node, rule: str, got: str, wanted: str) -> Declined:
    return Declined(node=node.label, op=node.op, problem=Problem(rule=rule, got=got, wanted=wanted))


def _expandable(
    model: Model, chosen: Sequence[Node], sizes: Mapping[str, int]
) -> tuple[list[Node], list[Declined]]:
    """Return the nodes whose expansion honours them, and the others."""
    kept, declined = [], []
    for node in chosen:
        if (node.domain, node.op) in EXPANSIONS:
            try:
                expanded(model.part([node]).at(sizes))
            except Unserved as error:
                problem = Problem(rule="EP-05", port=error.port, got=error.got, wanted=error.wanted)
                declined.append(Declined(node=node.label, op=node.op, problem=problem))
                continue
        kept.append(node)
    return kept, declined


def _unconverted(model: Model, chosen: Sequence[Node], options: Options) -> list[Node]:
    """Return the nodes that torch-mlir leaves as they are."""
    if not chosen:
        return []
    try:
        return _left(model.part(chosen), options)
    except _FAILURES as error:  # one that ends the conversion, which says nothing of the others
        log.info("the conversion of the graph failed: %s", error)
        if len(chosen) == 1:
            return list(chosen)
        half = len(chosen) // 2
        return [
            *_unconverted(model, chosen[:half], options),
            *_unconverted(model, chosen[half:], options),
        ]


def _left(model: Model, options: Options) -> list[Node]:
    module = Module(text(expanded(model)).encode(), options, name="the graph")
    module.run("convert-torch-onnx-to-torch")
    functions, _, _ = module.functions()
    names = {
        op.location for function in functions for op in function.ops if op.name.startswith("onnx.")
    }
    return [node for node in model.nodes if node.label in names]


def _failing(
    model: Model,
    nodes: Sequence[Node],
    sizes: Mapping[str, int],
    options: Options,
    error: HipdnnIreeError,
) -> list[Declined]:
    """Return the nodes of a group that fails which fail by themselves, or all of them."""
    failed = []
    if len(nodes) > 1:
        for node in nodes:
            try:
                made(model.part([node]).at(sizes), options)
            except _FAILURES as own:
                failed.append(_uncompiled(node, own))
    return failed or [_uncompiled(node, error) for node in nodes]


def _uncompiled(node: Node, error: HipdnnIreeError) -> Declined:
    said = " ".join(str(error).split())
    return _declined(node, "EP-07", said[:600], "a graph that an engine serves")


def digest(model: Model, facts: Mapping[str, Any]) -> str:
    """Return what tells a graph, and what decides on its groups, from others."""
    record = {
        "nodes": [
            [n.label, n.op, n.domain, n.version, n.inputs, n.outputs, sorted(n.odd), n.captured]
            + [[k, _plain(v)] for k, v in sorted(n.attributes.items())]
            for n in model.nodes
        ],
        "values": {
            n: [v.data_type and v.data_type.name, v.dims] for n, v in sorted(model.values.items())
        },
        "constants": {n: _plain(c) for n, c in sorted(model.constants.items())},
        "rest": [sorted(model.weights), model.inputs, model.outputs, sorted(model.opsets.items())],
        "facts": dict(facts),
    }
    return sha256(json.dumps(record, sort_keys=True).encode("utf-8", "surrogateescape")).hexdigest()


def _plain(value: Any) -> Any:
    if hasattr(value, "data"):
        return [value.data_type.name, value.dims, value.data.hex()]
    return value if not isinstance(value, float) else value.hex()
