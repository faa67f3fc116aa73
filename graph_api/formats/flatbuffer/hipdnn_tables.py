# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""hipDNN's schemas other than those of the operations.

Names, ids and defaults are those of hipDNN's ``*.fbs`` files; ``since`` marks what came after
November 2025.  Tables of the operations are made in `node_tables`.
"""

from __future__ import annotations

from ...dtypes import DataType
from . import schema_types as s
from .node_tables import NODE_TABLES
from .schema_types import Era, Struct, Table

__all__ = [
    "ENGINE_CONFIG",
    "ENGINE_DETAILS",
    "GRAPH",
    "GRAPH_AND_PLAN",
    "NODE",
    "NODE_N25",
    "PLAN",
    "TENSOR",
    "VALUE_TYPES",
]

# ---------------------------------------------------------------------------- Graph

VALUE_TYPES: dict[int, Struct] = {
    1: Struct("Float32Value", "<f", 4, 4),
    2: Struct("Float16Value", "<f", 4, 4),  # held as a float32, as is the next one
    3: Struct("BFloat16Value", "<f", 4, 4),
    4: Struct("Float8Value", "<B", 1, 1),  # the bits
    5: Struct("Int32Value", "<i", 4, 4),
    6: Struct("Float64Value", "<d", 8, 8),
    7: Struct("Int64Value", "<q", 8, 8),
    8: Struct("BoolValue", "<?", 1, 1),
}
"""Values of scalars: the union ``TensorValue``, whose members are structs."""

_API_VERSION = Struct("EngineApiVersion", "<III", 12, 4, ("major", "minor", "patch"))
_UUID = Struct("Uuid", "<16s", 16, 1)


def _data_type(name: str, *, since: Era = Era.N25) -> s.Slot:
    return s.enumeration(name, DataType, DataType.UNSET, since=since)


TENSOR = Table(
    "TensorAttributes",
    s.scalar("uid", s.LONG),
    s.string("name"),
    _data_type("data_type"),
    s.scalars("strides", s.LONG),
    s.scalars("dims", s.LONG),
    s.flag("virtual"),
    s.union("value", VALUE_TYPES),
    s.flag("is_runtime_pass_by_value", since=Era.NODE),
    s.scalar("ragged_offset_tensor_uid", s.LONG, None, since=Era.NODE),
    s.scalar("alignment", s.LONG, 16, since=Era.NODE),
    s.scalar("ragged_offset_multiplier", s.LONG, None, since=Era.NODE),
)
_ATTRIBUTES = s.union("attributes", NODE_TABLES)
NODE_N25 = Table("Node", s.string("name"), _ATTRIBUTES)
NODE = Table("Node", s.string("name"), _data_type("compute_data_type"), _ATTRIBUTES, older=NODE_N25)
GRAPH = Table(
    "Graph",
    s.string("name"),
    _data_type("compute_data_type"),
    _data_type("intermediate_data_type"),
    _data_type("io_data_type"),
    s.tables("tensors", TENSOR),
    s.tables("nodes", NODE),
    s.scalar("preferred_engine_id", s.LONG, None, since=Era.NODE),
    s.flag("is_override_shape_enabled", since=Era.NODE),
    s.inline("min_required_engine_api_version", _API_VERSION, since=Era.NODE),
    s.inline("id", _UUID, since=Era.NODE),
)

# ---------------------------------------------------------------------------- engines


_KNOB_VALUES = {
    1: Table("IntValue", s.scalar("value", s.LONG)),
    2: Table("FloatValue", s.scalar("value", s.DOUBLE, 0.0)),
    3: Table("StringValue", s.string("value")),
}
_KNOB_CONSTRAINTS = {
    1: Table(
        "IntConstraint",
        s.scalar("min_value", s.LONG),
        s.scalar("max_value", s.LONG),
        s.scalar("step", s.LONG, 1),
        s.scalars("valid_values", s.LONG),
    ),
    2: Table(
        "FloatConstraint",
        s.scalar("min_value", s.DOUBLE, 0.0),
        s.scalar("max_value", s.DOUBLE, 0.0),
    ),
    3: Table("StringConstraint", s.scalar("max_length", s.INT), s.strings("valid_values")),
}
_KNOB = Table(
    "Knob",
    s.string("knob_id"),
    s.string("description"),
    s.union("default_value", _KNOB_VALUES),
    s.union("constraint", _KNOB_CONSTRAINTS),
    s.flag("deprecated"),
)
_KNOB_SETTING = Table("KnobSetting", s.string("knob_id"), s.union("value", _KNOB_VALUES))
ENGINE_DETAILS = Table(
    "EngineDetails",
    s.scalar("engine_id", s.LONG),
    s.tables("knobs", _KNOB),
    s.scalars("behavior_notes", s.INT),
    s.string("name"),
)
ENGINE_CONFIG = Table(
    "EngineConfig",
    s.scalar("engine_id", s.LONG),
    s.tables("knobs", _KNOB_SETTING),
    s.string("ranking_metric"),
)

# ---------------------------------------------------------------------------- plans

PLAN = Table(
    "SerializedExecutionPlan",
    s.scalar("version", s.UINT),
    s.scalar("engine_id", s.LONG),
    s.scalar("workspace_size", s.LONG),
    s.scalars("tensor_uids", s.LONG),
    s.scalars("plugin_payload", s.UBYTE),
    s.flag("is_override_shape_enabled"),
    s.scalars("tensor_alignments", s.LONG),
)
GRAPH_AND_PLAN = Table(
    "SerializedGraphAndPlan", s.scalars("graph_blob", s.UBYTE), s.scalars("plan_blob", s.UBYTE)
)
