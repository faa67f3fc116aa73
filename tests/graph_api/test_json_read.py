# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reading graph JSON: every era, hand-made files, spellings, scalars."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_json import (
    DATA,
    FILES,
    Json,
    conv,
    pointwise,
    problems,
    read,
    reduction,
    relu,
    scalar,
    tensor,
)
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.enums import ConvMode, PointwiseMode, ReductionMode
from hipdnn_iree.graph_api.graph import Graph

# ------------------------------------------------------------------ files


def test_files_are_there() -> None:
    assert [f.stem for f in FILES] == ["conv_bias_relu", "hand_made", "matmul_scaled", "relu_n25"]


def test_a_convolution_with_bias_and_relu() -> None:
    frozen = read((DATA / "conv_bias_relu.json").read_bytes()).freeze()
    assert [n.op.NAME for n in frozen.nodes] == ["conv_fprop", "pointwise", "pointwise"]
    conv_node, bias, clip = frozen.nodes
    assert conv_node.op.pre_padding == (1, 2)
    assert conv_node.op.post_padding == (1, 0)
    assert conv_node.op.stride == (2, 1)
    assert bias.inputs == {"in_0": 103, "in_1": 102}
    assert (clip.op.relu_upper_clip, clip.op.relu_lower_clip) == (6.0, None)
    assert clip.op.relu_lower_clip_slope == float(np.float32(0.01))
    assert frozen.inputs == (100, 101, 102)
    assert frozen.outputs == (105,)
    assert frozen.tensors[105].name == "Ausgabe ü"
    assert frozen.tensors[103].virtual
    assert frozen.name == "stem"


def test_a_matmul_with_odd_uids() -> None:
    frozen = read((DATA / "matmul_scaled.json").read_text("utf-8")).freeze()
    assert frozen.inputs == (-1, 0)
    assert set(frozen.outputs) == {3, 2**53 + 1}
    assert frozen.tensors[0].strides == (20, 1, 4)
    assert frozen.tensors[2].value == float(np.float32(0.1))
    assert frozen.preferred_engine_id == -7311871539230843122
    assert frozen.nodes[-1].op.is_deterministic
    assert frozen.nodes[-1].op.axes == (1, 2)


def test_the_keys_of_november_2025() -> None:
    frozen = read((DATA / "relu_n25.json").read_bytes()).freeze()
    assert frozen.io_data_type is DataType.FLOAT
    assert frozen.compute_data_type is DataType.FLOAT
    (node,) = frozen.nodes
    assert (node.op.relu_lower_clip, node.op.relu_upper_clip) == (0.25, 9.5)
    assert frozen.tensors[1].alignment == 16


def test_a_file_written_by_hand() -> None:
    frozen = read((DATA / "hand_made.json").read_bytes()).freeze()
    conv_node, maximum, reduced = frozen.nodes
    assert (conv_node.op.pre_padding, conv_node.op.post_padding) == ((1, 1), (1, 1))
    assert (conv_node.op.stride, conv_node.op.dilation) == ((1, 1), (1, 1))
    assert conv_node.op.conv_mode is ConvMode.CROSS_CORRELATION
    assert maximum.op.mode is PointwiseMode.MAX
    assert maximum.inputs == {"in_0": 30, "in_1": 30}
    assert (reduced.op.mode, reduced.op.axes) == (ReductionMode.MAX, (0, 2, 3))
    assert frozen.tensors[10].name == "image"  # of two equal keys the last one counts
    assert [frozen.tensors[u].data_type.json for u in (10, 20, 30, 40, 50)] == [
        "half", "half", "float", "float", "half",
    ]  # fmt: skip
    assert frozen.intermediate_data_type is DataType.UNSET


# ------------------------------------------------------------------ tolerance


@pytest.mark.parametrize("era", ["data_type", "type"])
@pytest.mark.parametrize("key", ["io", "compute", "intermediate"])
def test_each_type_key_has_two_spellings(era: str, key: str) -> None:
    data = relu()
    del data[f"{key}_data_type"]
    assert getattr(read(data), f"{key}_data_type") is DataType.UNSET
    data[f"{key}_{era}"] = "bfloat16"
    assert getattr(read(data), f"{key}_data_type") is DataType.BFLOAT16


