# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Google's own FlatBuffers library reads what we write, and writes what we read.

Both ways are one generic walk over the schema, built on the library's low-level calls.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any

import flatbuffers
import pytest
from flatbuffers import number_types
from flatbuffers.table import Table as TheirTable
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import FormatError
from hipdnn_iree.graph_api.formats.flatbuffer import engine_messages as engine
from hipdnn_iree.graph_api.formats.flatbuffer import plan_envelope as plan
from hipdnn_iree.graph_api.formats.flatbuffer.buffer_reader import Reader
from hipdnn_iree.graph_api.formats.flatbuffer.decode import decode, decode_record
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode, encode_record
from hipdnn_iree.graph_api.formats.flatbuffer.hipdnn_tables import (
    ENGINE_CONFIG,
    ENGINE_DETAILS,
    NODE,
    PLAN,
)
from hipdnn_iree.graph_api.formats.flatbuffer.schema_types import (
    Era,
    Kind,
    Record,
    Slot,
    Struct,
    Table,
)
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.provider.sweep.samples import sample_problems

FLAGS = {
    "bool": number_types.BoolFlags,
    "byte": number_types.Int8Flags,
    "ubyte": number_types.Uint8Flags,
    "int": number_types.Int32Flags,
    "uint": number_types.Uint32Flags,
    "long": number_types.Int64Flags,
    "float": number_types.Float32Flags,
    "double": number_types.Float64Flags,
}


def they_read(data: bytes, table: Table) -> Record:
    """Read a buffer with the library."""
    (root,) = struct.unpack_from("<I", data, 0)
    return _table(TheirTable(bytearray(data), root), table)


def _table(found: TheirTable, table: Table) -> Record:
    def offset(number: int) -> int:
        return int(found.Offset(4 + 2 * number))

    older = table.older
    if older is not None and not offset(table.last) and offset(older.last):
        table = older
    record = Record(table)
    for slot in table.slots:
        if slot.kind is Kind.UNION:
            kind = offset(slot.id - 1)
            code = found.Get(number_types.Uint8Flags, found.Pos + kind) if kind else 0
            record[f"{slot.name}_type"] = code
            record[slot.name] = None
            if code:
                member = TheirTable(bytearray(), 0)
                found.Union(member, offset(slot.id))
                record[slot.name] = _member(member, slot.members[code])
        else:
            place = offset(slot.id)
            record[slot.name] = _value(found, slot, place) if place else slot.default
    return record


def _member(found: TheirTable, schema: Any) -> Any:
    if isinstance(schema, Struct):
        return struct.unpack_from(schema.format, found.Bytes, found.Pos)[0]
    return _table(found, schema)


def _value(found: TheirTable, slot: Slot, place: int) -> Any:
    at = found.Pos + place
    if slot.kind is Kind.SCALAR:
        value = found.Get(FLAGS[slot.type.name], at)
        return slot.enum.get(value, value)
    if slot.kind is Kind.INLINE:
        values = struct.unpack_from(slot.type.format, found.Bytes, at)
        fields = slot.type.fields
        return values[0] if fields == ("",) else dict(zip(fields, values, strict=True))
    if slot.kind is Kind.STRING:
        return found.String(at).decode()
    start, count = found.Vector(place), found.VectorLen(place)
    if slot.kind is Kind.BYTES:
        return bytes(found.Bytes[start : start + count])
    if slot.kind is Kind.SCALARS:
        size = slot.type.size
        return tuple(found.Get(FLAGS[slot.type.name], start + size * i) for i in range(count))
    if slot.kind is Kind.STRINGS:
        return tuple(found.String(start + 4 * i).decode() for i in range(count))
    return tuple(
        _table(TheirTable(found.Bytes, found.Indirect(start + 4 * i)), slot.table)
        for i in range(count)
    )


