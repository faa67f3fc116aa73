# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Written graph JSON: hipDNN's layout and complete set of keys, and the same graph when read."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree.graph_api.enums import PointwiseMode
from hipdnn_iree.graph_api.errors import FormatError
from hipdnn_iree.graph_api.formats.json.json_form import dumps, loads
from hipdnn_iree.graph_api.graph import Graph
from hypothesis import given, settings
from hypothesis import strategies as st

DATA = Path(__file__).parents[1] / "data" / "graph_json"

# Keys that hipDNN's reader demands (and those that it writes in every file).
TOP = {
    "name": str,
    "compute_data_type": str,
    "io_data_type": str,
    "intermediate_data_type": str,
    "is_override_shape_enabled": bool,
    "nodes": list,
    "tensors": list,
}
TENSOR = {
    "uid": int,
    "name": str,
    "data_type": str,
    "dims": list,
    "strides": list,
    "virtual": bool,
    "alignment": int,
    "is_runtime_pass_by_value": bool,
}
UID, NUMBER = (int,), (int, float, type(None))
OPTIONAL_UID = (int, type(None))
NODE: dict[str, dict[str, Any]] = {
    "ConvolutionFwdAttributes": {
        "inputs": {"x_tensor_uid": UID, "w_tensor_uid": UID},
        "outputs": {"y_tensor_uid": UID},
        "parameters": {
            "pre_padding": list,
            "post_padding": list,
            "stride": list,
            "dilation": list,
            "conv_mode": str,
        },
    },
    "MatmulAttributes": {
        "inputs": {"a_tensor_uid": UID, "b_tensor_uid": UID},
        "outputs": {"c_tensor_uid": UID},
    },
    "PointwiseAttributes": {
        "inputs": {
            "operation": str,
            "in_0_tensor_uid": UID,
            "in_1_tensor_uid": OPTIONAL_UID,
            "in_2_tensor_uid": OPTIONAL_UID,
            "axis_tensor_uid": OPTIONAL_UID,
            "relu_lower_clip": NUMBER,
            "relu_upper_clip": NUMBER,
            "relu_lower_clip_slope": NUMBER,
            "swish_beta": NUMBER,
            "elu_alpha": NUMBER,
            "softplus_beta": NUMBER,
        },
        "outputs": {"out_0_tensor_uid": UID},
    },
    "ReductionAttributes": {
        "mode": str,
        "in_tensor_uid": int,
        "out_tensor_uid": int,
        "is_deterministic": bool,
    },
}


def check_form(data: Any, form: dict[str, Any], where: str) -> None:
    """All keys are there, none besides, and each has its type."""
    assert set(data) == set(form), where
    for key, kind in form.items():
        if isinstance(kind, dict):
            check_form(data[key], kind, f"{where}.{key}")
        else:
            assert isinstance(data[key], kind), f"{where}.{key}"
            assert kind is bool or kind is list or not isinstance(data[key], bool), f"{where}.{key}"


def check_text(text: str) -> dict[str, Any]:
    """The layout of hipDNN's own dumps, and the keys of the newest era."""
    data = json.loads(text)
    assert text == json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False)
    assert not text.endswith("\n")
    check_form(data, TOP, "graph")
    for tensor in data["tensors"]:
        form = dict(TENSOR)
        if "value" in tensor:
            form |= {
                "value": (int, float) if tensor["value_type"] != "BoolValue" else bool,
                "value_type": str,
            }
        check_form(tensor, form, f"tensor {tensor['uid']}")
        assert len(tensor["dims"]) == len(tensor["strides"]) > 0
    for node in data["nodes"]:
        common = {"type": str, "name": str, "compute_data_type": str}
        check_form(node, common | NODE[node["type"]], f"node {node['name']!r}")
        assert node["compute_data_type"] != "unset"
    uids = [t["uid"] for t in data["tensors"]]
    assert uids == sorted(set(uids))
    return data  # type: ignore[no-any-return]