def test_the_newer_type_key_wins_unless_it_is_null() -> None:
    assert read(relu(io_type="double")).io_data_type is DataType.FLOAT
    assert read(relu(io_type="double", io_data_type=None)).io_data_type is DataType.DOUBLE


@pytest.mark.parametrize("mode", [m for m in ReductionMode if m.wire], ids=repr)
@pytest.mark.parametrize("spell", [str.lower, str.upper, str.title])
def test_reduction_modes_in_any_case(mode: ReductionMode, spell: Callable[[str], str]) -> None:
    assert read(reduction(spell(mode.json))).freeze().nodes[0].op.mode is mode
    assert read(reduction(mode.wire)).freeze().nodes[0].op.mode is mode


@pytest.mark.parametrize("mode", [m for m in PointwiseMode if m.wire], ids=repr)
def test_pointwise_modes(mode: PointwiseMode) -> None:
    more = {"axis_tensor_uid": 1} if mode is PointwiseMode.GEN_INDEX else {}
    for spelling in (mode.json, mode.json.upper(), mode.name, mode.wire):
        node = pointwise(spelling, *[1] * mode.arity, 2, **more)
        g = read(relu(nodes=[node]))
        assert g.nodes[0].op.mode is mode
        assert g.problems() == []


@pytest.mark.parametrize(
    ("reader", "spelling", "expected"),
    [
        (reduction, "max", ReductionMode.MAX),
        (reduction, "MAX_OP", ReductionMode.MAX),
        (reduction, "min_op", ReductionMode.MIN),
        (lambda m: relu(nodes=[pointwise(m, 1, 1, 2)]), "max", PointwiseMode.MAX),
        (lambda m: relu(nodes=[pointwise(m, 1, 1, 2)]), "MAX_OP", PointwiseMode.MAX),
        (lambda m: relu(nodes=[pointwise(m, 1, 1, 2)]), "min", PointwiseMode.MIN),
        (lambda m: conv(conv_mode=m), "convolution", ConvMode.CONVOLUTION),
        (lambda m: conv(conv_mode=m), 2, ConvMode.CROSS_CORRELATION),
        (lambda m: conv(conv_mode=m), None, ConvMode.CROSS_CORRELATION),
    ],
)
def test_spellings_of_modes(reader: Callable[[Any], Json], spelling: Any, expected: Any) -> None:
    op = read(reader(spelling)).nodes[0].op
    assert getattr(op, "mode", None) is expected or getattr(op, "conv_mode", None) is expected


@pytest.mark.parametrize("data_type", list(DataType), ids=repr)
def test_data_types_as_text_and_as_code(data_type: DataType) -> None:
    for spelling in (data_type.json, data_type.json.upper(), data_type.wire):
        g = read(relu(tensors=[tensor(1, data_type=spelling), tensor(2)]))
        assert g.tensors[0].given_type is data_type


# Every key that hipDNN's writer may leave out or write as null, with the value that it then has.
OPTIONAL: list[tuple[tuple[Any, ...], Callable[[Graph], Any], Any]] = [
    (("name",), lambda g: g.name, ""),
    (("io_data_type",), lambda g: g.io_data_type, DataType.UNSET),
    (("preferred_engine_id",), lambda g: g.preferred_engine_id, None),
    (("is_override_shape_enabled",), lambda g: g.is_override_shape_enabled, False),
    (("id",), lambda g: None, None),
    (("min_required_engine_api_version",), lambda g: None, None),
    (("nodes", 0, "name"), lambda g: g.nodes[0].name, ""),
    (("nodes", 0, "compute_data_type"), lambda g: g.nodes[0].compute_data_type, DataType.UNSET),
    (("nodes", 0, "inputs", "in_1_tensor_uid"), lambda g: len(g.nodes[0].inputs), 1),
    (("nodes", 0, "inputs", "in_2_tensor_uid"), lambda g: len(g.nodes[0].inputs), 1),
    *(
        (("nodes", 0, "inputs", key), lambda g: g.nodes[0].op.given_attributes(), {})
        for key in ("relu_lower_clip", "relu_upper_clip", "relu_lower_clip_slope", "swish_beta",
                    "elu_alpha", "softplus_beta", "axis_tensor_uid")
    ),
    (("tensors", 0, "name"), lambda g: g.tensors[0].name, ""),
    (("tensors", 0, "data_type"), lambda g: g.tensors[0].given_type, DataType.UNSET),
    (("tensors", 0, "virtual"), lambda g: g.tensors[0].virtual, False),
    (("tensors", 0, "alignment"), lambda g: g.tensors[0].alignment, 16),
    (("tensors", 0, "is_runtime_pass_by_value"), lambda g: g.tensors[0].runtime_scalar, False),
    (("tensors", 0, "ragged_offset_tensor_uid"), lambda g: g.tensors[0].ragged_offset_uid, None),
    (("tensors", 0, "value_type"), lambda g: g.tensors[0].value, None),
    (("tensors", 0, "value"), lambda g: g.tensors[0].value, None),
]  # fmt: skip


