# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each rule of the wire format, broken on purpose: refused by name, never misread."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import FormatError
from hipdnn_iree.graph_api.formats.flatbuffer.buffer_reader import MAX_PROBLEMS, MAX_TABLES, Reader
from hipdnn_iree.graph_api.formats.flatbuffer.buffer_writer import write
from hipdnn_iree.graph_api.formats.flatbuffer.decode import ENGINE_API, decode, decode_record
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode, encode_record
from hipdnn_iree.graph_api.formats.flatbuffer.engine_messages import decode_config
from hipdnn_iree.graph_api.formats.flatbuffer.hipdnn_tables import (
    ENGINE_CONFIG,
    GRAPH,
    NODE,
    NODE_N25,
    TENSOR,
)
from hipdnn_iree.graph_api.formats.flatbuffer.schema_types import (
    LONG,
    Era,
    Record,
    Table,
    scalar,
    string,
)
from hipdnn_iree.graph_api.formats.flatbuffer.wire_rules import RULES, is_damage
from hipdnn_iree.provider.graph_files import loads


def example() -> Graph:
    graph = Graph("g", io_data_type="float", compute_data_type="float")
    x = graph.tensor(dims=(1, 2, 5, 5), name="x", uid=1)
    w = graph.tensor(dims=(3, 2, 3, 3), name="w", uid=2)
    y = graph.conv_fprop(x, w, name="conv")
    graph.output(graph.mul(y, 2.0, name="twice"), name="y")
    return graph


def record(era: Era = Era.NODE) -> Record:
    return encode_record(example().freeze(), era)


def broken(data: bytes) -> FormatError:
    with pytest.raises(FormatError) as caught:
        decode(data, Graph).graph.freeze()
    return caught.value


def rules_of(error: FormatError) -> set[str]:
    return {p.rule for p in error.problems}


def put(data: bytes, place: int, text: str, value: int) -> bytes:
    out = bytearray(data)
    struct.pack_into(text, out, place, value)
    return bytes(out)


Ends = Callable[[], AbstractContextManager[None]]


# ---------------------------------------------------------------------------- damage

# The recorded engine configuration, byte by byte: root offset at 0, vtable of 6 bytes at 6, table
# of 12 bytes at 12, engine id at 16.
DAMAGE: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("WIRE-01", lambda d: b""),
    ("WIRE-01", lambda d: d[:7]),
    ("WIRE-01", lambda d: put(d, 0, "<I", 0)),
    ("WIRE-01", lambda d: bytes(8) + bytes(64 << 20)),
    ("WIRE-02", lambda d: put(d, 0, "<I", 24)),
    ("WIRE-02", lambda d: put(d, 0, "<I", 13)),
    ("WIRE-02", lambda d: put(d, 0, "<I", 2**32 - 4)),
    ("WIRE-02", lambda d: d[:-1]),
    ("WIRE-02", lambda d: put(d, 10, "<H", 6) + bytes(8)),
    ("WIRE-02", lambda d: put(d, 8, "<H", 13)),
    ("WIRE-03", lambda d: put(d, 12, "<i", 13)),
    ("WIRE-03", lambda d: put(d, 12, "<i", -(2**31))),
    ("WIRE-03", lambda d: put(d, 12, "<i", 2**31 - 1)),
    ("WIRE-03", lambda d: put(d, 12, "<i", 12)),
    ("WIRE-03", lambda d: put(d, 12, "<i", 5)),
    ("WIRE-03", lambda d: put(d, 6, "<H", 7)),
    ("WIRE-03", lambda d: put(d, 6, "<H", 2)),
    ("WIRE-03", lambda d: put(d, 6, "<H", 65534)),
    ("WIRE-03", lambda d: put(d, 8, "<H", 3)),
    ("WIRE-03", lambda d: put(d, 10, "<H", 2)),
    ("WIRE-03", lambda d: put(d, 10, "<H", 8)),
    ("WIRE-03", lambda d: put(d, 10, "<H", 65535)),
]


@pytest.mark.parametrize(("rule", "change"), DAMAGE)
def test_a_damaged_frame(
    rule: str, change: Callable[[bytes], bytes], recorded_config: bytes
) -> None:
    assert decode_config(recorded_config).engine_id == 4242001
    if rule == "WIRE-02" and len(change(recorded_config)) > len(recorded_config):
        rule = "WIRE-03"  # the field is outside its table before it is crooked
    with pytest.raises(FormatError) as caught:
        decode_config(change(recorded_config))
    assert rules_of(caught.value) == {rule}
    assert is_damage(caught.value.problems)
    assert "damaged" in str(caught.value)


