# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Engine details, configurations, knobs and plans: worked bytes, old hosts, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import FormatError
from hipdnn_iree.graph_api.formats.flatbuffer.buffer_reader import Reader
from hipdnn_iree.graph_api.formats.flatbuffer.buffer_writer import write
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode
from hipdnn_iree.graph_api.formats.flatbuffer.engine_messages import (
    EngineConfig,
    EngineDetails,
    Knob,
    decode_config,
    decode_details,
    encode_config,
    encode_details,
)
from hipdnn_iree.graph_api.formats.flatbuffer.hipdnn_tables import (
    ENGINE_CONFIG,
    ENGINE_DETAILS,
    PLAN,
)
from hipdnn_iree.graph_api.formats.flatbuffer.plan_envelope import (
    SerializedPlan,
    decode_plan,
    encode_plan,
    join_graph_and_plan,
    split_graph_and_plan,
)
from hipdnn_iree.graph_api.formats.flatbuffer.schema_types import LONG, Record, Table, scalar
from hipdnn_iree.provider.graph_files import loads

# EngineDetails{engine_id, behavior_notes = [0]} as Google's flatc wrote it.
FLATC = bytes.fromhex(
    "10000000 0000 0a00 1000 0800 0000 0400 0a000000 0c000000 92df0b8f1f0db0d3 01000000 00000000"
)
FUSILLI = -3193037706610614382

# What November 2025 knew of both.
OLD_DETAILS = Table("EngineDetails", scalar("engine_id", LONG))


def test_bytes_of_flatc() -> None:
    wanted = EngineDetails(engine_id=FUSILLI, behavior_notes=(0,))
    assert decode_details(FLATC) == wanted
    assert decode_details(encode_details(wanted)) == wanted


def test_the_recorded_configuration(recorded_config: bytes) -> None:
    assert decode_config(recorded_config) == EngineConfig(engine_id=4242001)
    assert decode_config(encode_config(EngineConfig(engine_id=4242001))).engine_id == 4242001


def test_an_old_host_reads_the_engine_id() -> None:
    knob = Knob(id="a.b", default=1)
    data = encode_details(
        EngineDetails(engine_id=7, knobs=(knob,), behavior_notes=(0, 3), name="x")
    )
    assert Reader(data, strict=False).root(OLD_DETAILS) == {"engine_id": 7}
    assert decode_details(write(Record(OLD_DETAILS, engine_id=7))) == EngineDetails(engine_id=7)
    assert decode_config(write(Record(OLD_DETAILS, engine_id=7))) == EngineConfig(engine_id=7)


def test_fields_of_newer_hosts_are_left_aside_in_details_and_plans() -> None:
    for table, read in ((ENGINE_DETAILS, decode_details), (PLAN, decode_plan)):
        newer = Table(table.name, *table.slots, scalar("new", LONG, None))
        values = {"engine_id": 3, "new": 0} | ({"version": 1} if table is PLAN else {})
        assert read(write(Record(newer, **values))).engine_id == 3


def knob_record(**changes: Any) -> Record:
    details = EngineDetails(engine_id=1, knobs=(Knob(id="k", default=1),))
    record = Reader(encode_details(details)).root(ENGINE_DETAILS)
    record["knobs"][0].update(changes)
    return record


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"knob_id": None}, "WIRE-06"),
        ({"default_value": None, "default_value_type": 0}, "WIRE-06"),
    ],
)
def test_a_knob_without_its_parts(changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(FormatError, match=rule):
        decode_details(write(knob_record(**changes)))


def test_a_setting_without_its_parts() -> None:
    config = Reader(encode_config(EngineConfig(engine_id=1, knobs={"k": 1}))).root(ENGINE_CONFIG)
    changes: list[Callable[[Record], Any]] = [
        lambda s: s.update(knob_id=None),
        lambda s: s.update(value=None, value_type=0),
    ]
    for change in changes:
        setting = Record(config["knobs"][0].table, **config["knobs"][0])
        change(setting)
        with pytest.raises(FormatError, match="WIRE-06"):
            decode_config(write(Record(ENGINE_CONFIG, engine_id=1, knobs=(setting,))))


def test_a_kind_of_value_from_the_future() -> None:
    setting = ENGINE_CONFIG.slots[1].table
    union = setting.slots[1]
    newer = Table("KnobSetting", setting.slots[0], replace(union, members={4: union.members[1]}))
    item = Record(newer, knob_id="k", value_type=4, value=Record(union.members[1], value=3))
    with pytest.raises(FormatError, match="WIRE-08"):
        decode_config(write(Record(ENGINE_CONFIG, engine_id=1, knobs=(item,))))


def test_numbers_out_of_range() -> None:
    with pytest.raises(FormatError, match="WIRE-14"):
        encode_config(EngineConfig(engine_id=1, knobs={"k": 2**63}))
    with pytest.raises(FormatError, match="WIRE-14"):
        encode_details(EngineDetails(engine_id=2**64))


def test_an_empty_plan_and_one_of_another_version() -> None:
    assert decode_plan(encode_plan(SerializedPlan(engine_id=0))) == SerializedPlan(engine_id=0)
    for version in (0, 2):
        with pytest.raises(FormatError, match="WIRE-10"):
            decode_plan(write(Record(PLAN, version=version)))
    with pytest.raises(FormatError, match="WIRE-06"):
        decode_plan(write(Record(PLAN, version=1, tensor_uids=(1, 2), tensor_alignments=(16,))))


def test_a_graph_and_its_plan_in_one_file(tmp_path: Path) -> None:
    graph = Graph("both", io_data_type="float")
    graph.output(graph.relu(graph.tensor(dims=(2, 3))))
    graph_bytes = encode(graph.freeze())
    plan_bytes = encode_plan(SerializedPlan(engine_id=5))
    for second in (plan_bytes, b""):
        data = join_graph_and_plan(graph_bytes, second)
        assert data[4:8] == b"HDGP"
        assert split_graph_and_plan(data) == (graph_bytes, second)
        assert loads(data).freeze() == graph.freeze()
    with pytest.raises(FormatError, match="WIRE-01"):
        split_graph_and_plan(graph_bytes)
    with pytest.raises(FormatError, match="WIRE-01"):
        loads(join_graph_and_plan(b"", plan_bytes))