@settings(max_examples=120)
@given(data=st.data())
def test_what_is_written_reads_as_the_same_graph(
    recipe: Callable[..., Any], data: st.DataObject
) -> None:
    made_of = recipe(data.draw, most=6)
    g, _ = made_of.build(names=random.Random(data.draw(st.integers(0, 99))))
    frozen = g.freeze()
    text = g.to_json()
    assert text == dumps(frozen)
    check_text(text)
    again = Graph.from_json(text)
    assert again.freeze() == frozen
    assert again.freeze().canonical == frozen.canonical
    # Byte for byte, from the second time on and from the first.
    assert again.to_json() == text
    # Everything is there, not only what the digest looks at.
    assert again.freeze().name == frozen.name
    assert dict(again.freeze().tensors) == dict(frozen.tensors)
    assert again.freeze().inputs == frozen.inputs
    assert again.freeze().outputs == frozen.outputs
    assert [(n.name, n.op, n.inputs, n.outputs) for n in again.freeze().nodes] == [
        (n.name, n.op, n.inputs, n.outputs) for n in frozen.nodes
    ]
    assert loads(text.encode(), Graph).freeze() == frozen


@pytest.mark.parametrize("name", ["conv_bias_relu", "matmul_scaled"])
def test_a_dump_is_written_back_byte_for_byte(name: str) -> None:
    text = (DATA / f"{name}.json").read_text("utf-8")
    assert Graph.from_json(text).to_json() == text


def relu(**options: Any) -> Graph:
    g = Graph("g", io_data_type="float")
    g.relu(g.tensor(dims=(2, 3), name="x", uid=1), name="relu", **options).set_output().set_uid(2)
    return g


def test_one_graph_in_full() -> None:
    # float32 digits as hipDNN's own writer shows them.
    assert (
        relu(upper_clip=6, lower_clip_slope=0.1).to_json()
        == """{
  "compute_data_type": "unset",
  "intermediate_data_type": "unset",
  "io_data_type": "float",
  "is_override_shape_enabled": false,
  "name": "g",
  "nodes": [
    {
      "compute_data_type": "float",
      "inputs": {
        "axis_tensor_uid": null,
        "elu_alpha": null,
        "in_0_tensor_uid": 1,
        "in_1_tensor_uid": null,
        "in_2_tensor_uid": null,
        "operation": "relu_fwd",
        "relu_lower_clip": null,
        "relu_lower_clip_slope": 0.10000000149011612,
        "relu_upper_clip": 6.0,
        "softplus_beta": null,
        "swish_beta": null
      },
      "name": "relu",
      "outputs": {
        "out_0_tensor_uid": 2
      },
      "type": "PointwiseAttributes"
    }
  ],
  "tensors": [
    {
      "alignment": 16,
      "data_type": "float",
      "dims": [
        2,
        3
      ],
      "is_runtime_pass_by_value": false,
      "name": "x",
      "strides": [
        3,
        1
      ],
      "uid": 1,
      "virtual": false
    },
    {
      "alignment": 16,
      "data_type": "float",
      "dims": [
        2,
        3
      ],
      "is_runtime_pass_by_value": false,
      "name": "",
      "strides": [
        3,
        1
      ],
      "uid": 2,
      "virtual": false
    }
  ]
}"""
    )


def test_nodes_are_written_with_all_their_parameters() -> None:
    g = Graph(io_data_type="half", compute_data_type="float")
    x = g.tensor(dims=(1, 2, 8, 8))
    y = g.conv_fprop(x, g.tensor(dims=(4, 2, 3, 3)), pre_padding=(0, 1), conv_mode="convolution")
    y = g.gen_index(g.reduction(y, mode="mul_no_zeros", axes=-1), axis=2).set_output()
    conv, reduction, index = check_text(g.to_json())["nodes"]
    assert conv["parameters"] == {
        "pre_padding": [0, 1],
        "post_padding": [0, 1],
        "stride": [1, 1],
        "dilation": [1, 1],
        "conv_mode": "CONVOLUTION",
    }
    assert (reduction["mode"], reduction["is_deterministic"]) == ("mul_no_zeros", False)
    assert index["inputs"]["axis_tensor_uid"] == 2
    assert index["inputs"]["operation"] == "gen_index"


def test_optional_top_level_keys() -> None:
    g = relu()
    g.preferred_engine_id = -(2**62)
    g.is_override_shape_enabled = True
    data = json.loads(g.to_json())
    assert data["preferred_engine_id"] == -(2**62)
    assert data["is_override_shape_enabled"] is True
    again = Graph.from_json(g.to_json())
    assert again.preferred_engine_id == -(2**62)
    assert again.is_override_shape_enabled is True
    assert again.freeze() == g.freeze()