def test_a_crooked_field() -> None:
    table = Table("T", scalar("a", LONG))
    data = write(Record(table, a=5))
    place = data.index(struct.pack("<q", 5))
    assert Reader(data).root(table)["a"] == 5
    # A larger table, and the field four bytes on.
    vtable = place - 4 - struct.unpack_from("<i", data, place - 4)[0]
    crooked = put(put(data + bytes(8), vtable + 2, "<H", 20), vtable + 4, "<H", 8)
    with pytest.raises(FormatError, match="WIRE-02"):
        Reader(crooked).root(table)


def test_texts_and_vectors() -> None:
    table = Table("T", string("a"))
    data = write(Record(table, a="abcd"))
    place = data.index(b"abcd")
    assert Reader(data).root(table)["a"] == "abcd"
    for length in (3, 5):
        with pytest.raises(FormatError, match="WIRE-04"):
            Reader(put(data, place - 4, "<I", length)[: place + 5] + b"x").root(table)
    for length in (6, 1000, 2**31, 2**32 - 1):
        with pytest.raises(FormatError, match=r"WIRE-0[24]"):
            Reader(put(data, place - 4, "<I", length)[: place + 5] + b"x").root(table)
    with pytest.raises(FormatError, match="WIRE-04"):
        Reader(data[: place + 4]).root(table)  # the NUL is beyond the end


def test_names_that_are_no_utf_8_are_still_names() -> None:
    data = encode(example().freeze()).replace(b"twice", b"\xfft\x80\xc3e")
    (name,) = (n.name for n in decode(data, Graph).graph.nodes if n.name != "conv")
    assert name == "�t��e"


# ---------------------------------------------------------------------------- mazes


def maze(count: int, vector: int) -> bytes:
    """A graph whose vector of tensors leads ``count`` times to one tensor with long strides."""
    out = bytearray(struct.pack("<I", 32))
    out += struct.pack("<7H", 14, 8, 0, 0, 0, 0, 4)  # at 4: vtable of a graph with tensors only
    out += struct.pack("<6H", 12, 8, 0, 0, 0, 4)  # at 18: vtable of a tensor with strides only
    out += bytes(2) + struct.pack("<iI", 32 - 4, 4) + struct.pack("<I", count)
    tensor = 44 + 4 * count
    out += b"".join(struct.pack("<I", tensor - (44 + 4 * i)) for i in range(count))
    gap = 4 * ((tensor + 12) % 8 != 0)
    out += struct.pack("<iI", tensor - 18, 4 + gap) + bytes(gap)
    return bytes(out + struct.pack("<I", vector) + bytes(8 * vector))


def test_parts_that_are_shared_again_and_again(ends: Ends) -> None:
    one = maze(1, 5)
    found, _ = decode_record(one)
    assert found["tensors"][0]["strides"] == (0,) * 5
    with ends():
        for count, vector in ((2_000, 2_000), (20_000, 20_000), (90_000, 200)):
            error = broken(maze(count, vector))
            assert rules_of(error) == {"WIRE-05"}
        assert rules_of(broken(maze(MAX_TABLES + 1, 0))) == {"WIRE-05"}


def test_vtables_without_end(ends: Ends) -> None:
    """Every tensor has a large vtable of its own, all overlapping."""
    count = 3_000
    out = bytearray(struct.pack("<I", 20))
    out += struct.pack("<7H", 14, 8, 0, 0, 0, 0, 4) + bytes(2)
    out += struct.pack("<iII", 20 - 4, 4, count)
    first = len(out) + 4 * count
    out += struct.pack("<I", 4 * count) * count  # tensors of four bytes each, one per offset
    for i in range(count):  # their vtables begin every four bytes
        out += struct.pack("<i", first + 4 * i - (first + 4 * count + 4 * i))
    out += struct.pack("<HH", 40_000, 4) * (count + 10_000)
    with ends():
        assert is_damage(broken(bytes(out)).problems)


