# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is not claimed says by which rule, and the rest of the graph is served all the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ep_models import model, node, session, values
from hipdnn_iree.provider.onnx.claims import RULES
from hipdnn_iree.provider.onnx.reports import listening, summary
from onnx import TensorProto, helper

X = {"x": (3, 4)}
Y = {"y": (3, 4)}


def conditional(*before: Any, read: str = "x") -> bytes:
    """Return a model with two bodies that read a value of the graph."""
    bodies = [
        helper.make_graph(
            [node(op, read, "b")], op, [], [helper.make_tensor_value_info("b", 1, [3, 4])]
        )
        for op in ("Relu", "Tanh")
    ]
    chosen = node("If", "c", "y", then_branch=bodies[0], else_branch=bodies[1])
    kinds = {"c": TensorProto.BOOL}
    outputs = {"z": (3, 4), **Y} if before else Y
    return model([*before, chosen], {"x": (3, 4), "c": ()}, outputs, kinds=kinds)


CASES: dict[str, tuple[bytes, dict[str, object]]] = {
    "EP-01": (model([node("EyeLike", "x", "y")], X, Y), {}),
    "EP-02": (
        model([node("Add", "x x", "y")], X, Y, kinds=dict.fromkeys("xy", TensorProto.UINT16)),
        {},
    ),
    "EP-03": (model([node("Relu", "x", "y")], {"x": (0, 4)}, {"y": (0, 4)}), {}),
    "EP-04": (conditional(), {}),
    "EP-05": (
        model(
            [node("BatchNormalization", "x s b m v", "y - -", training_mode=1)],
            {"x": (2, 4, 3)},
            {"y": (2, 4, 3)},
            dict.fromkeys("sbmv", values((4,))),
        ),
        {},
    ),
    "EP-06": (
        model(
            [node("ConvTranspose", "x w", "y", auto_pad="SAME_UPPER", strides=[2, 2])],
            {"x": (1, 1, 3, 3)},
            {"y": (1, 2, 6, 6)},
            {"w": values((1, 2, 3, 3))},
        ),
        {},
    ),
    "EP-07": (
        model(
            [node("Pad", "x pads", "y", mode="edge")],
            {"x": (1, 3, 4, 5), "pads": (8,)},
            {"y": (1, 3, 6, 6)},
            kinds={"pads": TensorProto.INT64},
        ),
        {},
    ),
    "EP-08": (model([node("Relu", "x", "y")], X, Y), {"min_nodes": 2}),
    "EP-09": (conditional(), {}),
    "EP-10": (
        model(
            [node("Conv", "x w", "y", pads=[1] * 4), node("Relu", "u", "v")],
            {"x": (1, 2, "n", 6), "u": (3, 4)},
            {"y": (1, 3, "n", 6), "v": (3, 4)},
            {"w": values((3, 2, 3, 3))},
        ),
        {},
    ),
}
ENTRIES = {"EP-10": {"ep__context_enable": "1"}}


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_told(rule: str, tmp_path: Any) -> None:
    source, options = CASES[rule]
    entries = ENTRIES.get(rule, {})
    if entries:
        entries = {**entries, "ep__context_file_path": str(tmp_path / "m_ctx.onnx")}
    with listening() as heard:
        session(source, options, whole=False, **entries)
    found = [d for one in heard for d in summary([one])["declined"]]
    assert rule in {d["rule"] for d in found}, found
    assert all(d["node"] and d["op"] and d["reason"] for d in found)


def test_the_rest_is_served() -> None:
    """Nodes around one that is declined: two groups, whose results are right."""
    from ep_models import agree

    nodes = [node("Relu", "x", "a"), node("EyeLike", "a", "e"), node("Add", "a e", "y")]
    with listening() as heard:
        agree(model(nodes, {"x": (4, 4)}, {"y": (4, 4)}), {"x": values((4, 4))}, whole=False)
    told = summary(heard[:1])
    assert told["assigned"] == 2
    assert told["nodes"] == 3
    assert [d["rule"] for d in told["declined"]] == ["EP-01"]


def test_what_bodies_alone_read_leaves_its_group() -> None:
    from ep_models import agree

    source = conditional(node("Neg", "x", "a"), node("Relu", "a", "z"), read="a")
    agree(source, {"x": values((3, 4)), "c": np.array(True)}, whole=False)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"min_node": 1}, "unknown option 'min_node'.*did you mean 'min_nodes'"),
        ({"min_nodes": "none"}, "option 'min_nodes'"),
        ({"target": "gfx1"}, "gfx1"),
        ({"target": "gfx942"}, "not that of the device"),
        ({"engine": "nobody"}, "nobody"),
        ({"device_id": 0}, "no device 'cpu' with device_id 0"),
        ({"device_id": -1}, "device_id"),
    ],
)
def test_a_wrong_option_fails_the_session(options: dict[str, Any], text: str) -> None:
    with pytest.raises(Exception, match=text):
        session(model([node("Relu", "x", "y")], X, Y), options)


def test_a_number_that_is_not_the_devices_fails_the_session() -> None:
    import onnxruntime as ort
    from hipdnn_iree.provider.onnx import register

    options = ort.SessionOptions()
    (device,) = [d for d in register() if d.ep_metadata["device"] == "cpu"]
    options.add_provider_for_devices([device], {"device_id": "1"})
    with pytest.raises(Exception, match="device_id 1 is not that of the session's device: none"):
        ort.InferenceSession(model([node("Relu", "x", "y")], X, Y), options, enable_fallback=0)


def test_code_that_has_to_be_at_hand(tmp_path: Any) -> None:
    source = model([node("Relu", "x", "y")], X, Y)
    options = {"cache_dir": tmp_path / "cache"}
    with pytest.raises(Exception, match="not precompiled"):
        session(source, {**options, "require_precompiled": True})
    session(source, options)
    found = session(source, {**options, "require_precompiled": True})
    x = values((3, 4))
    np.testing.assert_array_equal(found.run(None, {"x": x})[0], np.maximum(x, 0))
