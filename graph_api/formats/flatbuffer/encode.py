# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From a frozen graph to the bytes of an operation graph, in either era."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...dtypes import DataType
from ...errors import FormatError, Problem
from ...frozen import FrozenGraph, FrozenNode
from ...ops.base import Op, Port
from ...ops.fields import Kind
from ...tensor import TensorSpec
from ...values import from_byte
from ..meanings import exchanged, x_first
from .buffer_writer import write
from .hipdnn_tables import GRAPH, NODE, NODE_N25, TENSOR
from .inv_variance import holds_inverse, is_variance, narrowed
from .node_tables import NODE_TABLES, OPS_BY_CODE, held
from .schema_types import Era, Record
from .wire_rules import problem

__all__ = ["encode", "encode_record", "required_api"]

_N25_CODES = range(1, 8)
_N25_TYPES = range(7)

# How the value of a scalar is kept; other integers as Int32Value, other floats as Float32Value.
_VALUE_CODES = {
    DataType.FLOAT: 1,
    DataType.HALF: 2,
    DataType.BFLOAT16: 3,
    DataType.INT32: 5,
    DataType.DOUBLE: 6,
    DataType.INT64: 7,
    DataType.BOOLEAN: 8,
}


def encode(
    graph: FrozenGraph,
    era: Era = Era.NODE,
    *,
    inv_variance: str = "auto",
    backward_operands: str = "auto",
    id: bytes | None = None,
) -> bytes:
    """Write an operation graph.

    Parameters
    ----------
    graph : FrozenGraph
    era : Era
        Form of hipDNN that is to read it.
    inv_variance : str
        What that reader takes the field for: ``auto``, ``inverse`` or ``variance``.
    backward_operands : str
        The order in which it takes those of a backward mode: ``auto``, ``dy_x`` or ``x_dy``.
    id : bytes, optional
        UUID of the graph, 16 bytes.

    Raises
    ------
    FormatError
        If the era cannot hold the graph (WIRE-13), or a number does not fit its field
        (WIRE-14).
    """
    record = encode_record(
        graph, era, inv_variance=inv_variance, backward_operands=backward_operands
    )
    if id is not None and era is Era.NODE:
        record["id"] = id
    return write(record, era=era)


def encode_record(
    graph: FrozenGraph,
    era: Era = Era.NODE,
    *,
    inv_variance: str = "auto",
    backward_operands: str = "auto",
) -> Record:
    """Return a graph as a record, field by field in hipDNN's names; see `encode`."""
    problems: list[Problem] = []
    if x_first(backward_operands, old=era is Era.N25):
        graph = exchanged(graph)
    variance = is_variance(inv_variance, era)
    nodes = [_node(graph, node, era, variance, problems) for node in graph.nodes]
    used = {uid for record in nodes for uid in _uids(record)}
    used |= {s.ragged_offset_uid for s in graph.tensors.values() if s.ragged_offset_uid is not None}
    tensors = [_tensor(graph.tensors[uid], era, problems) for uid in sorted(used)]
    compute = graph.compute_data_type
    if era is Era.N25:
        # Its nodes have no type of their own.
        types = {node.compute_data_type for node in graph.nodes}
        if len(types) == 1:
            (compute,) = types
        else:
            got = ", ".join(sorted(t.json for t in types))
            problems.append(_beyond("", "compute_data_type", got, "one type for all nodes"))
    if problems:
        raise FormatError(f"the {era.name} format cannot hold the graph", problems)
    record = Record(
        GRAPH,
        name=graph.name,
        compute_data_type=compute,
        intermediate_data_type=graph.intermediate_data_type,
        io_data_type=graph.io_data_type,
        tensors=tuple(tensors),
        nodes=tuple(nodes),
        preferred_engine_id=graph.preferred_engine_id if era is Era.NODE else None,
        is_override_shape_enabled=graph.is_override_shape_enabled,
    )
    version = required_api(graph)
    if version > (1, 0, 0) and era is Era.NODE:
        record["min_required_engine_api_version"] = dict(
            zip(("major", "minor", "patch"), version, strict=True)
        )
    return record


def required_api(graph: FrozenGraph) -> tuple[int, int, int]:
    """Return the engine API that knows all that the graph uses."""
    specs = graph.tensors.values()
    if any(s.ragged_offset_uid is not None or s.alignment != 16 for s in specs):
        return (1, 3, 0)
    if any(s.runtime_scalar for s in specs):
        return (1, 2, 0)
    return (1, 1, 0) if graph.is_override_shape_enabled else (1, 0, 0)