def test_dims_without_end_are_a_problem_of_the_graph(ends: Ends) -> None:
    changed = record()
    changed["tensors"][0]["dims"] = (2**40,) * 200_000
    with ends():
        graph = decode(write(changed), Graph).graph
        assert any(p.rule == "TENSOR-04" for p in graph.problems())


# ---------------------------------------------------------------------------- unions


@pytest.mark.parametrize("era", Era)
def test_a_node_without_attributes(era: Era) -> None:
    changed = record(era)
    table = NODE if era is Era.NODE else NODE_N25
    changed["nodes"] = tuple(Record(table, name=n["name"]) for n in changed["nodes"])
    assert rules_of(broken(write(changed, era=era))) == {"WIRE-09"}


def test_half_a_union() -> None:
    data = encode(example().freeze())
    types = _vtable_of_first_node(data) + 4 + 2 * 2
    assert rules_of(broken(put(data, types, "<H", 0))) == {"WIRE-06"}
    # Without the last slot the node passes for an old one, and its type for an offset.
    assert is_damage(broken(put(data, types + 2, "<H", 0)).problems)
    (value,) = (t for t in record()["tensors"] if t["value_type"])
    without = Record(TENSOR, uid=1, value_type=0, value=None)
    assert decode_record(write(Record(GRAPH, tensors=(value, without))))[1] == []


def _vtable_of_first_node(data: bytes) -> int:
    def u32(at: int) -> int:
        return int(struct.unpack_from("<I", data, at)[0])

    def slot(table: int, number: int) -> int:
        vtable = table - struct.unpack_from("<i", data, table)[0]
        return table + int(struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0])

    root = u32(0)
    nodes = slot(root, 5)
    first = nodes + u32(nodes) + 4
    node = first + u32(first)
    return node - int(struct.unpack_from("<i", data, node)[0])


# ---------------------------------------------------------------------------- beyond this version


def with_more(table: Table, *slots: Any) -> Table:
    """Return a table with further fields, as a newer hipDNN may have."""
    return Table(table.name, *table.slots, *slots)


def test_unknown_fields_of_any_table_decline() -> None:
    newer = scalar("from the future", LONG, None)
    changed = record()
    places = {
        "the graph": changed,
        "a tensor": changed["tensors"][0],
        "a node": changed["nodes"][0],
        "attributes": changed["nodes"][0]["attributes"],
    }
    assert decode(write(changed), Graph).graph.freeze() == example().freeze()
    for place in places.values():
        table = place.table
        place.table, place["from the future"] = with_more(table, newer), 0
        error = broken(write(changed))
        assert rules_of(error) == {"WIRE-07"}
        assert not is_damage(error.problems)
        assert f"field {table.known} of {table.name}" in str(error)
        place.table = table
        del place["from the future"]
    assert decode(write(changed), Graph).graph.freeze() == example().freeze()


@pytest.mark.parametrize("multiplier", [0, 1, 64])
def test_a_multiplier_of_offsets_is_only_read_for_a_ragged_tensor(multiplier: int) -> None:
    """The newest hipDNN writes it into every tensor, as slot 11."""
    changed = record()
    older = [slot for slot in changed["tensors"][0].table.slots if "multiplier" not in slot.name]
    table = Table("TensorAttributes", *older, scalar("slot 11", LONG, None))
    assert table.last == 11
    for tensor in changed["tensors"]:
        tensor.table = table
        tensor["slot 11"] = multiplier
    assert decode(write(changed), Graph).graph.freeze() == example().freeze()
    ragged = changed["tensors"][0]
    ragged["ragged_offset_tensor_uid"] = changed["tensors"][1]["uid"]
    if multiplier == 1:  # offsets count elements, as without it
        assert decode(write(changed), Graph).graph.tensors[0].ragged_offset_uid is not None
    else:
        error = broken(write(changed))
        assert rules_of(error) == {"WIRE-07"}
        assert f"ragged_offset_multiplier: [WIRE-07] got {multiplier}" in str(error)


def test_unknown_fields_all_come_at_once_but_not_without_end() -> None:
    newer = with_more(TENSOR, *(scalar(f"new{i}", LONG, None) for i in range(20)))
    changed = record()
    changed["tensors"] = tuple(
        Record(newer, uid=i, dims=(1,), strides=(1,), **{f"new{j}": 1 for j in range(20)})
        for i in range(1, 300)
    )
    error = broken(write(changed))
    assert len(error.problems) == MAX_PROBLEMS
    assert "field 12, 13, 14, 15, 16, 17, 18, 19... of TensorAttributes" in str(error)