def test_tensor_settings_survive() -> None:
    g = relu()
    x, y = g.tensors
    x.set_dim((1,))
    x.alignment, x.runtime_scalar = 256, True
    y.ragged_offset_uid = 1
    data = json.loads(g.to_json())
    first, second = data["tensors"]
    assert (first["alignment"], first["is_runtime_pass_by_value"]) == (256, True)
    assert "ragged_offset_tensor_uid" not in first
    assert second["ragged_offset_tensor_uid"] == 1
    again = Graph.from_json(g.to_json()).freeze()
    assert again == g.freeze()
    assert dict(again.tensors) == dict(g.freeze().tensors)


@pytest.mark.parametrize(
    ("value", "data_type", "value_type", "written"),
    [
        (0.1, "float", "Float32Value", 0.10000000149011612),
        (1e-5, "float", "Float32Value", 9.999999747378752e-06),
        (-0.0, "float", "Float32Value", -0.0),
        (1, "float", "Float32Value", 1.0),
        (0.1, "half", "Float16Value", 0.0999755859375),
        (0.1, "bfloat16", "BFloat16Value", 0.10009765625),
        (0.1, "double", "Float64Value", 0.1),
        (7, "int32", "Int32Value", 7),
        (2**63 - 1, "int64", "Int64Value", 2**63 - 1),
        (-7, "int8", "Int64Value", -7),
        (200, "uint8", "Int64Value", 200),
        (-8, "int4", "Int64Value", -8),
        (True, "boolean", "BoolValue", True),
        (0.1, "fp8_e4m3", "Float32Value", 0.1015625),
        (0.1, "fp8_e5m2_fnuz", "Float32Value", 0.09375),
        (6, "fp4_e2m1", "Float32Value", 6.0),
        (0.25, "fp8_e8m0", "Float32Value", 0.25),
    ],
)
def test_scalars(value: Any, data_type: str, value_type: str, written: Any) -> None:
    g = Graph(io_data_type="float")
    g.identity(g.scalar(value, data_type=data_type, uid=1), compute_data_type="float").set_output()
    tensor = check_text(g.to_json())["tensors"][0]
    assert tensor["value_type"] == value_type
    assert tensor["value"] == written
    assert type(tensor["value"]) is type(written)
    assert math.copysign(1, tensor["value"]) == math.copysign(1, written)
    assert (tensor["dims"], tensor["strides"]) == ([1], [1])
    assert Graph.from_json(g.to_json()).freeze() == g.freeze()


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_json_cannot_hold_is_not_written(value: float) -> None:
    g = Graph(io_data_type="float")
    g.mul(g.tensor(dims=(2,)), g.scalar(value, data_type="float", name="s", uid=7)).set_output()
    with pytest.raises(FormatError) as caught:
        g.to_json()
    (problem,) = caught.value.problems
    assert (problem.rule, problem.port) == ("JSON-08", "'s' (uid 7)")
    assert problem.got == repr(value)


@pytest.mark.parametrize("mode", [m for m in PointwiseMode if m.wire], ids=repr)
def test_every_pointwise_mode(mode: PointwiseMode) -> None:
    g = Graph(io_data_type="float")
    operands = [g.tensor(dims=(2, 3)) for _ in range(mode.arity)]
    options: dict[str, Any] = {
        "axis" if name == "axis" else name: 1 if name == "axis" else 0.5
        for name in mode.attrs
        if name != "relu_lower_clip"
    }
    g.pointwise(*operands, mode=mode, **options).set_output()
    (node,) = check_text(g.to_json())["nodes"]
    assert node["inputs"]["operation"] == mode.json
    again = Graph.from_json(g.to_json()).freeze()
    assert again == g.freeze()
    assert again.nodes[0].op.mode is mode
    assert again.nodes[0].op.given_attributes() == options


def test_names_are_written_as_they_are(tmp_path: Path) -> None:
    g = Graph("größe 😀", io_data_type="float")
    g.relu(g.tensor(dims=(1,), name='\u2028"\\\n\x00'), name="名前").set_output()
    text = g.to_json()
    assert "größe 😀" in text
    assert "名前" in text
    path = tmp_path / "g.json"
    g.save(path)
    assert path.read_bytes() == text.encode() + b"\n"
    again = Graph.from_json(path.read_bytes())
    assert again.name == g.name
    assert again.tensors[0].name == g.tensors[0].name


def test_unused_tensors_and_dead_nodes_are_not_written() -> None:
    g = relu()
    g.exp(g.tensor(dims=(5,), name="unused"))
    g2 = relu()
    assert g.to_json() == g2.to_json()
