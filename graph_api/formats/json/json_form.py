# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""hipDNN's graph JSON: a tolerant reader of every era, and a writer of the newest format.

The reader takes what hipDNN's readers take and what hand-made files contain, but never guesses: a
spelling that hipDNN would silently turn into the first entry of a table is an error here.
Format: ``docs/graph-json.md``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from ...arguments import nearest, shown
from ...collector import collector_paused
from ...dtypes import DataType
from ...errors import FormatError, Problem
from ...ops import OPS, op_of_type
from ...ops.base import variadic
from ...ops.fields import Field, Kind
from ...size_limits import too_large
from ...tensor import Tensor
from ...values import from_byte, stored
from . import json_dynamic
from .json_keys import GRAPH, NODE, OTHER_ERAS, TENSOR, Key, Places, Stray, meant, strays
from .json_write import dumps, value_type

if TYPE_CHECKING:
    from ...graph import Graph

__all__ = ["RULES", "VALUE_TYPES", "dumps", "loads"]

G = TypeVar("G", bound="Graph")

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")

RULES: dict[str, str] = {
    "JSON-01": "the text is strict JSON (no NaN, no comments) in UTF-8, not nested absurdly deep",
    "JSON-02": "the graph is an object with the arrays nodes and tensors",
    "JSON-03": "a key that is needed is there",
    "JSON-04": "a value has the type that its key asks for",
    "JSON-05": "a mode or data type is one that hipDNN knows (hipDNN would take the first entry)",
    "JSON-06": "a tensor uid is defined in tensors, once",
    "JSON-07": "the node type is one that this version serves",
    "JSON-08": "a scalar's value is finite (hipDNN writes null for inf and NaN, which loses it)",
    "JSON-09": "an unknown key, which is skipped, is not almost one that is left out",
}

# value_type -> data type that the value is stored for; Float16Value etc. hold plain numbers.
VALUE_TYPES: dict[str, DataType] = {
    "Float32Value": DataType.FLOAT,
    "Float16Value": DataType.HALF,
    "BFloat16Value": DataType.BFLOAT16,
    "Float8Value": DataType.FP8_E4M3,
    "Int32Value": DataType.INT32,
    "Int64Value": DataType.INT64,
    "Float64Value": DataType.DOUBLE,
    "BoolValue": DataType.BOOLEAN,
}
_FLOAT8_TYPES = (
    DataType.FP8_E4M3,
    DataType.FP8_E5M2,
    DataType.FP8_E8M0,
    DataType.FP8_E4M3_FNUZ,
    DataType.FP8_E5M2_FNUZ,
)


