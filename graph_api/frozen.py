"""The immutable graph that every later layer takes: checked, inferred, in canonical order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from .dtypes import DataType
from .errors import GraphError
from .ops.base import Op
from .tensor import TensorSpec
from .validate import resolve

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["FrozenGraph", "FrozenNode", "freeze"]

# Part of every digest: to be raised when the canonical form changes its meaning.
CANONICAL_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class FrozenNode:
    """One op of a frozen graph; tensors are named by uid.

    Attributes
    ----------
    label : str
        The node's name, or ``<op>_<n>`` for a node without one.
    name : str
        The name as given.
    op : Op
        The op, with every parameter written out.
    inputs, outputs : mapping of port to uid
    compute_data_type : DataType
        Type to compute and accumulate in; never UNSET.
    """

    label: str
    name: str
    op: Op
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    compute_data_type: DataType


@dataclass(frozen=True, kw_only=True, eq=False)
class FrozenGraph:
    """A checked graph.

    Attributes
    ----------
    name : str
    io_data_type, intermediate_data_type, compute_data_type : DataType
        The defaults as given (they have been applied already).
    nodes : tuple of FrozenNode
        Producers first, without the nodes whose results nothing uses.
    tensors : mapping of uid to TensorSpec
        All tensors that the nodes touch.
    inputs, outputs : tuple of int
        Uids of the tensors that need a buffer, each in canonical order.
    unused : tuple of int
        Uids of tensors that no kept node touches.
    """

    name: str
    io_data_type: DataType
    intermediate_data_type: DataType
    compute_data_type: DataType
    nodes: tuple[FrozenNode, ...]
    tensors: Mapping[int, TensorSpec]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    unused: tuple[int, ...] = ()
    preferred_engine_id: int | None = None
    is_override_shape_enabled: bool = False

    @cached_property
    def canonical(self) -> str:
        """Compact JSON of what the graph computes: no names, no uids, layouts normalised."""
        return json.dumps(self._canonical_form(), separators=(",", ":"), sort_keys=True)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of ``canonical``, in hex; equal for graphs that differ in names and uids."""
        return sha256(self.canonical.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        """Whether both compute the same; names, uids and the order of adding do not matter."""
        if not isinstance(other, FrozenGraph):
            return NotImplemented
        return self.canonical == other.canonical

    def __hash__(self) -> int:
        return hash(self.digest)

    def spec(self, uid: int) -> TensorSpec:
        """Return the tensor with this uid."""
        return self.tensors[uid]

    def _canonical_form(self) -> dict[str, Any]:
        number: dict[int, int] = {}
        nodes = []
        for node in self.nodes:
            ports = {}
            for port, uid in (*node.inputs.items(), *node.outputs.items()):
                ports[port] = number.setdefault(uid, len(number))
            nodes.append(
                {
                    "op": node.op.NAME,
                    "params": _plain(node.op),
                    "compute": node.compute_data_type.json,
                    "ports": ports,
                }
            )
        tensors = []
        for uid in sorted(number, key=number.__getitem__):
            spec = self.tensors[uid]
            layout = spec.layout
            tensors.append(
                [
                    spec.data_type.json,
                    list(spec.dims),
                    # Strides of extent-1 dims address nothing, so equal steps mean equal layouts;
                    # a virtual tensor lies nowhere.
                    None if spec.virtual else [list(layout.order), list(layout.steps)],
                    spec.virtual,
                    None if spec.value is None else repr(spec.value),
                    spec.runtime_scalar,
                    None if spec.ragged_offset_uid is None else number.get(spec.ragged_offset_uid),
                ]
            )
        return {
            "version": CANONICAL_VERSION,
            "nodes": nodes,
            "tensors": tensors,
            "inputs": [number[u] for u in self.inputs],
            "outputs": [number[u] for u in self.outputs],
        }


def _plain(op: Op) -> dict[str, Any]:
    """Return an op's parameters in JSON terms; floats as text, so that inf, nan and -0.0 stay."""

    def plain(value: Any) -> Any:
        if isinstance(value, Enum):
            return value.name
        if isinstance(value, tuple):
            return [plain(v) for v in value]
        if isinstance(value, bytes):
            return sha256(value).hexdigest()
        return repr(value) if isinstance(value, float) else value

    return {f.name: plain(getattr(op, f.name)) for f in fields(op)}


def freeze(graph: Graph) -> FrozenGraph:
    """Return the immutable form of a graph.

    Raises
    ------
    GraphError
        With every broken rule, in node order.
    """
    found = resolve(graph)
    if found.problems:
        count = len(found.problems)
        raise GraphError(f"graph {graph.name!r} breaks {count} rule(s)", found.problems)

    # Walking backwards, a node is kept when something kept, or a buffer, takes its result.
    wanted: set[int] = set()
    kept = []
    for node in reversed(found.nodes):
        if any(not t.virtual or id(t) in wanted for t in node.outputs.values()):
            wanted.update(map(id, node.inputs.values()))
            kept.append(node)
    kept.reverse()

    specs: dict[int, TensorSpec] = {}
    for node in kept:
        for tensor in (*node.inputs.values(), *node.outputs.values()):
            view = found.views[id(tensor)]
            assert view.dims is not None
            assert view.strides is not None
            specs.setdefault(
                tensor.uid,
                TensorSpec(
                    uid=tensor.uid,
                    name=tensor.name,
                    data_type=view.data_type,
                    dims=view.dims,
                    strides=view.strides,
                    virtual=tensor.virtual,
                    value=tensor.value,
                    alignment=tensor.alignment,
                    runtime_scalar=tensor.runtime_scalar,
                    ragged_offset_uid=tensor.ragged_offset_uid,
                ),
            )
    written = {t.uid for node in kept for t in node.outputs.values()}
    return FrozenGraph(
        name=graph.name,
        io_data_type=graph.io_data_type,
        intermediate_data_type=graph.intermediate_data_type,
        compute_data_type=graph.compute_data_type,
        nodes=tuple(
            FrozenNode(
                label=found.labels[id(node)],
                name=node.name,
                op=found.ops[id(node)],
                inputs={p: t.uid for p, t in node.inputs.items()},
                outputs={p: t.uid for p, t in node.outputs.items()},
                compute_data_type=found.compute[id(node)],
            )
            for node in kept
        ),
        tensors=specs,
        inputs=tuple(u for u, s in specs.items() if u not in written and s.value is None),
        outputs=tuple(u for u, s in specs.items() if u in written and not s.virtual),
        unused=tuple(t.uid for t in graph.tensors if t.uid not in specs),
        preferred_engine_id=graph.preferred_engine_id,
        is_override_shape_enabled=graph.is_override_shape_enabled,
    )