@pytest.mark.parametrize("absent", ["missing", "null"])
@pytest.mark.parametrize(
    ("path", "get", "expected"), OPTIONAL, ids=["-".join(map(str, row[0])) for row in OPTIONAL]
)
def test_optional_keys_may_be_missing_or_null(
    path: tuple[Any, ...], get: Callable[[Graph], Any], expected: Any, absent: str
) -> None:
    data: Any = relu()
    *parents, key = path
    holder = data
    for part in parents:
        holder = holder[part]
    holder.pop(key, None)
    if absent == "null":
        holder[key] = None
    g = read(data)
    assert get(g) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ((0, 0), (0, 0), (1, 1), (1, 1))),
        ({"pre_padding": [1, 2]}, ((1, 2), (1, 2), (1, 1), (1, 1))),
        ({"post_padding": [1, 2]}, ((0, 0), (1, 2), (1, 1), (1, 1))),
        ({"pre_padding": [], "stride": [2, 3], "dilation": None}, ((0, 0), (0, 0), (2, 3), (1, 1))),
        ({"pre_padding": [1.0, 2.0]}, ((1, 2), (1, 2), (1, 1), (1, 1))),
    ],
)
def test_parameters_of_a_convolution_may_be_missing(given: Json, expected: Any) -> None:
    op = read(conv(**given)).freeze().nodes[0].op
    assert (op.pre_padding, op.post_padding, op.stride, op.dilation) == expected
    data = conv()
    data["nodes"][0]["parameters"] = None
    assert read(data).problems() == []
    del data["nodes"][0]["parameters"]
    assert read(data).problems() == []


def test_what_hipdnn_does_not_know_is_ignored() -> None:
    data = relu(_comment="x", unknown={"a": [1]}, id="not a uuid")
    data["nodes"][0].update(_comment=1, parameters={"x": 1}, umd_flops=3.5)
    data["nodes"][0]["inputs"]["strange_tensor_uid"] = 99
    data["tensors"][0].update(_comment=None, colour="blue")
    assert read(data).freeze() == read(relu()).freeze()


def test_nodes_and_tensors_in_any_order() -> None:
    data = relu(
        nodes=[pointwise("exp", i, i + 1) for i in range(1, 6)],
        tensors=[tensor(i, virtual=1 < i < 6) for i in range(1, 7)],
    )
    expected = read(data).freeze()
    rng = random.Random(0)
    for _ in range(10):
        rng.shuffle(data["nodes"])
        rng.shuffle(data["tensors"])
        assert read(data).freeze() == expected


@pytest.mark.parametrize("uid", [0, -1, -(2**63), 2**63 - 1, 2**53 + 1, 7.0])
def test_uids(uid: Any) -> None:
    g = read(relu(nodes=[pointwise("exp", uid, 5)], tensors=[tensor(uid), tensor(5)]))
    assert g.freeze().inputs == (int(uid),)


@pytest.mark.parametrize("name", ["", "a b", "Überschrift", "名前", "\u0000", 'q"\\\n', "😀", "1"])
def test_names(name: str) -> None:
    data = relu(name=name, tensors=[tensor(1, name=name), tensor(2, name=name)])
    data["nodes"][0]["name"] = name
    for text in (json.dumps(data), json.dumps(data, ensure_ascii=False)):
        g = read(text)
        assert {g.name, g.nodes[0].name, *(t.name for t in g.tensors)} == {name}
        assert read(g.to_json()).tensors[0].name == name