def they_write(record: Record, *, force_defaults: bool = False) -> bytes:
    """Write a record with the library, children first, as generated code does."""
    builder = flatbuffers.Builder(64)
    builder.ForceDefaults(force_defaults)
    builder.Finish(_build(builder, record))
    return bytes(builder.Output())


def _build(builder: flatbuffers.Builder, record: Record) -> int:
    children: dict[str, int] = {}
    for slot in record.table.slots:
        value = record.get(slot.name)
        if value is not None and not slot.inline:
            code = record.get(f"{slot.name}_type")
            children[slot.name] = _child(builder, slot, value, code)
    builder.StartObject(record.table.known)
    for slot in record.table.slots:
        value = record.get(slot.name, slot.default)
        if slot.kind is Kind.UNION and slot.name in children:
            builder.PrependUint8Slot(slot.id - 1, record[f"{slot.name}_type"], 0)
        if slot.name in children:
            builder.PrependUOffsetTRelativeSlot(slot.id, children[slot.name], 0)
        elif slot.kind is Kind.INLINE and value is not None:
            _struct(builder, slot.type, value)
            builder.PrependStructSlot(slot.id, builder.Offset(), 0)
        elif slot.kind is Kind.SCALAR and value is not None:
            name = {"byte": "Int8", "ubyte": "Uint8", "int": "Int32", "uint": "Uint32"}.get(
                slot.type.name,
                {"long": "Int64", "float": "Float32", "double": "Float64"}.get(
                    slot.type.name, "Bool"
                ),
            )
            default = None if slot.default is None else getattr(slot.default, "wire", slot.default)
            put = getattr(builder, f"Prepend{name}Slot")
            put(slot.id, getattr(value, "wire", value), default)
    return int(builder.EndObject())


def _struct(builder: flatbuffers.Builder, kind: Struct, value: Any) -> None:
    values = [value] if kind.fields == ("",) else [value[name] for name in kind.fields]
    builder.Prep(kind.align, kind.size)
    for byte in reversed(struct.pack(kind.format, *values)):
        builder.PrependByte(byte)


def _child(builder: flatbuffers.Builder, slot: Slot, value: Any, code: int | None) -> int:
    if slot.kind is Kind.UNION:
        assert code is not None
        member = slot.members[code]
        if isinstance(member, Struct):
            _struct(builder, member, value)
            return int(builder.Offset())
        return _build(builder, value)
    if slot.kind is Kind.STRING:
        return int(builder.CreateString(value))
    if slot.kind is Kind.BYTES:
        return int(builder.CreateByteVector(value))
    if slot.kind is Kind.SCALARS:
        size = slot.type.size
        builder.StartVector(size, len(value), size)
        for item in reversed(value):
            (builder.PrependInt64 if size == 8 else builder.PrependInt32)(item)
        return int(builder.EndVector())
    text = slot.kind is Kind.STRINGS
    places = [builder.CreateString(v) if text else _build(builder, v) for v in value]
    builder.StartVector(4, len(places), 4)
    for place in reversed(places):
        builder.PrependUOffsetTRelative(place)
    return int(builder.EndVector())


# ---------------------------------------------------------------------------- graphs


def graphs() -> Iterator[tuple[str, FrozenGraph]]:
    """A third of the sample problems, in one data type each."""
    for i, sample in enumerate(sample_problems()[::3]):
        yield sample.name, sample.graph(sample.dtypes[i % len(sample.dtypes)]).freeze()


def differing(a: Any, b: Any) -> bool:
    """Whether two values differ, where NaN equals itself."""
    return repr(a) != repr(b)


@pytest.fixture(scope="module")
def written() -> list[tuple[str, Era, Record, bytes]]:
    found = []
    for name, graph in graphs():
        for era in Era:
            try:
                record = encode_record(graph, era, inv_variance="inverse")
            except FormatError:
                continue
            found.append((name, era, record, encode(graph, era, inv_variance="inverse")))
    assert {era for _, era, _, _ in found} == set(Era)
    assert len(found) > 150
    return found


