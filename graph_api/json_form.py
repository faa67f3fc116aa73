"""hipDNN's graph JSON: a tolerant reader of every era, and a writer of the newest form.

The reader takes what hipDNN's readers take and what hand-made files contain, but never guesses: a
spelling that hipDNN would silently turn into the first entry of a table is an error here.
Format: ``docs/graph-json.md``.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .dtypes import DataType
from .errors import FormatError, Problem
from .ops import OPS_BY_JSON_TYPE
from .ops.base import Absent, Field, Kind, Op
from .tensor import Tensor

if TYPE_CHECKING:
    from .frozen import FrozenGraph, FrozenNode
    from .graph import Graph

__all__ = ["RULES", "dumps", "loads"]

G = TypeVar("G", bound="Graph")

RULES: dict[str, str] = {
    "JSON-01": "the text is strict JSON (no NaN, no comments) in UTF-8, not nested absurdly deep",
    "JSON-02": "the graph is an object with the arrays nodes and tensors",
    "JSON-03": "a key that the op needs is there",
    "JSON-04": "a value has the type that its key asks for",
    "JSON-05": "a mode or data type is one that hipDNN knows (hipDNN would take the first entry)",
    "JSON-06": "a tensor uid is defined in tensors, once",
    "JSON-07": "the node type is one that this version serves",
    "JSON-08": "a scalar's value is finite (hipDNN writes null for inf and NaN, which loses it)",
}

# value_type -> data type that the value is stored for; Float16Value etc. hold plain numbers.
_VALUE_TYPES: dict[str, DataType] = {
    "Float32Value": DataType.FLOAT,
    "Float16Value": DataType.HALF,
    "BFloat16Value": DataType.BFLOAT16,
    "Float8Value": DataType.FP8_E4M3,
    "Int32Value": DataType.INT32,
    "Int64Value": DataType.INT64,
    "Float64Value": DataType.DOUBLE,
    "BoolValue": DataType.BOOLEAN,
}
_VALUE_NAMES = {t: name for name, t in _VALUE_TYPES.items()}


class _Reader:
    """Collects problems while reading; a method returns None where it reported one."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def report(self, rule: str, where: str, key: str, got: object, wanted: str) -> None:
        text = got if isinstance(got, str) else _short(got)
        self.problems.append(Problem(rule=rule, node=where, port=key, got=text, wanted=wanted))

    def integer(self, where: str, key: str, value: Any) -> int | None:
        # hipDNN truncates any number; an integral float is the most that we let pass.
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
            return value
        self.report("JSON-04", where, key, value, "a 64-bit integer")
        return None

    def number(self, where: str, key: str, value: Any) -> float | None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                # Parameters are float32 in hipDNN; a dump shows the digits of the double.
                return float(struct.unpack("f", struct.pack("f", value))[0])
            except OverflowError:
                pass
        self.report("JSON-04", where, key, value, "a float32 number")
        return None

    def flag(self, where: str, key: str, value: Any) -> bool | None:
        if isinstance(value, bool):
            return value
        self.report("JSON-04", where, key, value, "true or false")
        return None

    def text(self, where: str, key: str, value: Any) -> str | None:
        if isinstance(value, str):
            return value
        self.report("JSON-04", where, key, value, "a string")
        return None

    def integers(self, where: str, key: str, value: Any) -> tuple[int, ...] | None:
        if not isinstance(value, list):
            self.report("JSON-04", where, key, value, "an array of integers")
            return None
        items = [self.integer(where, key, v) for v in value]
        return None if None in items else tuple(v for v in items if v is not None)

    def data_type(self, where: str, key: str, value: Any) -> DataType:
        if value is None:
            return DataType.UNSET
        if isinstance(value, int) and not isinstance(value, bool):
            found = DataType.from_wire(value)
            if found is not None:
                return found
        elif isinstance(value, str):
            try:
                return DataType.parse(value)
            except ValueError:
                pass
        known = ", ".join(t.json for t in DataType)
        self.report("JSON-05", where, key, value, f"one of {known}")
        return DataType.UNSET


