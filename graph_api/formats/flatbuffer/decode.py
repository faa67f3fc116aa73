# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From the bytes of an operation graph to a graph.

Everything that is found in the buffer either becomes part of the graph, or is declined by a rule;
only what has no bearing on the result is left out: the graph's id, and notes about costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ...collector import collector_paused
from ...dtypes import DataType
from ...errors import FormatError, Problem
from ...graph import Graph
from ...ops.base import variadic
from ...ops.fields import Kind
from ...size_limits import too_large
from ...tensor import Tensor
from ...values import from_byte
from ..meanings import exchange, mark_outputs, x_first
from .buffer_reader import Reader
from .hipdnn_tables import GRAPH, NODE
from .inv_variance import is_variance, reinterpret
from .node_tables import OPS_BY_CODE, held
from .schema_types import Era, Record
from .wire_rules import problem

__all__ = ["ENGINE_API", "Decoded", "decode", "decode_record", "is_binary", "lengths"]

G = TypeVar("G", bound=Graph)

ENGINE_API = (1, 4)
"""Newest engine API whose graphs are read here; each version's additions stand in the schema."""

# Kind of value -> the data type of a tensor that has none.
_HELD = {
    1: DataType.FLOAT,
    2: DataType.HALF,
    3: DataType.BFLOAT16,
    4: DataType.FP8_E4M3,
    5: DataType.INT32,
    6: DataType.DOUBLE,
    7: DataType.INT64,
    8: DataType.BOOLEAN,
}
_FLOAT8 = frozenset(t for t in DataType if t.is_float and t.bits == 8)


@dataclass(frozen=True, slots=True)
class Decoded(Generic[G]):
    """A graph, and what else the buffer contains.

    Attributes
    ----------
    graph : Graph
        Not frozen yet.
    era : Era
        Form of its nodes.
    id : bytes or None
        hipDNN's UUID of the graph, 16 bytes; for logs.
    required_api : tuple of int
        Engine API that the graph asks for: (major, minor, patch).
    """

    graph: G
    era: Era
    id: bytes | None
    required_api: tuple[int, int, int]


def is_binary(data: bytes) -> bool:
    """Whether bytes look like a FlatBuffer and not like JSON, sound or not.

    The root's offset is a multiple of 4 and below 64 MiB; no JSON text begins with such bytes.
    """
    return len(data) >= 8 and data[0] % 4 == 0 and data[3] <= 4


def lengths(data: bytes) -> dict[str, int]:
    """Return how many ``nodes`` and ``tensors`` a graph has, without reading them.

    Of a damaged buffer it may be none.
    """
    return Reader(data).lengths(GRAPH)


def decode_record(data: bytes) -> tuple[Record, list[Problem]]:
    """Read a graph as a record, field by field in hipDNN's names.

    Returns
    -------
    Record
        Of the table ``Graph``.
    list of Problem
        Fields and codes in it that are not known here.

    Raises
    ------
    FormatError
        If the buffer is damaged.
    """
    reader = Reader(data)
    return reader.root(GRAPH), reader.problems


@collector_paused()
def decode(
    data: bytes,
    factory: Callable[..., G],
    *,
    inv_variance: str = "auto",
    backward_operands: str = "auto",
) -> Decoded[G]:
    """Read an operation graph of either era.

    Parameters
    ----------
    data : bytes
        One ``Graph`` FlatBuffer.
    factory : callable
        The class of the graph.
    inv_variance : str
        What that field of a batch normalisation holds: ``auto``, ``inverse`` or ``variance``.
    backward_operands : str
        How the operands of a pointwise backward mode are ordered: ``auto``, ``dy_x`` or ``x_dy``.

    Raises
    ------
    FormatError
        If the buffer is damaged (see `rules.is_damage`), or holds what is not served here; with
        all problems found.
    """
    record, problems = decode_record(data)
    counts = (len(record[key] or ()) for key in ("nodes", "tensors"))
    problems = too_large(*counts) or [*problems, *_problems(record)]
    if problems:
        raise FormatError(f"the operation graph has {len(problems)} problem(s)", problems)
    version = record["min_required_engine_api_version"]
    era = _era(record["nodes"] or ())
    graph = factory(
        record["name"] or "",
        io_data_type=record["io_data_type"],
        intermediate_data_type=record["intermediate_data_type"],
        compute_data_type=record["compute_data_type"],
    )
    graph.preferred_engine_id = record["preferred_engine_id"]
    graph.is_override_shape_enabled = record["is_override_shape_enabled"]
    tensors = {item["uid"]: _tensor(graph, item) for item in record["tensors"] or ()}
    for item in record["nodes"] or ():
        _node(graph, item, tensors)
    if is_variance(inv_variance, era):
        reinterpret(graph)
    if x_first(backward_operands, old=era is Era.N25):
        exchange(graph)
    mark_outputs(graph)
    return Decoded(
        graph=graph,
        era=era,
        id=record["id"],
        required_api=tuple(version.values()) if version else (1, 0, 0),
    )