def test_duplicate_keys_the_last_one_counts() -> None:
    text = json.dumps(relu()).replace('"name": "g"', '"name": "first", "name": "second"')
    assert read(text).name == "second"


def test_text_and_bytes_with_and_without_byte_order_mark() -> None:
    text = json.dumps(relu())
    for form in (text, "\ufeff" + text, text.encode(), b"\xef\xbb\xbf" + text.encode()):
        assert read(form).name == "g"


# ------------------------------------------------------------------ scalars


@pytest.mark.parametrize(
    ("value", "value_type", "data_type", "expected"),
    [
        (0.5, "Float32Value", "float", 0.5),
        (0.10000000149011612, "Float32Value", "float", float(np.float32(0.1))),
        (0.1, "Float32Value", "float", float(np.float32(0.1))),
        (9.999999747378752e-06, "Float32Value", "float", float(np.float32(1e-5))),
        (0.1, "Float16Value", "half", float(np.float16(0.1))),
        (0.1, "BFloat16Value", "bfloat16", 0.10009765625),
        (0.1, "Float64Value", "double", 0.1),
        (1, "Float64Value", "double", 1.0),
        (3, "Int32Value", "int32", 3),
        (3.0, "Int32Value", "int32", 3),
        (2**63 - 1, "Int64Value", "int64", 2**63 - 1),
        (-5, "Int64Value", "int8", -5),
        (True, "BoolValue", "boolean", True),
        (False, "NONE", "boolean", False),  # hipDNN's table of names lacks BoolValue
        (None, "NONE", "float", None),
        (0x38, "Float8Value", "fp8_e4m3", 1.0),
        (0x3C, "Float8Value", "fp8_e5m2", 1.0),
        (0x40, "Float8Value", "fp8_e4m3_fnuz", 1.0),
        (0x40, "Float8Value", "fp8_e5m2_fnuz", 1.0),
        (127, "Float8Value", "fp8_e8m0", 1.0),
        (0, "Float8Value", "fp8_e4m3", 0.0),
        (0xFE, "Float8Value", "fp8_e4m3", -448.0),
        (255, "Float8Value", "fp8_e5m2_fnuz", -57344.0),
        (0x38, "Float8Value", "unset", 1.0),
        (0x38, "Float8Value", "half", 1.0),
    ],
)
def test_scalars(value: Any, value_type: Any, data_type: str, expected: Any) -> None:
    g = read(scalar(value, value_type, data_type))
    found = g.freeze().tensors[3]
    assert found.value == expected
    assert type(found.value) is type(expected)
    if data_type != "unset":
        assert found.data_type.json == data_type


@pytest.mark.parametrize(
    ("value", "value_type", "rule", "port", "got"),
    [
        (None, "Float32Value", "JSON-08", "value", "null"),
        (None, "Float64Value", "JSON-08", "value", "null"),
        (None, "Int32Value", "JSON-08", "value", "null"),
        ("1", "Float32Value", "JSON-04", "value", "'1'"),
        (True, "Float32Value", "JSON-04", "value", "true"),
        (1e39, "Float32Value", "JSON-04", "value", "1e+39"),
        (10**400, "Float64Value", "JSON-04", "value", "100"),
        ([1], "Float64Value", "JSON-04", "value", "an array of 1"),
        (1.5, "Int64Value", "JSON-04", "value", "1.5"),
        (2**63, "Int64Value", "JSON-04", "value", str(2**63)),
        (1, "BoolValue", "JSON-04", "value", "1"),
        (256, "Float8Value", "JSON-04", "value", "256"),
        (-1, "Float8Value", "JSON-04", "value", "-1"),
        (1, "NONE", "JSON-05", "value_type", "'NONE'"),
        (1, "Float32", "JSON-05", "value_type", "'Float32'"),
        (1, 3, "JSON-05", "value_type", "3"),
        (1, [], "JSON-05", "value_type", "an array of 0"),
        (1, {}, "JSON-05", "value_type", "an object of 0 key(s)"),
    ],
)
def test_bad_scalars(value: Any, value_type: Any, rule: str, port: str, got: str) -> None:
    (problem,) = problems(scalar(value, value_type))
    assert (problem.rule, problem.node, problem.port) == (rule, "tensors[2]", port)
    assert got in problem.got