def loads(text: str | bytes, factory: Callable[..., G]) -> G:
    """Read a graph; see ``Graph.from_json``."""
    reader = _Reader()
    data = _parse(reader, text)
    if isinstance(data, dict):
        for key in ("nodes", "tensors"):
            if not isinstance(data.get(key), list):
                reader.report("JSON-02", "graph", key, data.get(key), "an array")
    elif not reader.problems:
        reader.report("JSON-02", "graph", "", data, "an object with nodes and tensors")
    if reader.problems:
        raise FormatError("this is not a hipDNN graph", reader.problems)

    def graph_type(name: str) -> DataType:
        # Both spellings occur (the older one has no "data"); the newer one wins.
        value = data.get(f"{name}_data_type", data.get(f"{name}_type"))
        return reader.data_type("graph", f"{name}_data_type", value)

    graph = factory(
        _name(reader, "graph", data),
        io_data_type=graph_type("io"),
        intermediate_data_type=graph_type("intermediate"),
        compute_data_type=graph_type("compute"),
    )
    if data.get("preferred_engine_id") is not None:
        graph.preferred_engine_id = reader.integer(
            "graph", "preferred_engine_id", data["preferred_engine_id"]
        )
    if data.get("is_override_shape_enabled") is not None:
        flag = reader.flag("graph", "is_override_shape_enabled", data["is_override_shape_enabled"])
        graph.is_override_shape_enabled = bool(flag)
    tensors: dict[int, Tensor] = {}
    for i, item in enumerate(data["tensors"]):
        _read_tensor(reader, graph, f"tensors[{i}]", item, tensors)
    for i, item in enumerate(data["nodes"]):
        _read_node(reader, graph, f"nodes[{i}]", item, tensors)
    if reader.problems:
        count = len(reader.problems)
        raise FormatError(f"the graph JSON has {count} problem(s)", reader.problems)
    return graph


