# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writing hipDNN's graph JSON in its newest format."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...dtypes import DataType
from ...errors import FormatError, Problem
from ...ops.base import Port
from ...ops.fields import Absent, Field, Kind

if TYPE_CHECKING:
    from ...frozen import FrozenGraph, FrozenNode

__all__ = ["dumps", "value_type"]

_VALUE_TYPES = {
    DataType.FLOAT: "Float32Value",
    DataType.HALF: "Float16Value",
    DataType.BFLOAT16: "BFloat16Value",
    DataType.DOUBLE: "Float64Value",
    DataType.INT32: "Int32Value",
    DataType.INT64: "Int64Value",
    DataType.BOOLEAN: "BoolValue",
}


def dumps(graph: FrozenGraph) -> str:
    """Write hipDNN's newest JSON format, laid out as hipDNN's own dumps are (sorted, 2 spaces).

    Raises
    ------
    FormatError
        If a scalar is infinite or NaN, which the format cannot hold.
    """
    data: dict[str, Any] = {
        "name": graph.name,
        "compute_data_type": graph.compute_data_type.json,
        "io_data_type": graph.io_data_type.json,
        "intermediate_data_type": graph.intermediate_data_type.json,
        "is_override_shape_enabled": graph.is_override_shape_enabled,
        "nodes": [_write_node(node) for node in graph.nodes],
        "tensors": [_write_tensor(graph, uid) for uid in sorted(graph.tensors)],
    }
    if graph.symbols:
        data["dynamic_dims"] = {
            dim.name: {"range": [dim.low, dim.high], "example": dim.example}
            for dim in graph.symbols
        }
    if graph.preferred_engine_id is not None:
        data["preferred_engine_id"] = graph.preferred_engine_id
    return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)


def _write_tensor(graph: FrozenGraph, uid: int) -> dict[str, Any]:
    spec = graph.tensors[uid]
    data: dict[str, Any] = {
        "uid": uid,
        "name": spec.name,
        "data_type": spec.data_type.json,
        "dims": list(spec.dims),
        "strides": list(spec.strides),
        "virtual": spec.virtual,
        "alignment": spec.alignment,
        "is_runtime_pass_by_value": spec.runtime_scalar,
    }
    if spec.dynamic and uid in graph.inputs:  # those of results follow
        data["dynamic_dims"] = {str(i): name for i, name in enumerate(spec.dynamic) if name}
    if spec.ragged_offset_uid is not None:
        data["ragged_offset_tensor_uid"] = spec.ragged_offset_uid
    if spec.value is not None:
        kind = value_type(spec.data_type)
        if not math.isfinite(spec.value):
            problem = Problem(
                rule="JSON-08", port=spec.label, got=repr(spec.value), wanted="a finite number"
            )
            raise FormatError("JSON cannot hold the graph", [problem])
        data["value_type"] = kind
        data["value"] = spec.value
    return data


def value_type(data_type: DataType) -> str:
    """Return the name of the union member that holds a scalar, as a number and not as bits."""
    if data_type.is_integer:
        return _VALUE_TYPES.get(data_type, "Int64Value")
    return _VALUE_TYPES.get(data_type, "Float32Value")


def _write_node(node: FrozenNode) -> dict[str, Any]:
    data: dict[str, Any] = {
        "type": node.op.TYPE_NAME,
        "name": node.name,
        "compute_data_type": node.compute_data_type.json,
    }
    for spec in node.op.FIELDS:
        section = data.setdefault(spec.section, {}) if spec.section else data
        if spec.kind is Kind.TENSOR:
            value: Any = node.inputs.get(spec.name, node.outputs.get(spec.name))
        elif spec.kind is Kind.TENSORS:
            sides = (node.inputs, node.outputs)
            port = Port(spec.name, variadic=True)
            value = [side[name] for side in sides for name in port.connected(side)]
        else:
            value = _write_parameter(spec, getattr(node.op, spec.name))
        if value is not None or spec.absent is Absent.NULL:
            section[spec.key] = value
    return data


def _write_parameter(spec: Field, value: Any) -> Any:
    if spec.kind is Kind.ENUM and value is not None:
        return value.wire if spec.as_code else value.json
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    return value