def test_costs_are_notes_that_change_nothing() -> None:
    changed = record()
    (conv,) = (n["attributes"] for n in changed["nodes"] if n["name"] == "conv")
    conv["umd_flops"], conv["umd_bytes"] = "2*N*K", "4*N"
    assert decode(write(changed), Graph).graph.freeze() == example().freeze()


def test_unknown_codes_decline() -> None:
    changes: list[Callable[[Record], Any]] = [
        lambda r: r.__setitem__("io_data_type", 19),
        lambda r: r["tensors"][0].__setitem__("data_type", 127),
        lambda r: r["tensors"][0].__setitem__("data_type", -1),
        lambda r: r["nodes"][0].__setitem__("compute_data_type", 77),
        lambda r: r["nodes"][0]["attributes"].__setitem__("conv_mode", 3),
    ]
    for change in changes:
        changed = record()
        change(changed)
        error = broken(write(changed))
        assert rules_of(error) == {"WIRE-08"}
        assert not is_damage(error.problems)


def test_an_unknown_kind_of_scalar_declines() -> None:
    data = encode(example().freeze())
    found, _ = decode_record(data)
    (kind,) = (t["value_type"] for t in found["tensors"] if t["value_type"])
    changed = record()
    (scalar_record,) = (t for t in changed["tensors"] if t["value_type"])
    table = scalar_record.table
    union = table.slots[6]
    newer = Table(
        table.name,
        *(s if s is not union else _with_member(union) for s in table.slots),
    )
    scalar_record.table = newer
    scalar_record["value_type"] = 9
    error = broken(write(changed))
    assert kind == 1
    assert rules_of(error) == {"WIRE-08"}
    assert "kind 9" in str(error)


def _with_member(union: Any) -> Any:
    from dataclasses import replace

    return replace(union, members={**union.members, 9: union.members[1]})


@pytest.mark.parametrize("code", [24, 200, 255])
@pytest.mark.parametrize("era", Era)
def test_an_unknown_node_declines(code: int, era: Era) -> None:
    from dataclasses import replace

    changed = record(era)
    node = changed["nodes"][0]
    table = node.table
    union = replace(table.slots[-1], members={code: Table("Future", scalar("a", LONG))})
    node.table = Table(table.name, *table.slots[:-1], union)
    node["attributes_type"], node["attributes"] = code, Record(union.members[code], a=3)
    error = broken(write(changed, era=era))
    assert rules_of(error) == {"WIRE-09"}
    assert f"code {code}" in str(error)
    assert not is_damage(error.problems)


@pytest.mark.parametrize("version", [(2, 0, 0), (0, 9, 0), (1, ENGINE_API[1] + 1, 0)])
def test_a_newer_engine_api_declines(version: tuple[int, int, int]) -> None:
    changed = record()
    names = ("major", "minor", "patch")
    changed["min_required_engine_api_version"] = dict(zip(names, version, strict=True))
    assert rules_of(broken(write(changed))) == {"WIRE-10"}
    fine = dict(zip(names, (*ENGINE_API, 99), strict=True))
    changed["min_required_engine_api_version"] = fine
    assert decode(write(changed), Graph).required_api == (*ENGINE_API, 99)


def test_uids() -> None:
    twice = record()
    twice["tensors"][1]["uid"] = twice["tensors"][0]["uid"]
    assert rules_of(broken(write(twice))) == {"WIRE-11"}
    dangling = record()
    for node in dangling["nodes"]:
        name = "x_tensor_uid" if node["name"] == "conv" else "in_1_tensor_uid"
        node["attributes"][name] = 12345
    error = broken(write(dangling))
    assert [p.rule for p in error.problems] == ["WIRE-11", "WIRE-11"]
    assert "conv.x_tensor_uid" in str(error)
    ragged = record()
    ragged["tensors"][0]["ragged_offset_tensor_uid"] = 999
    assert rules_of(broken(write(ragged))) == {"WIRE-11"}
    peers = batchnorm_record()
    peers["nodes"][0]["attributes"]["peer_stats_tensor_uid"] = tuple(range(1000, 3000))
    assert len(broken(write(peers)).problems) == 3


