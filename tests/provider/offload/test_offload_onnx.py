# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX models through the pipeline: import, regions, results against onnx's own evaluator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipdnn_iree.graph_api.errors import FormatError
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.provider.offload import offload, outline
from hipdnn_iree.provider.offload.onnx_import import ImportedModel, import_onnx

onnx = pytest.importorskip("onnx")

from onnx import helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402
from onnx_models import attention_block, model, residual_network  # noqa: E402


def imported(made: Any, tmp_path: Path, **options: Any) -> ImportedModel:
    onnx.save(made, tmp_path / "model.onnx")
    return import_onnx(tmp_path / "model.onnx", settings(), **options)


def arguments(made: Any, found: ImportedModel, inputs: dict[str, Any]) -> list[Any]:
    weights = {one.name: onnx.numpy_helper.to_array(one) for one in made.graph.initializer}
    return [(inputs | weights)[name] for name in (*found.inputs, *found.weights)]


@pytest.mark.parametrize("make", [residual_network, attention_block])
def test_models_are_right(make: Callable[[], Any], tmp_path: Path) -> None:
    made = make()
    found = imported(made, tmp_path)
    dims = [d.dim_value for d in made.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(2).standard_normal(dims).astype(np.float32)
    module = offload(found.text)
    assert not module.remarks
    (y,) = module.executor().run(*arguments(made, found, {"x": x}))
    (expected,) = ReferenceEvaluator(made).run(None, {"x": x})
    assert np.allclose(y, expected, rtol=2e-4, atol=2e-4)


def test_regions_of_a_network(tmp_path: Path) -> None:
    found = outline(imported(residual_network(), tmp_path).text, whole_nodes=True)
    assert [region.nodes for region in found.regions] == [
        ("stem", "stem_bn", "b"),
        ("c",),
        ("first", "first_bn", "e"),
        ("second", "second_bn"),
        ("shortcut", "shortcut_bn", "h", "i"),
        ("j", "k"),
        ("y",),
    ]
    assert not found.declined


def test_attention_by_its_parts_is_one_region(tmp_path: Path) -> None:
    found = outline(imported(attention_block(), tmp_path).text)
    assert ("logits", "scaled", "p", "o1", "o2", "o3") in [r.nodes for r in found.regions]


def test_weights_are_arguments_and_shapes_are_not(tmp_path: Path) -> None:
    found = imported(attention_block(), tmp_path)
    assert found.inputs == ("x",)
    assert set(found.weights) == {"s", "t", "wq", "wk", "wv", "wo", "w1", "w2"}
    assert b"dense_resource" in found.text or b"dense<" in found.text
    assert len(found.text) < 20_000


@pytest.mark.parametrize(
    ("op", "x", "w", "y"),
    [("MatMul", (2, 3), (3, 4), (2, 4)), ("Conv", (1, 1, 8, 8), (1, 1, 3, 3), (1, 1, 6, 6))],
)
def test_one_node_ends_as_one_execute(op: str, x: Any, w: Any, y: Any, tmp_path: Path) -> None:
    """The function has memrefs, the last of them for the result, and returns nothing."""
    made = model([helper.make_node(op, ["x", "w"], ["y"], name="n")], {"x": x, "w": w}, {"y": y})
    text = offload(imported(made, tmp_path).text).shown()
    kinds = [f"memref<{'x'.join(map(str, dims))}xf32>" for dims in (x, w, y)]
    taken = ", ".join(f"%arg{k}: {kind}" for k, kind in enumerate(kinds))
    assert f"({taken}) " in text or f"({taken})\n" in text
    assert text.count("hipdnn.execute") == 1
    assert "memref.alloc" not in text


def test_external_data_is_not_read(tmp_path: Path) -> None:
    made = residual_network()
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    for path in tmp_path.iterdir():
        if path.name != "m.onnx":
            path.unlink()
    found = import_onnx(tmp_path / "m.onnx", settings())
    assert "dense_w" in found.weights


def test_asymmetric_pads_and_groups_are_honoured(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    w = rng.standard_normal((4, 2, 3, 3)).astype(np.float32)
    attributes = {"pads": [0, 1, 2, 1], "group": 2, "dilations": [1, 2], "strides": [2, 1]}
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="c", **attributes)
    x = rng.standard_normal((2, 4, 9, 11)).astype(np.float32)
    (expected,) = ReferenceEvaluator(
        made := model([node], {"x": x.shape}, {"y": (2, 4, 5, 9)}, {"w": w})
    ).run(None, {"x": x})
    found = imported(made, tmp_path)
    module = offload(found.text, engine="reference")
    assert not module.remarks
    (y,) = module.executor().run(*arguments(made, found, {"x": x}))
    assert np.allclose(y, expected, atol=1e-5)


def test_an_op_of_another_domain_stays_and_keeps_it(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("Odd", ["a"], ["b"], name="odd", domain="com.example"),
        helper.make_node("Relu", ["b"], ["y"], name="last"),
    ]
    made = model(nodes, {"x": (4,)}, {"y": (4,)}, domains=("com.example",))
    kind = onnx.TensorProto.FLOAT
    made.graph.value_info.append(helper.make_tensor_value_info("b", kind, [4]))
    found = outline(imported(made, tmp_path).text)
    assert [(one.op, one.location) for one in found.declined] == [
        ("onnx.com.example.Odd", "odd"),
    ]
    assert [region.nodes for region in found.regions] == [("first",), ("last",)]


def test_an_op_without_a_conversion_stays(tmp_path: Path) -> None:
    text = """func.func @main(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>
        attributes {torch.onnx_meta.opset_version = 17 : si64} {
      %0 = torch.operator "onnx.Nothing"(%x) :
        (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> loc("nothing")
      %1 = torch.operator "onnx.Relu"(%0) :
        (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> loc("relu")
      return %1 : !torch.vtensor<[4],f32>
    }"""
    found = outline(text)
    assert [(one.op, one.location) for one in found.declined] == [("onnx.Nothing", "nothing")]
    assert [region.nodes for region in found.regions] == [("relu",)]


def test_one_node(tmp_path: Path) -> None:
    found = imported(residual_network(), tmp_path, node="shortcut")
    assert found.inputs == ("c",)
    assert found.weights == ("shortcut_w", "shortcut_b")
    (region,) = outline(found.text).regions
    assert region.nodes == ("shortcut",)
    with pytest.raises(FormatError, match="ONNX-02") as caught:
        imported(residual_network(), tmp_path, node="shortcat")
    assert "did you mean shortcut" in str(caught.value)


def test_models_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(FormatError, match="ONNX-01"):
        import_onnx(tmp_path / "bad.onnx", settings())
    node = helper.make_node("Odd", ["x"], ["y"], name="odd", domain="com.example")
    made = model([node], {"x": (4,)}, {"y": (4,)}, domains=("com.example",))
    del made.opset_import[1]
    with pytest.raises(FormatError, match="ONNX-03"):
        imported(made, tmp_path)


def test_the_command(tmp_path: Path) -> None:
    import json

    from click.testing import CliRunner
    from hipdnn_iree.provider.cli import onnx_to_torch
    from hipdnn_iree.provider.cli.app import app

    path = str(tmp_path / "m.onnx")
    onnx.save(residual_network(), path)
    found = CliRunner().invoke(app, ["onnx-to-torch", path, "--json"])
    record = json.loads(found.stdout)
    assert set(record) == {"schema_version", "command", *onnx_to_torch.JSON}
    assert "torch.aten.convolution" in record["text"]
    plain = CliRunner().invoke(app, ["onnx-to-torch", path, "--no-convert", "--node", "stem"])
    assert 'torch.operator "onnx.Conv"' in plain.stdout
    assert "arguments: x, stem_w, stem_b" in plain.stderr
    words = ["opt", "-", "--convert-torch-onnx-to-torch", "--hipdnn-offload"]
    again = CliRunner().invoke(app, words, input=plain.stdout)
    assert again.exit_code == 0, again.stderr
    assert "hipdnn.graph" in again.stdout
    assert CliRunner().invoke(app, ["onnx-to-torch", f"{path}.none"]).exit_code == 2
