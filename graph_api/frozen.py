# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The immutable graph that every later layer takes: checked, inferred, in canonical order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cached_property
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from .collector import collector_paused
from .dtypes import DataType
from .dynamic_dim import DynamicDim
from .errors import GraphError
from .ops.base import Op
from .order import Shape, canonical_order
from .tensor import Tensor, TensorSpec
from .validate import Resolution, resolve
from .values import stored

if TYPE_CHECKING:
    from .building import GraphBuilder, Node

__all__ = ["FrozenGraph", "FrozenNode", "freeze"]

_SORTED = json.JSONEncoder(sort_keys=True).encode  # json.dumps makes an encoder for each call

# Part of every digest: to be raised when the canonical form changes its meaning.
CANONICAL_VERSION = 1


class _ReadOnly:
    """A record whose mappings cannot be changed, and that can be pickled all the same."""

    def __post_init__(self) -> None:
        for name, value in list(vars(self).items()):
            if isinstance(value, dict):
                vars(self)[name] = MappingProxyType(value)

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: dict(value) if isinstance(value, MappingProxyType) else value
            for name, value in vars(self).items()
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.__post_init__()


@dataclass(frozen=True, kw_only=True)
class FrozenNode(_ReadOnly):
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
        In the op's order of ports.
    compute_data_type : DataType
        Type to compute and accumulate in; never UNSET.
    source : Op
        The op as it was given: what other dims would make another op of (``specialise``).
    at : str
        ``file:line`` of the script's call that added it; empty for graphs from files.
    """

    label: str
    name: str
    op: Op
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    compute_data_type: DataType
    source: Op
    at: str = field(default="", compare=False)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FrozenGraph(_ReadOnly):
    """A checked graph.

    Attributes
    ----------
    name : str
    io_data_type, intermediate_data_type, compute_data_type : DataType
        The defaults as given (they have been applied already).
    nodes : tuple of FrozenNode
        In canonical order (producers first), without the nodes whose results nothing uses.
    tensors : mapping of uid to TensorSpec
        All tensors that the nodes touch, in canonical order.
    inputs, outputs : tuple of int
        Uids of the tensors that need a buffer, each in canonical order.
    unused : tuple of int
        Uids of tensors that no kept node touches.
    preferred_engine_id : int or None
        hipDNN's id of the engine to take where it serves the graph.
    is_override_shape_enabled : bool
        Whether other dims and strides may come with the buffers (hipDNN's override shapes).
    symbols : tuple of DynamicDim
        The dims that are given at execution; ``dims`` of tensors have the examples.
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
    symbols: tuple[DynamicDim, ...] = ()

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

    @cached_property
    def constants(self) -> tuple[int, ...]:
        """Uids of the inputs that hold the same numbers at each execution."""
        return tuple(uid for uid in self.inputs if self.tensors[uid].constant)

    @cached_property
    def arguments(self) -> tuple[int, ...]:
        """Uids of the other inputs, whose buffers come with each execution."""
        return tuple(uid for uid in self.inputs if not self.tensors[uid].constant)

    def spec(self, uid: int) -> TensorSpec:
        """Return the tensor with this uid."""
        return self.tensors[uid]

    def __repr__(self) -> str:
        from .draw import describe

        return describe(self)

    def _canonical_form(self) -> dict[str, Any]:
        number: dict[int | None, int] = {uid: i for i, uid in enumerate(self.tensors)}
        names = (name for spec in self.tensors.values() for name in spec.dynamic if name)
        dynamic = {name: i for i, name in enumerate(dict.fromkeys(names))}
        return {
            "version": CANONICAL_VERSION,
            "nodes": [
                {
                    "op": node.op.NAME,
                    "params": _plain(node.op),
                    "compute": node.compute_data_type.json,
                    "ports": {
                        port: number[uid]
                        for port, uid in (*node.inputs.items(), *node.outputs.items())
                    },
                }
                for node in self.nodes
            ],
            "tensors": [
                # None is no uid, so a tensor without ragged offsets gets None.
                [*_plain_tensor(spec), number.get(spec.ragged_offset_uid), *_marks(spec, dynamic)]
                for spec in self.tensors.values()
            ],
            "inputs": [number[u] for u in self.inputs],
            "outputs": [number[u] for u in self.outputs],
        }


def _marks(spec: TensorSpec, number: Mapping[str, int]) -> list[list[int] | str]:
    """Return a tensor's dynamic dims by number, in the order in which tensors have them.

    A constant has another mark: code for it takes no argument.
    """
    found: list[list[int] | str] = ["constant"] if spec.constant else []
    return [*found, [number.get(n, -1) for n in spec.dynamic]] if spec.dynamic else found


def _plain_tensor(spec: TensorSpec) -> list[Any]:
    """Return what a tensor is, apart from its names, in JSON terms."""
    layout = spec.layout
    return [
        spec.data_type.json,
        list(spec.dims),
        # Strides of extent-1 dims address nothing, so equal strides in memory order mean equal
        # layouts; a virtual tensor is not laid out at all.
        None if spec.virtual else [list(layout.order), list(layout.strides)],
        spec.virtual,
        None if spec.value is None else repr(spec.value),
        spec.runtime_scalar,
    ]


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

    return {f.name: plain(getattr(op, f.name)) for f in fields(op) if f.compare}


@collector_paused()
def freeze(graph: GraphBuilder, found: Resolution | None = None) -> FrozenGraph:
    """Return the immutable form of a graph, with the examples of dynamic dims as plain sizes.

    Parameters
    ----------
    graph : GraphBuilder
    found : Resolution, optional
        Of the graph as it is, by a caller that has resolved it; it takes a third of the time.

    Raises
    ------
    GraphError
        With every broken rule, in node order.
    """
    if found is None:
        found = resolve(graph)
    if found.problems:
        count = len(found.problems)
        raise GraphError(f"graph {graph.name!r} breaks {count} rule(s)", found.problems)

    graph.assign_uids()
    nodes = [_freeze_node(node, found) for node in _kept(found.nodes)]
    by_uid = {t.uid: t for t in graph.tensors}
    specs = {
        uid: _freeze_tensor(by_uid[uid], found)
        for uid in dict.fromkeys(
            u for n in nodes for u in (*n.inputs.values(), *n.outputs.values())
        )
    }
    shapes = [Shape(_text(node), node.inputs, node.outputs) for node in nodes]
    texts = _tensor_texts(specs)
    nodes = [nodes[i] for i in canonical_order(shapes, texts)]

    uids = [u for n in nodes for u in (*n.inputs.values(), *n.outputs.values())]
    specs = {uid: specs[uid] for uid in uids}
    for spec in list(specs.values()):
        if spec.ragged_offset_uid is not None:
            offsets = by_uid[spec.ragged_offset_uid]
            specs.setdefault(offsets.uid, _freeze_tensor(offsets, found))
    written = {uid for node in nodes for uid in node.outputs.values()}
    return FrozenGraph(
        name=graph.name,
        io_data_type=graph.io_data_type,
        intermediate_data_type=graph.intermediate_data_type,
        compute_data_type=graph.compute_data_type,
        nodes=tuple(nodes),
        tensors=specs,
        inputs=tuple(u for u, s in specs.items() if u not in written and s.value is None),
        outputs=tuple(u for u, s in specs.items() if u in written and not s.virtual),
        unused=tuple(t.uid for t in graph.tensors if t.uid not in specs),
        preferred_engine_id=graph.preferred_engine_id,
        is_override_shape_enabled=graph.is_override_shape_enabled,
    )


def _kept(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes whose results a buffer or a kept node takes, in order."""
    wanted: set[int] = set()
    kept = []
    for node in reversed(nodes):
        if any(not t.virtual or id(t) in wanted for t in node.outputs.values()):
            wanted.update(map(id, node.inputs.values()))
            kept.append(node)
    return kept[::-1]


def _freeze_node(node: Node, found: Resolution) -> FrozenNode:
    op = found.ops[id(node)]
    return FrozenNode(
        label=found.labels[id(node)],
        name=node.name,
        op=op,
        # The op's order of ports, whatever the order in which they were connected.
        inputs={n: node.inputs[n].uid for p in op.INPUTS for n in p.connected(node.inputs)},
        outputs={n: node.outputs[n].uid for p in op.OUTPUTS for n in p.connected(node.outputs)},
        compute_data_type=found.compute[id(node)],
        source=node.op,
        at=node.at,
    )


def _freeze_tensor(tensor: Tensor, found: Resolution) -> TensorSpec:
    view = found.views[id(tensor)]
    assert view.dims is not None
    assert view.strides is not None
    return TensorSpec(
        uid=tensor.uid,
        name=tensor.name,
        data_type=view.data_type,
        dims=view.dims,
        strides=view.strides,
        virtual=tensor.virtual,
        value=None if tensor.value is None else stored(tensor.value, view.data_type),
        alignment=tensor.alignment,
        runtime_scalar=tensor.runtime_scalar,
        ragged_offset_uid=tensor.ragged_offset_uid,
    )


def _tensor_texts(specs: Mapping[int, TensorSpec]) -> dict[int, str]:
    """Return what distinguishes each tensor; most tensors of a large graph are like others."""
    known: dict[object, str] = {}
    found = {}
    for uid, spec in specs.items():
        if spec.value is not None:  # 0 and -0.0 are equal, and no one constant
            found[uid] = json.dumps(_plain_tensor(spec))
            continue
        key = (spec.data_type, spec.dims, spec.strides, spec.virtual, spec.runtime_scalar)
        if key not in known:
            known[key] = json.dumps(_plain_tensor(spec))
        found[uid] = known[key]
    return found


def _text(node: FrozenNode) -> str:
    return _SORTED([node.op.NAME, _plain(node.op), node.compute_data_type.json])