def _parse(reader: _Reader, text: str | bytes) -> Any:
    def constant(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        return json.loads(text, parse_constant=constant)
    except (ValueError, RecursionError) as error:  # RecursionError: nested too deep
        reader.report("JSON-01", "graph", "", str(error), "strict JSON in UTF-8")
        return None


def _short(value: object) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 80 else text[:77] + "..."


def _name(reader: _Reader, where: str, item: Mapping[str, Any]) -> str:
    value = item.get("name")
    return "" if value is None else reader.text(where, "name", value) or ""


def _read_tensor(
    reader: _Reader, graph: Graph, where: str, item: Any, tensors: dict[int, Tensor]
) -> None:
    if not isinstance(item, dict):
        reader.report("JSON-04", where, "", item, "an object")
        return
    for key in ("uid", "dims", "strides"):
        if key not in item:
            reader.report("JSON-03", where, key, "nothing", f"the key {key}")
            return
    uid = reader.integer(where, "uid", item["uid"])
    dims = reader.integers(where, "dims", item["dims"])
    strides = reader.integers(where, "strides", item["strides"])
    if uid is None or dims is None or strides is None:
        return
    if uid in tensors:
        reader.report("JSON-06", where, "uid", f"{uid}, a second time", "unique uids")
        return
    virtual = item.get("virtual")
    tensor = graph.tensor(
        # Empty arrays are hipDNN's way to write a vector that was never set.
        dims=dims or None,
        strides=strides or None,
        data_type=reader.data_type(where, "data_type", item.get("data_type")),
        name=_name(reader, where, item),
        uid=uid,
        virtual=bool(reader.flag(where, "virtual", virtual)) if virtual is not None else False,
    )
    if item.get("alignment") is not None:
        tensor.alignment = reader.integer(where, "alignment", item["alignment"]) or 16
    if item.get("is_runtime_pass_by_value") is not None:
        flag = reader.flag(where, "is_runtime_pass_by_value", item["is_runtime_pass_by_value"])
        tensor.runtime_scalar = bool(flag)
    if item.get("ragged_offset_tensor_uid") is not None:
        tensor.ragged_offset_uid = reader.integer(
            where, "ragged_offset_tensor_uid", item["ragged_offset_tensor_uid"]
        )
    _read_value(reader, where, item, tensor)
    tensors[uid] = tensor


def _read_value(reader: _Reader, where: str, item: Mapping[str, Any], tensor: Tensor) -> None:
    kind, value = item.get("value_type"), item.get("value")
    if kind is None or (kind == "NONE" and value is None):
        return
    if kind == "NONE" and isinstance(value, bool):
        kind = "BoolValue"  # hipDNN's table of names lacks it, its writer does not
    if kind not in _VALUE_TYPES:
        known = ", ".join(_VALUE_TYPES)
        reader.report("JSON-05", where, "value_type", kind, f"one of {known}")
        return
    stored = _VALUE_TYPES[kind]
    if value is None:
        reader.report("JSON-08", where, "value", "null", "a finite number")
        return
    if stored.is_bool:
        tensor.value = reader.flag(where, "value", value)
    elif stored.is_integer:
        tensor.value = reader.integer(where, "value", value)
    elif kind == "Float8Value":
        byte = reader.integer(where, "value", value)
        if byte is not None and not 0 <= byte <= 255:
            reader.report("JSON-04", where, "value", byte, "a byte")
        elif byte is not None:
            kind8 = tensor.data_type if tensor.data_type.bits == 8 else stored
            tensor.value = _from_byte(byte, kind8)
    elif stored is DataType.DOUBLE:
        if isinstance(value, int | float) and not isinstance(value, bool):
            tensor.value = float(value)
        else:
            reader.report("JSON-04", where, "value", value, "a number")
    else:
        tensor.value = reader.number(where, "value", value)
    if tensor.data_type is DataType.UNSET:
        tensor.data_type = stored


def _from_byte(byte: int, kind: DataType) -> float:
    """Decode an 8-bit float (OCP or FNUZ) from its bits."""
    if kind is DataType.FP8_E8M0:
        return math.nan if byte == 255 else 2.0 ** (byte - 127)
    mantissa_bits = kind.value.mantissa or 3
    exponent_bits = 7 - mantissa_bits
    fnuz = kind.name.endswith("FNUZ")
    bias = 2 ** (exponent_bits - 1) - (0 if fnuz else 1)
    sign = -1.0 if byte & 0x80 else 1.0
    exponent = (byte & 0x7F) >> mantissa_bits
    mantissa = byte & (2**mantissa_bits - 1)
    if fnuz and byte == 0x80:
        return math.nan
    if not fnuz and exponent == 2**exponent_bits - 1:
        if kind is DataType.FP8_E5M2:
            return math.nan if mantissa else sign * math.inf
        if mantissa == 2**mantissa_bits - 1:
            return math.nan
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - mantissa_bits)
    return sign * math.ldexp(1 + mantissa / 2**mantissa_bits, exponent - bias)


def _read_node(
    reader: _Reader, graph: Graph, where: str, item: Any, tensors: Mapping[int, Tensor]
) -> None:
    if not isinstance(item, dict):
        reader.report("JSON-04", where, "", item, "an object")
        return
    name = _name(reader, where, item)
    label = name or where
    kind = item.get("type")
    op_type = OPS_BY_JSON_TYPE.get(kind) if isinstance(kind, str) else None
    if op_type is None:
        known = ", ".join(sorted(OPS_BY_JSON_TYPE))
        reader.report("JSON-07", label, "type", kind, f"one of {known}")
        return
    before = len(reader.problems)
    compute = reader.data_type(label, "compute_data_type", item.get("compute_data_type"))
    ports: dict[str, Tensor] = {}
    values: dict[str, Any] = {}
    for spec in op_type.JSON.fields:
        raw = _find(item, spec)
        if spec.kind is Kind.TENSOR:
            tensor = _read_port(reader, label, op_type, spec, raw, tensors)
            if tensor is not None:
                ports[spec.name] = tensor
        elif raw is None:
            if spec.default is not None or spec.absent is not Absent.REQUIRED:
                values[spec.name] = spec.default
            else:
                reader.report("JSON-03", label, spec.json_key, "nothing", f"the {spec.kind.value}")
        else:
            values[spec.name] = _read_parameter(reader, label, spec, raw)
    if len(reader.problems) > before:
        return
    outputs = {p.name: ports.pop(p.name) for p in op_type.OUTPUTS if p.name in ports}
    values = {k: v for k, v in values.items() if v is not None}
    graph.add_node(op_type(**values), ports, outputs=outputs, compute=compute, name=name)