def _beyond(where: str, port: str, got: object, wanted: str, hint: str = "") -> Problem:
    return problem("WIRE-13", where, port, got, wanted, hint)


# ---------------------------------------------------------------------------- tensors


def _tensor(spec: TensorSpec, era: Era, problems: list[Problem]) -> Record:
    if era is Era.N25 and spec.data_type.wire not in _N25_TYPES:
        got = spec.data_type.json
        problems.append(_beyond("", spec.label, got, "float, half, bfloat16, double, uint8, int32"))
    if any(spec.dynamic):
        hint = (
            "hipDNN gives other sizes at execution, as override shapes of a graph with fixed dims"
        )
        got = f"dynamic dims {', '.join(sorted(set(filter(None, spec.dynamic))))}"
        problems.append(_beyond("", spec.label, got, "dims that are numbers", hint))
    code, value = _value(spec)
    return Record(
        TENSOR,
        uid=spec.uid,
        name=spec.name,
        data_type=spec.data_type,
        strides=spec.strides,
        dims=spec.dims,
        virtual=spec.virtual,
        value_type=code,
        value=value,
        is_runtime_pass_by_value=spec.runtime_scalar,
        ragged_offset_tensor_uid=spec.ragged_offset_uid,
        alignment=spec.alignment,
    )


def _value(spec: TensorSpec) -> tuple[int, Any]:
    value, data_type = spec.value, spec.data_type
    if value is None:
        return 0, None
    if data_type.is_float and data_type.bits == 8:
        wanted = repr(value)  # distinguishes -0.0 and NaN
        return 4, next(b for b in range(256) if repr(from_byte(b, data_type)) == wanted)
    return _VALUE_CODES.get(data_type, 5 if data_type.is_integer else 1), value


# ---------------------------------------------------------------------------- nodes


def _node(
    graph: FrozenGraph, node: FrozenNode, era: Era, variance: bool, problems: list[Problem]
) -> Record:
    op: type[Op] = type(node.op)
    inputs = node.inputs
    if variance and era is Era.N25 and (old := narrowed(graph, node)) is not None:
        op, inputs = old
    elif variance and holds_inverse(op):
        hint = "use batchnorm_inference_variance_ext, or inv_variance='inverse' if the reader does"
        wanted = "a variance, which is what the reader takes it for"
        problems.append(
            _beyond(node.label, "inv_variance", "an inverse standard deviation", wanted, hint)
        )
    if op.WIRE_CODE is None:
        wanted = ", ".join(known.NAME for known in OPS_BY_CODE.values())
        problems.append(_beyond(node.label, "", f"the op {node.op.NAME}", f"one of {wanted}"))
        return Record(NODE)
    if era is Era.N25 and op.WIRE_CODE not in _N25_CODES:
        wanted = ", ".join(OPS_BY_CODE[code].NAME for code in _N25_CODES)
        problems.append(_beyond(node.label, "", f"the op {node.op.NAME}", f"one of {wanted}"))
    for field in op.FIELDS:
        if field.assumed is None:
            continue
        if (value := getattr(node.op, field.name)) not in (None, field.assumed):
            hint = "the format has no field for it"
            problems.append(_beyond(node.label, field.name, value, str(field.assumed), hint))
    code, attributes = op.WIRE_CODE, _attributes(op, op.WIRE_CODE, node, inputs)
    if era is Era.N25:
        return Record(NODE_N25, name=node.name, attributes_type=code, attributes=attributes)
    return Record(
        NODE,
        name=node.name,
        compute_data_type=node.compute_data_type,
        attributes_type=code,
        attributes=attributes,
    )


def _attributes(op: type[Op], code: int, node: FrozenNode, inputs: Mapping[str, int]) -> Record:
    record = Record(NODE_TABLES[code])
    for field in held(op):
        if field.kind is Kind.TENSOR:
            value: Any = inputs.get(field.name, node.outputs.get(field.name))
        elif field.kind is Kind.TENSORS:
            port = Port(field.name, variadic=True)
            sides = (inputs, node.outputs)
            value = tuple(side[name] for side in sides for name in port.connected(side))
        else:
            value = getattr(node.op, field.name)
        record[field.key] = value
    return record


def _uids(node: Record) -> list[int]:
    """Return the uids that a node's record names."""
    op = OPS_BY_CODE.get(node.get("attributes_type", 0))
    found: list[int] = []
    for field in held(op) if op else ():
        value = node["attributes"].get(field.key)
        if field.kind is Kind.TENSOR and value is not None:
            found.append(value)
        elif field.kind is Kind.TENSORS:
            found += value
    return found