class _Reader:
    """Collects problems while reading; a method returns None where it reported one."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def report(
        self, rule: str, where: str, key: str, value: Any, wanted: str, hint: str = ""
    ) -> None:
        """Add a problem with a value of the file."""
        self.say(rule, where, key, _short(value), wanted, hint)

    def say(self, rule: str, where: str, key: str, got: str, wanted: str, hint: str = "") -> None:
        """Add a problem in words."""
        found = Problem(rule=rule, node=where, port=key, got=got, wanted=wanted, hint=hint)
        self.problems.append(found)

    def integer(self, where: str, key: str, value: Any) -> int | None:
        # hipDNN truncates any number; an integral float is the most that we let pass.
        if type(value) is int and -(2**63) <= value < 2**63:
            return value
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
            return int(value)
        self.report("JSON-04", where, key, value, "a 64-bit integer")
        return None

    def number(self, where: str, key: str, value: Any) -> float | None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            # Parameters are float32 in hipDNN; a dump shows the digits of the double.
            rounded = stored(value, DataType.FLOAT)
            if rounded is not None:
                return float(rounded)
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

    def octets(self, where: str, key: str, value: Any) -> bytes | None:
        if isinstance(value, list) and all(type(v) is int and 0 <= v <= 255 for v in value):
            return bytes(value)
        self.report("JSON-04", where, key, value, "an array of integers from 0 to 255")
        return None

    def integers(self, where: str, key: str, value: Any) -> tuple[int, ...] | None:
        if not isinstance(value, list):
            self.report("JSON-04", where, key, value, "an array of integers")
            return None
        if set(map(type, value)) == {int} and min(value) >= -(2**63) and max(value) < 2**63:
            return tuple(value)  # nearly always
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
        self.unknown(where, key, value, [t.json for t in DataType])
        return DataType.UNSET

    def unknown(
        self, where: str, key: str, value: Any, known: Sequence[str], hint: str = ""
    ) -> None:
        """Add the problem of a spelling that is none of those known."""
        hint = hint or nearest(value, known)
        self.report("JSON-05", where, key, value, f"one of {', '.join(known)}", hint)

    def missing(self, where: str, key: Key, found: list[Stray], what: str = "") -> None:
        """Add the problem of a key that is needed, with the unknown one that may stand for it."""
        hint = ""
        if (stray := meant(key, found)) is not None:
            found.remove(stray)
            hint = stray.told(key)
        wanted = f"the {what}, as the key {key}" if what else f"the key {key}"
        self.say("JSON-03", where, key.name, "nothing", wanted, hint)

    def skipped(self, where: str, found: list[Stray], left_out: Iterable[Key]) -> None:
        """Add the problems of unknown keys that seem to be meant for those that are left out."""
        for key in left_out if found else ():
            if (stray := meant(key, found)) is not None:
                found.remove(stray)
                got = f"{_short(stray.value)} for a key that is not read"
                self.say("JSON-09", where, stray.key.name, got, f"the key {key}", stray.told(key))


@collector_paused()
def loads(text: str | bytes, factory: Callable[..., G]) -> G:
    """Read a graph; see ``Graph.from_json``."""
    reader = _Reader()
    data = _parse(reader, text)
    if isinstance(data, dict):
        for key in ("nodes", "tensors"):
            if not isinstance(data.get(key), list):
                reader.report("JSON-02", "graph", key, data.get(key), "an array")
        if not reader.problems:
            reader.problems += too_large(len(data["nodes"]), len(data["tensors"]))
    elif not reader.problems:
        reader.report("JSON-02", "graph", "", data, "an object with nodes and tensors")
    if reader.problems:
        raise FormatError("this is not a hipDNN graph", reader.problems)

    def graph_type(name: str) -> DataType:
        # Both spellings occur (the older one has no "data"); the newer one wins.
        value = data.get(f"{name}_data_type")
        value = data.get(f"{name}_type") if value is None else value
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
    found = strays(data, {"": GRAPH | OTHER_ERAS})
    reader.skipped("graph", found, _left_out(data, GRAPH))
    json_dynamic.read_dims(reader, graph, data.get("dynamic_dims"))
    tensors: dict[int, Tensor] = {}
    for i, item in enumerate(data["tensors"]):
        _read_tensor(reader, graph, f"tensors[{i}]", item, tensors)
    for tensor in tensors.values():
        if tensor.ragged_offset_uid is not None and tensor.ragged_offset_uid not in tensors:
            got = f"uid {tensor.ragged_offset_uid}"
            where = f"tensor {tensor.uid}"
            reader.say("JSON-06", where, "ragged_offset_tensor_uid", got, "a uid listed in tensors")
    for i, item in enumerate(data["nodes"]):
        _read_node(reader, graph, f"nodes[{i}]", item, tensors)
    if reader.problems:
        count = len(reader.problems)
        raise FormatError(f"the graph JSON has {count} problem(s)", reader.problems)
    return graph


def _parse(reader: _Reader, text: str | bytes) -> Any:
    def constant(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    def number(digits: str) -> float:
        if math.isinf(value := float(digits)):
            raise ValueError(f"{shown(digits)} is out of range")
        return value

    try:
        if isinstance(text, bytes):
            if text.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise ValueError("text in UTF-16")
            text = text.decode()
        if not text.strip():
            raise ValueError("an empty file")
        # hipDNN's parser skips a byte order mark, too.
        data = json.loads(text.removeprefix("\ufeff"), parse_constant=constant, parse_float=number)
        if ("\\u" in text or not text.isascii()) and _SURROGATE.search(text):
            # Half of an escaped surrogate pair is no text; Python lets it pass.
            json.dumps(data, ensure_ascii=False).encode()
        return data
    except json.JSONDecodeError as error:
        here = error.doc[error.pos : error.pos + 20].partition("\n")[0]
        where = f"at line {error.lineno}, column {error.colno} ({error.msg})"
        got = f"{shown(here) if here else 'the end of the text'} {where}"
        reader.say("JSON-01", "graph", "", got, "strict JSON in UTF-8")
    except (ValueError, RecursionError) as error:  # RecursionError: nested too deep
        reader.say("JSON-01", "graph", "", str(error), "strict JSON in UTF-8")
    return None


def _short(value: object) -> str:
    """Return a JSON value as text; of arrays and objects, which may be huge, only the size."""
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    if isinstance(value, dict):
        return f"an object of {len(value)} key(s)"
    return shown(value) if not isinstance(value, bool) else json.dumps(value)


def _name(reader: _Reader, where: str, item: Mapping[str, Any]) -> str:
    value = item.get("name")
    return "" if value is None else reader.text(where, "name", value) or ""


def _read_tensor(
    reader: _Reader, graph: Graph, where: str, item: Any, tensors: dict[int, Tensor]
) -> None:
    if not isinstance(item, dict):
        reader.report("JSON-04", where, "", item, "an object")
        return
    found = strays(item, {"": TENSOR})
    if (uid := item.get("uid")) is None:
        reader.missing(where, Key("", "uid"), found)
    else:
        uid = reader.integer(where, "uid", uid)
    reader.skipped(where, found, _left_out(item, TENSOR - {"uid"}))
    dims, strides = (
        None if item.get(key) is None else reader.integers(where, key, item[key])
        for key in ("dims", "strides")
    )
    if uid is None:
        return
    if uid in tensors:
        reader.say("JSON-06", where, "uid", f"{uid}, a second time", "unique uids")
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
        alignment = reader.integer(where, "alignment", item["alignment"])
        tensor.alignment = 16 if alignment is None else alignment
    if item.get("is_runtime_pass_by_value") is not None:
        flag = reader.flag(where, "is_runtime_pass_by_value", item["is_runtime_pass_by_value"])
        tensor.runtime_scalar = bool(flag)
    if item.get("ragged_offset_tensor_uid") is not None:
        tensor.ragged_offset_uid = reader.integer(
            where, "ragged_offset_tensor_uid", item["ragged_offset_tensor_uid"]
        )
        if (factor := item.get("ragged_offset_multiplier")) not in (None, 1):
            wanted = "1, as offsets count elements here"
            reader.report("JSON-04", where, "ragged_offset_multiplier", factor, wanted)
    _read_value(reader, where, item, tensor)
    json_dynamic.read_marks(reader, where, tensor, item.get("dynamic_dims"))
    tensors[uid] = tensor


def _read_value(reader: _Reader, where: str, item: Mapping[str, Any], tensor: Tensor) -> None:
    kind, value = item.get("value_type"), item.get("value")
    if value is None and kind in (None, "NONE"):
        return
    if kind is None:
        own = tensor.given_type
        kind = value_type(DataType.BOOLEAN if isinstance(value, bool) else own)
        hint = f'"value_type": "{kind}"'
        reader.say("JSON-03", where, "value_type", "nothing", "the type of the value", hint)
        return
    if kind == "NONE" and isinstance(value, bool):
        kind = "BoolValue"  # hipDNN's table of names lacks it, its writer does not
    if not isinstance(kind, str) or kind not in VALUE_TYPES:
        reader.unknown(where, "value_type", kind, [*VALUE_TYPES], _value_type_of(kind))
        return
    held = VALUE_TYPES[kind]
    if value is None:
        reader.say("JSON-08", where, "value", "null", "a finite number")
        return
    if held.is_bool:
        tensor.value = reader.flag(where, "value", value)
    elif held.is_integer:
        tensor.value = reader.integer(where, "value", value)
    elif kind == "Float8Value":
        byte = reader.integer(where, "value", value)
        if byte is not None and not 0 <= byte <= 255:
            reader.report("JSON-04", where, "value", byte, "a byte")
        elif byte is not None:
            own = tensor.given_type
            tensor.value = from_byte(byte, own if own in _FLOAT8_TYPES else held)
    elif held is DataType.DOUBLE:
        if not isinstance(value, int | float) or isinstance(value, bool):
            reader.report("JSON-04", where, "value", value, "a number")
        elif (double := stored(value, DataType.DOUBLE)) is None:
            reader.report("JSON-04", where, "value", value, "a number in the range of a double")
        else:
            tensor.value = double
    else:
        tensor.value = reader.number(where, "value", value)
    if tensor.given_type is DataType.UNSET:
        tensor.data_type = held
    if tensor.given_dims is None:  # a value has one element
        tensor.dims = (1,)


def _value_type_of(kind: Any) -> str:
    """Return the question whether the value type of a data type was meant, if it names one."""
    try:
        data_type = DataType.parse(str(kind).lower().removesuffix("value"))
    except ValueError:
        return ""
    return f"did you mean {value_type(data_type)!r}?" if data_type.bits else ""


def _left_out(item: Mapping[str, Any], keys: Iterable[str]) -> Iterator[Key]:
    # A generator, so that nothing is sorted before a stray key asks.
    yield from (Key("", key) for key in sorted(keys) if item.get(key) is None)


def _read_node(
    reader: _Reader, graph: Graph, where: str, item: Any, tensors: Mapping[int, Tensor]
) -> None:
    if not isinstance(item, dict):
        reader.report("JSON-04", where, "", item, "an object")
        return
    name = _name(reader, where, item)
    label = name or where
    kind = item.get("type")
    op_type = op_of_type(kind) if isinstance(kind, str) else None
    if op_type is None:
        known = sorted(op.TYPE_NAME for op in OPS.values())
        wanted, hint, key = f"one of {', '.join(known)}", nearest(kind, known), Key("", "type")
        if kind is None and (stray := meant(key, strays(item, {"": NODE}))) is not None:
            hint = stray.told(key)
        reader.report("JSON-07", label, "type", kind, wanted, hint)
        return
    layout, before = _layout(op_type.NAME), len(reader.problems)
    for section in layout.sections:
        if not isinstance(item.get(section, {}), dict | None):
            reader.report("JSON-04", label, section, item[section], "an object")
    if len(reader.problems) > before:
        return
    found = strays(item, layout.places)
    compute = reader.data_type(label, "compute_data_type", item.get("compute_data_type"))
    ports: dict[str, Tensor] = {}
    values: dict[str, Any] = {}
    given = {section: item.get(section) or {} for section in layout.sections} | {"": item}
    for spec in layout.fields:
        raw = _find(given, spec)
        if spec.kind is Kind.TENSOR:
            if raw is not None:
                tensor = _read_uid(reader, label, spec, raw, tensors)
                if tensor is not None:
                    ports[spec.name] = tensor
            elif spec.name in layout.required:
                reader.missing(label, Key(spec.section, spec.key), found)
        elif spec.kind is Kind.TENSORS:
            ports |= variadic(spec.name, _read_ports(reader, label, spec, raw, tensors))
        elif raw is None:
            if spec.name not in layout.required:
                values[spec.name] = spec.default
            else:
                reader.missing(label, Key(spec.section, spec.key), found, spec.kind.value)
        else:
            values[spec.name] = _read_parameter(reader, label, spec, raw)
    if found:
        optional = (spec for spec in layout.fields if spec.name not in layout.required)
        absent = (Key(s.section, s.key) for s in optional if _find(given, s) is None)
        reader.skipped(label, found, [*absent, *_left_out(item, NODE - {"type"})])
    if len(reader.problems) > before:
        return
    outputs = {name: ports.pop(name) for p in op_type.OUTPUTS for name in p.connected(ports)}
    values = {k: v for k, v in values.items() if v is not None}
    op = op_type(**values)
    graph.add_node(op, ports, outputs=outputs, compute=compute, name=name, check=False)


@dataclass(frozen=True, slots=True)
class _Layout:
    """What an op alone decides about its nodes in a file, which may hold thousands of them.

    Attributes
    ----------
    fields : tuple of Field
        In the usual order of files, tensors first, in which problems are reported.
    sections : tuple of str
        Names of the objects inside a node, of any era.
    places : mapping of str to frozenset of str
        Section (``""``: the node itself) -> keys that are known there.
    required : frozenset of str
        Ports that must be connected, and parameters without a default.
    """

    fields: tuple[Field, ...]
    sections: tuple[str, ...]
    places: Places
    required: frozenset[str]


@cache
def _layout(name: str) -> _Layout:
    op_type = OPS[name]
    ports = (*op_type.INPUTS, *op_type.OUTPUTS)
    sections = {s for f in op_type.FIELDS for s in (f.section, f.older) if s}
    places = {"": NODE | {f.key for f in op_type.FIELDS if not f.section}}
    for section in sections:
        places[section] = frozenset(
            f.key for f in op_type.FIELDS if section in (f.section, f.older)
        )
    return _Layout(
        fields=tuple(sorted(op_type.FIELDS, key=lambda field: not field.connects)),
        sections=tuple(sorted(sections)),
        places=places,
        required=frozenset(
            (
                *(p.name for p in ports if not p.optional),
                *(f.name for f in op_type.FIELDS if f.needed),
            )
        ),
    )


def _find(given: Mapping[str, Mapping[str, Any]], spec: Field) -> Any:
    section = given[spec.section]
    if spec.older and spec.key not in section:
        section = given[spec.older]
    return section.get(spec.key)


def _read_ports(
    reader: _Reader, label: str, spec: Field, raw: Any, tensors: Mapping[int, Tensor]
) -> list[Tensor]:
    """Return the tensors of an array of uids; a missing one is empty."""
    if raw is None:
        return []
    if not isinstance(raw, list):
        reader.report("JSON-04", label, spec.key, raw, "an array of tensor uids")
        return []
    found = [_read_uid(reader, label, spec, item, tensors) for item in raw]
    return [tensor for tensor in found if tensor is not None]


def _read_uid(
    reader: _Reader, label: str, spec: Field, raw: Any, tensors: Mapping[int, Tensor]
) -> Tensor | None:
    uid = reader.integer(label, spec.key, raw)
    if uid is None:
        return None
    if uid not in tensors:
        reader.say("JSON-06", label, spec.key, f"uid {uid}", "a uid listed in tensors")
        return None
    return tensors[uid]


def _read_parameter(reader: _Reader, label: str, spec: Field, raw: Any) -> Any:
    if spec.kind is Kind.ENUM:
        assert spec.enum is not None
        try:
            return spec.enum.parse(raw)
        except ValueError:
            reader.unknown(label, spec.key, raw, [m.json for m in spec.enum])
            return None
    readers: dict[Kind, Callable[[str, str, Any], Any]] = {
        Kind.INT: reader.integer,
        Kind.INTS: reader.integers,
        Kind.FLOAT: reader.number,
        Kind.BOOL: reader.flag,
        Kind.TEXT: reader.text,
        Kind.BYTES: reader.octets,
    }
    return readers[spec.kind](label, spec.key, raw)