def test_they_read_what_we_write(written: list[tuple[str, Era, Record, bytes]]) -> None:
    for name, era, record, data in written:
        theirs, (ours, problems) = they_read(data, record.table), decode_record(data)
        assert not problems
        assert not differing(theirs, ours), (name, era)


@pytest.mark.parametrize("force_defaults", [False, True])
def test_we_read_what_they_write(
    written: list[tuple[str, Era, Record, bytes]], force_defaults: bool
) -> None:
    for name, era, record, data in written:
        ours, _ = decode_record(data)
        found, problems = decode_record(they_write(record, force_defaults=force_defaults))
        assert not problems
        assert not differing(_plain(found), _plain(ours)), (name, era)
        again = decode(they_write(ours), Graph, inv_variance="inverse").graph
        assert again.freeze() == decode(data, Graph, inv_variance="inverse").graph.freeze()


def _plain(value: Any) -> Any:
    """Return a record without telling an empty vector from none."""
    if isinstance(value, Record):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, tuple) and value and isinstance(value[0], Record):
        return tuple(map(_plain, value))
    return None if value == () else value


def test_they_read_what_hipdnn_wrote_as_we_do(recorded: Any) -> None:
    ours, _ = decode_record(recorded.data)
    assert they_read(recorded.data, ours.table) == ours
    assert decode_record(they_write(ours)) == (ours, [])
    assert all(node.table is not NODE for node in ours["nodes"])


# ---------------------------------------------------------------------------- engines and plans


def test_engine_details_both_ways() -> None:
    details = engine.EngineDetails(
        engine_id=-3193037706610614382,
        knobs=(
            engine.Knob(id="a.int", default=3, range=engine.Range(low=-1, high=9, step=2)),
            engine.Knob(id="a.set", default=4, range=engine.Range(high=9, values=(2, 4))),
            engine.Knob(
                id="a.float",
                description="ünï",
                default=0.25,
                range=engine.Range(low=-math.inf, high=1.0),
            ),
            engine.Knob(
                id="a.text",
                default="O3",
                range=engine.Range(values=("O0", "O3"), max_length=2),
                deprecated=True,
            ),
            engine.Knob(id="a.free", default=""),
            engine.Knob(id="a.zero", default=0),
        ),
        behavior_notes=(0, 3, 4),
        name="N",
    )
    data = engine.encode_details(details)
    assert engine.decode_details(data) == details
    record = Reader(data).root(ENGINE_DETAILS)
    assert they_read(data, ENGINE_DETAILS) == record
    assert engine.decode_details(they_write(record)) == details


def test_engine_config_both_ways(recorded_config: bytes) -> None:
    config = engine.EngineConfig(
        engine_id=5, knobs={"i": -(2**63), "f": 1e300, "s": "a\nb", "e": ""}, ranking_metric="time"
    )
    data = engine.encode_config(config)
    assert engine.decode_config(data) == config
    assert they_read(data, ENGINE_CONFIG) == Reader(data).root(ENGINE_CONFIG)
    assert engine.decode_config(they_write(Reader(data).root(ENGINE_CONFIG))) == config
    assert engine.decode_config(recorded_config) == engine.EngineConfig(engine_id=4242001)
    assert they_read(recorded_config, ENGINE_CONFIG)["engine_id"] == 4242001


def test_plans_both_ways() -> None:
    found = plan.SerializedPlan(
        engine_id=-1,
        workspace_size=4096,
        tensor_uids=(3, -4, 5),
        payload=bytes(range(256)) * 3,
        is_override_shape_enabled=True,
        tensor_alignments=(16, 32, 64),
    )
    data = plan.encode_plan(found)
    assert plan.decode_plan(data) == found
    assert they_read(data, PLAN) == Reader(data).root(PLAN)
    assert plan.decode_plan(they_write(Reader(data).root(PLAN))) == found
