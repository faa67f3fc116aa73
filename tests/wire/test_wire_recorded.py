# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What hipDNN's own backend wrote is read field for field, and computes what it should."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
import pytest
from here_and_now import engine
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.formats.flatbuffer.buffer_writer import write
from hipdnn_iree.graph_api.formats.flatbuffer.decode import decode, decode_record, is_binary
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode
from hipdnn_iree.graph_api.formats.flatbuffer.hipdnn_tables import VALUE_TYPES
from hipdnn_iree.graph_api.formats.flatbuffer.node_tables import NODE_TABLES
from hipdnn_iree.graph_api.formats.flatbuffer.schema_types import Era, Kind, Record
from hipdnn_iree.graph_api.ops.batchnorm_inference import BatchnormInference
from hipdnn_iree.graph_api.ops.batchnorm_inference_variance_ext import (
    BatchnormInferenceVarianceExt,
)
from hipdnn_iree.jit import settings as knobs
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.graph_files import loads
from hipdnn_iree.provider.reference import expect

# What November 2025 called the graph's types.
GRAPH_KEYS = {
    "name": "name",
    "compute_type": "compute_data_type",
    "intermediate_type": "intermediate_data_type",
    "io_type": "io_data_type",
}
COSTS = {"umd_flops", "umd_bytes"}
NEWER_TENSOR_FIELDS = {
    *("is_runtime_pass_by_value", "ragged_offset_tensor_uid", "alignment"),
    "ragged_offset_multiplier",
}


def plain(value: Any) -> Any:
    """Return a value of a record in the terms of the recorded JSON."""
    if isinstance(value, Enum):
        return value.name
    return list(value) if isinstance(value, tuple) else value


def test_every_field_is_read(recorded: Any) -> None:
    record, problems = decode_record(recorded.data)
    assert not problems
    assert len(recorded.data) == recorded.json["bytes"]
    for theirs, ours in GRAPH_KEYS.items():
        assert plain(record[ours]) == recorded.json[theirs], theirs
    assert len(record["tensors"]) == len(recorded.json["tensors"])
    for tensor, wanted in zip(record["tensors"], recorded.json["tensors"], strict=True):
        kind = tensor["value_type"]
        found = {
            **{name: plain(tensor[name]) for name in tensor if not name.startswith("value")},
            "value_type": VALUE_TYPES[kind].name if kind else "NONE",
        }
        if kind:
            found["value"] = tensor["value"]
        for name in NEWER_TENSOR_FIELDS:
            assert found.pop(name) in (False, None, 16)
        assert found == wanted
    assert len(record["nodes"]) == len(recorded.json["nodes"])
    for node, wanted in zip(record["nodes"], recorded.json["nodes"], strict=True):
        assert node["name"] == wanted["name"]
        assert NODE_TABLES[node["attributes_type"]].name == wanted["type"]
        attributes = node["attributes"]
        vectors = {s.name for s in attributes.table.slots if s.kind is Kind.SCALARS}
        # hipDNN shows a vector that is not there as an empty one.
        found = {n: plain(() if v is None and n in vectors else v) for n, v in attributes.items()}
        assert {found.pop(name, None) for name in COSTS} == {None}
        assert found == wanted["attributes"]
        assert "compute_data_type" not in node


def test_a_recorded_graph_becomes_a_graph(recorded: Any) -> None:
    found = decode(recorded.data, Graph, inv_variance="inverse")
    assert (found.era, found.id, found.required_api) == (Era.N25, None, (1, 0, 0))
    graph = found.graph.freeze()
    assert graph.name == recorded.json["name"]
    assert graph.compute_data_type.name == recorded.json["compute_type"]
    for tensor in recorded.json["tensors"]:
        spec = graph.tensors[tensor["uid"]]
        assert spec.name == tensor["name"]
        assert spec.data_type.name == tensor["data_type"]
        assert (list(spec.dims), list(spec.strides)) == (tensor["dims"], tensor["strides"])
        assert spec.virtual == tensor["virtual"]
        assert spec.value == tensor.get("value")
    assert sorted(graph.tensors) == sorted(t["uid"] for t in recorded.json["tensors"])
    assert {n.name for n in graph.nodes} == {n["name"] for n in recorded.json["nodes"]}


def test_what_is_read_is_written_the_same(recorded: Any) -> None:
    """Our own bytes differ in the order of things, never in what they say."""
    record, _ = decode_record(recorded.data)
    again = write(record, era=Era.N25)
    assert abs(len(again) - len(recorded.data)) <= 16
    assert decode_record(again) == (record, [])


@pytest.mark.parametrize("era", Era)
def test_both_eras_hold_a_recorded_graph(recorded: Any, era: Era) -> None:
    graph = decode(recorded.data, Graph).graph.freeze()
    found = decode(encode(graph, era), Graph)
    assert found.era is era
    assert found.graph.freeze() == graph


def test_a_recorded_graph_runs_and_is_right(recorded: Any) -> None:
    frozen = loads(recorded.data).freeze()
    plan = engine("iree").build(frozen, Target.parse("cpu"))
    inputs = verify.random_inputs(frozen, seed=7)
    outputs = verify.poisoned_outputs(frozen)
    plan.execute({**inputs, **outputs})
    report = verify.compare(frozen, outputs, expect(frozen, inputs))
    assert report.ok, str(report)


# ---------------------------------------------------------------------------- inv_variance


def inference(all_recorded: list[Any]) -> bytes:
    (found,) = (r for r in all_recorded if r.name.startswith("bn_inference"))
    return bytes(found.data)