def _era(nodes: tuple[Record, ...]) -> Era:
    return Era.N25 if nodes and nodes[0].table is not NODE else Era.NODE


# ---------------------------------------------------------------------------- rules


def _problems(record: Record) -> list[Problem]:
    """Return the problems of records that are not served or are inconsistent."""
    found = []
    version = record["min_required_engine_api_version"]
    if version and not (1, 0) <= (version["major"], version["minor"]) <= ENGINE_API:
        wanted = f"1.0 to {ENGINE_API[0]}.{ENGINE_API[1]}"
        got = ".".join(str(n) for n in version.values())
        found.append(problem("WIRE-10", "", "min_required_engine_api_version", got, wanted))
    uids: set[int] = set()
    for i, tensor in enumerate(record["tensors"] or ()):
        where, uid = f"tensors[{i}]", tensor["uid"]
        if uid in uids:
            got = f"{uid}, a second time"
            found.append(problem("WIRE-11", where, "uid", got, "unique uids"))
        uids.add(uid)
        if tensor["value_type"] and tensor["value"] is None:
            got = f"kind {tensor['value_type']}"
            found.append(problem("WIRE-08", where, "value", got, f"a kind from 1 to {max(_HELD)}"))
    nodes = record["nodes"] or ()
    eras = {node.table for node in nodes}
    if len(eras) > 1:
        got = "nodes in the format of 2025 and in the newest one"
        found.append(problem("WIRE-12", "", "nodes", got, "one format"))
    for i, node in enumerate(nodes):
        found += _node_problems(node["name"] or f"nodes[{i}]", node, uids)
    for tensor in record["tensors"] or ():
        ragged = tensor["ragged_offset_tensor_uid"]
        if ragged is not None and ragged not in uids:
            where = f"tensor {tensor['uid']}"
            found.append(_dangling(where, "ragged_offset_tensor_uid", ragged))
        factor = tensor["ragged_offset_multiplier"]
        if ragged is not None and factor not in (None, 1):  # it has no meaning elsewhere
            where = f"tensor {tensor['uid']}"
            wanted = "1, as offsets count elements here"
            found.append(problem("WIRE-07", where, "ragged_offset_multiplier", factor, wanted))
    return found


def _node_problems(label: str, node: Record, uids: set[int]) -> list[Problem]:
    code = node["attributes_type"]
    op = OPS_BY_CODE.get(code)
    if op is None:
        unknown = f"a type that this version does not know (code {code})"
        got = unknown if code else "no attributes"
        wanted = ", ".join(op.TYPE_NAME for op in OPS_BY_CODE.values())
        return [problem("WIRE-09", label, "attributes", got, f"one of {wanted}")]
    found = []
    attributes = node["attributes"]
    for field in held(op):
        value = attributes[field.key]
        if field.kind is Kind.TENSOR and value is not None and value not in uids:
            found.append(_dangling(label, field.key, value))
        elif field.kind is Kind.TENSORS:
            missing = [uid for uid in value or () if uid not in uids][:3]
            found += [_dangling(label, field.key, uid) for uid in missing]
    return found


def _dangling(where: str, key: str, uid: int) -> Problem:
    return problem("WIRE-11", where, key, f"uid {uid}", "a uid listed in tensors")


# ---------------------------------------------------------------------------- graph


def _tensor(graph: Graph, item: Record) -> Tensor:
    data_type = item["data_type"]
    kind, value = item["value_type"], item["value"]
    if kind and data_type is DataType.UNSET:
        data_type = _HELD[kind]
    tensor = graph.tensor(
        # Empty vectors are hipDNN's way to write one that was never set.
        dims=item["dims"] or None,
        strides=item["strides"] or None,
        data_type=data_type,
        name=item["name"] or "",
        uid=item["uid"],
        virtual=item["virtual"],
    )
    tensor.alignment = item["alignment"]
    tensor.runtime_scalar = item["is_runtime_pass_by_value"]
    tensor.ragged_offset_uid = item["ragged_offset_tensor_uid"]
    if kind:
        if _HELD[kind] is DataType.FP8_E4M3:
            value = from_byte(value, data_type if data_type in _FLOAT8 else _HELD[kind])
        tensor.value = value
    return tensor


def _node(graph: Graph, item: Record, tensors: Mapping[int, Tensor]) -> None:
    op = OPS_BY_CODE[item["attributes_type"]]
    attributes = item["attributes"]
    ports: dict[str, Tensor] = {}
    values: dict[str, Any] = {}
    for field in held(op):
        value = attributes[field.key]
        if value is None:
            continue
        if field.kind is Kind.TENSOR:
            ports[field.name] = tensors[value]
        elif field.kind is Kind.TENSORS:
            ports |= variadic(field.name, (tensors[uid] for uid in value))
        else:
            values[field.name] = value
    outputs = {name: ports.pop(name) for p in op.OUTPUTS for name in p.connected(ports)}
    graph.add_node(
        op(**values),
        ports,
        outputs=outputs,
        compute=item.get("compute_data_type", DataType.UNSET),
        name=item["name"] or "",
        check=False,
    )