def batchnorm_record() -> Record:
    graph = Graph(io_data_type="float", compute_data_type="float")
    x = graph.tensor(dims=(2, 3, 4, 4))
    scale, bias = (graph.tensor(dims=(1, 3, 1, 1)) for _ in range(2))
    graph.output(graph.batchnorm(x, scale, bias).y)
    return encode_record(graph.freeze())


def test_a_mixture_of_eras_declines() -> None:
    changed = record()
    old = record(Era.N25)
    changed["nodes"] = (changed["nodes"][0], old["nodes"][1])
    assert rules_of(broken(write(changed))) == {"WIRE-12"}


def test_what_an_era_cannot_hold_is_not_written() -> None:
    changed = record()
    changed["preferred_engine_id"] = 5
    with pytest.raises(FormatError, match="WIRE-13"):
        write(changed, era=Era.N25)
    graph = example()
    graph.tensors[0].alignment = 32
    with pytest.raises(FormatError, match=r"alignment.*\[WIRE-13\]"):
        encode(graph.freeze(), Era.N25)


@pytest.mark.parametrize(
    ("name", "value"), [("uid", 2**63), ("uid", -(2**63) - 1), ("dims", (2**63,)), ("dims", ("a",))]
)
def test_a_number_that_does_not_fit(name: str, value: Any) -> None:
    with pytest.raises(FormatError, match="WIRE-14"):
        write(Record(GRAPH, tensors=(Record(TENSOR, **{name: value}),)))


def test_all_problems_come_at_once() -> None:
    changed = record()
    changed["nodes"][0]["attributes"]["x_tensor_uid"] = 77
    changed["nodes"][1]["compute_data_type"] = 99
    changed["tensors"][0]["uid"] = changed["tensors"][1]["uid"]
    assert rules_of(broken(write(changed))) == {"WIRE-08", "WIRE-11"}


def test_every_rule_is_tried_here() -> None:
    with open(__file__, encoding="utf-8") as file:
        text = file.read()
    assert [rule for rule in RULES if rule not in text] == []


def test_an_empty_graph_is_sound_and_no_graph() -> None:
    graph = decode(write(Record(GRAPH)), Graph).graph
    assert {p.rule for p in graph.problems()} == {"GRAPH-01"}


def test_an_engine_configuration_with_unknown_fields_is_refused() -> None:
    newer = with_more(ENGINE_CONFIG, scalar("new", LONG, None))
    with pytest.raises(FormatError, match="WIRE-07"):
        decode_config(write(Record(newer, engine_id=3, new=1)))


def statistics() -> Graph:
    """A batch normalisation and a relu of its y; mean and inv_variance are read by no node."""
    graph = Graph(io_data_type="float", compute_data_type="float")
    channels = (1, 3, 1, 1)
    x, scale, bias = (graph.tensor(dims=d) for d in ((2, 3, 4, 4), channels, channels))
    found = graph.batchnorm(x, scale, bias, epsilon=1e-5)
    for uid, tensor in enumerate((graph.relu(found.y), found.mean, found.inv_variance), 10):
        tensor.set_uid(uid).set_output()
    return graph


@pytest.mark.parametrize("era", Era)
@pytest.mark.parametrize(("last", "outputs"), [(9, [10, 11, 12]), (10, [10]), (11, [10, 11])])
def test_results_that_nothing_reads_are_outputs_where_none_is_marked(
    era: Era, last: int, outputs: list[int]
) -> None:
    """Programs for hipDNN of 2025 mark none, and pass a buffer for each."""
    frozen = statistics().freeze()
    changed = encode_record(frozen, era)
    for tensor in changed["tensors"]:
        tensor["virtual"] |= tensor["uid"] > last
    text = json.loads(statistics().to_json())
    for tensor in text["tensors"]:
        tensor["virtual"] |= tensor["uid"] > last
    for data in (write(changed, era=era), json.dumps(text).encode()):
        assert sorted(loads(data).freeze().outputs) == outputs
    if last == 9:
        assert decode(write(changed, era=era), Graph).graph.freeze() == frozen


def test_a_graph_made_in_python_has_to_mark_its_outputs() -> None:
    graph = Graph(io_data_type="float")
    graph.relu(graph.tensor(dims=(2, 3)))
    (problem,) = graph.problems()
    assert (problem.rule, "set_output()" in problem.hint) == ("GRAPH-02", True)