@pytest.mark.parametrize(
    ("era", "meaning", "op"),
    [
        (Era.N25, "auto", BatchnormInferenceVarianceExt),
        (Era.N25, "inverse", BatchnormInference),
        (Era.N25, "variance", BatchnormInferenceVarianceExt),
        (Era.NODE, "auto", BatchnormInference),
        (Era.NODE, "inverse", BatchnormInference),
        (Era.NODE, "variance", BatchnormInferenceVarianceExt),
    ],
)
def test_the_era_and_the_knob_say_what_inv_variance_is(
    all_recorded: list[Any], era: Era, meaning: str, op: type
) -> None:
    data = inference(all_recorded)
    if era is Era.NODE:
        as_read = decode(data, Graph, inv_variance="inverse").graph.freeze()
        data = encode(as_read, era, inv_variance="inverse")
    for graph in (decode(data, Graph, inv_variance=meaning).graph, under(meaning, data)):
        (node,) = graph.freeze().nodes
        assert type(node.op) is op


def under(meaning: str, data: bytes) -> Graph:
    with knobs.scope(graph_inv_variance=meaning):
        return loads(data)


def test_json_does_not_tell_its_era_but_obeys_the_knob(all_recorded: list[Any]) -> None:
    graph = decode(inference(all_recorded), Graph, inv_variance="inverse").graph
    text = graph.to_json().encode()
    for meaning, op in (
        ("auto", BatchnormInference),
        ("inverse", BatchnormInference),
        ("variance", BatchnormInferenceVarianceExt),
    ):
        assert type(under(meaning, text).nodes[0].op) is op


def test_a_variance_is_what_november_2025_took_it_for(all_recorded: list[Any]) -> None:
    """The formula of its CPU reference: the field is a variance, epsilon is 1e-5."""
    frozen = loads(inference(all_recorded)).freeze()
    by_name = {spec.name: uid for uid, spec in frozen.tensors.items()}
    rng = np.random.default_rng(3)
    arrays: dict[int, Any] = {}
    for uid in frozen.inputs:
        spec = frozen.tensors[uid]
        dtype = np.float16 if spec.data_type.json == "half" else np.float32
        arrays[uid] = rng.uniform(0.01, 1.0, spec.dims).astype(dtype)
    x, mean, variance, scale, bias = (
        arrays[by_name[n]].astype(np.float64)
        for n in ("x", "mean", "inv_variance", "scale", "bias")
    )
    arrays[by_name["inv_variance"]][0, 0] = variance[0, 0] = 1e-6  # where epsilon counts
    wanted = scale * (x - mean) / np.sqrt(variance + 1e-5) + bias
    plan = engine("iree").build(frozen, Target.parse("cpu"))
    found = plan.run(arrays)[by_name["bn::Y"]]
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=2e-3, atol=2e-3)


def test_json_is_told_from_flatbuffers(all_recorded: list[Any]) -> None:
    for item in all_recorded:
        assert is_binary(item.data)
        text = decode(item.data, Graph).graph.to_json().encode()
        for spelling in (text, b"\n\n    " + text, b"\xef\xbb\xbf" + text, b"\r\n\t\t\n" + text):
            assert not is_binary(spelling)
            assert loads(spelling).freeze() == loads(item.data).freeze()
    assert not is_binary("[{\n".encode("utf-16"))
    assert not is_binary(b"")


def test_a_record_keeps_its_table(all_recorded: list[Any]) -> None:
    record, _ = decode_record(all_recorded[0].data)
    assert isinstance(record, Record)
    assert record.table.name == "Graph"
    assert "Graph" in repr(record.table)


# ---------------------------------------------------------------------------- backward operands


def slope(order: str) -> Graph:
    """relu_bwd of in_0 and in_1, which have uids 0 and 1; what the node keeps is (dy, x)."""
    graph = Graph(io_data_type="float", compute_data_type="float")
    operands = [graph.tensor(dims=(2, 3), uid=uid) for uid in (0, 1)]
    graph.pointwise(*operands, mode="relu_bwd", operands=order).set_output().set_uid(2)
    return graph


@pytest.mark.parametrize("operands", ["auto", "dy_x", "x_dy"])
@pytest.mark.parametrize("era", Era)
def test_the_era_and_the_knob_say_the_order_of_backward_operands(era: Era, operands: str) -> None:
    x_first = operands == "x_dy" or (operands == "auto" and era is Era.N25)
    graph = slope("x_dy" if x_first else "dy_x").freeze()
    data = encode(graph, era, backward_operands=operands)
    (node,) = decode_record(data)[0]["nodes"]
    assert [node["attributes"][f"in_{i}_tensor_uid"] for i in (0, 1)] == [0, 1]
    with knobs.scope(graph_backward_operands=operands):
        found = (decode(data, Graph, backward_operands=operands).graph, loads(data))
    for read in found:
        assert dict(read.freeze().nodes[0].inputs) == dict(graph.nodes[0].inputs)
        assert read.freeze() == graph


def test_json_does_not_tell_its_era_and_has_dy_first_but_obeys_the_knob() -> None:
    text = slope("dy_x").to_json().encode()
    for operands, order in (("auto", "dy_x"), ("dy_x", "dy_x"), ("x_dy", "x_dy")):
        with knobs.scope(graph_backward_operands=operands):
            assert loads(text).freeze() == slope(order).freeze()


def test_an_order_of_operands_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="'dyx'; allowed: auto, dy_x, x_dy"):
        encode(slope("dy_x").freeze(), backward_operands="dyx")