def _find(item: Mapping[str, Any], spec: Field) -> Any:
    section = item.get(spec.section) if spec.section else item
    return section.get(spec.json_key) if isinstance(section, dict) else None


def _read_port(
    reader: _Reader,
    label: str,
    op_type: type[Op],
    spec: Field,
    raw: Any,
    tensors: Mapping[int, Tensor],
) -> Tensor | None:
    if raw is None:
        ports = {p.name: p for p in (*op_type.INPUTS, *op_type.OUTPUTS)}
        if not ports[spec.name].optional:
            where = f"the key {spec.json_key}" + (f" in {spec.section}" if spec.section else "")
            reader.report("JSON-03", label, spec.json_key, "nothing", where)
        return None
    uid = reader.integer(label, spec.json_key, raw)
    if uid is None:
        return None
    if uid not in tensors:
        reader.report("JSON-06", label, spec.json_key, f"uid {uid}", "a uid listed in tensors")
        return None
    return tensors[uid]


def _read_parameter(reader: _Reader, label: str, spec: Field, raw: Any) -> Any:
    if spec.kind is Kind.ENUM:
        assert spec.enum is not None
        try:
            return spec.enum.parse(raw)
        except ValueError:
            known = ", ".join(m.json for m in spec.enum)
            reader.report("JSON-05", label, spec.json_key, raw, f"one of {known}")
            return None
    readers: dict[Kind, Callable[[str, str, Any], Any]] = {
        Kind.INT: reader.integer,
        Kind.INTS: reader.integers,
        Kind.FLOAT: reader.number,
        Kind.BOOL: reader.flag,
        Kind.TEXT: reader.text,
    }
    return readers[spec.kind](label, spec.json_key, raw)


def dumps(graph: FrozenGraph) -> str:
    """Write hipDNN's newest JSON form, laid out as hipDNN's own dumps are (sorted, 2 spaces).

    Raises
    ------
    FormatError
        If a scalar is infinite or NaN, which the format cannot hold.
    """
    data = {
        "name": graph.name,
        "compute_data_type": graph.compute_data_type.json,
        "io_data_type": graph.io_data_type.json,
        "intermediate_data_type": graph.intermediate_data_type.json,
        "is_override_shape_enabled": graph.is_override_shape_enabled,
        "nodes": [_write_node(node) for node in graph.nodes],
        "tensors": [_write_tensor(graph, uid) for uid in sorted(graph.tensors)],
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
    if spec.ragged_offset_uid is not None:
        data["ragged_offset_tensor_uid"] = spec.ragged_offset_uid
    if spec.value is not None:
        kind = _VALUE_NAMES.get(spec.data_type, "Float32Value" if spec.data_type.is_float else "")
        if not kind:
            kind = "BoolValue" if spec.data_type.is_bool else "Int64Value"
        if not math.isfinite(spec.value):
            problem = Problem(
                rule="JSON-08", port=spec.label, got=repr(spec.value), wanted="a finite number"
            )
            raise FormatError("JSON cannot hold the graph", [problem])
        data["value_type"] = "Float32Value" if kind == "Float8Value" else kind
        if kind == "BoolValue":
            data["value"] = bool(spec.value)
        elif kind.startswith("Int"):
            data["value"] = int(spec.value)
        else:
            data["value"] = float(spec.value)
    return data


def _write_node(node: FrozenNode) -> dict[str, Any]:
    form = node.op.JSON
    data: dict[str, Any] = {
        "type": form.type,
        "name": node.name,
        "compute_data_type": node.compute_data_type.json,
    }
    for spec in form.fields:
        section = data.setdefault(spec.section, {}) if spec.section else data
        if spec.kind is Kind.TENSOR:
            value: Any = node.inputs.get(spec.name, node.outputs.get(spec.name))
        else:
            value = _write_parameter(spec, getattr(node.op, spec.name))
        if value is not None or spec.absent is Absent.NULL:
            section[spec.json_key] = value
    return data


def _write_parameter(spec: Field, value: Any) -> Any:
    if spec.kind is Kind.ENUM:
        return value.wire if spec.as_code else value.json
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    return value
