# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of a few nodes: what the C++ provider tests, and what it gets wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ep_models import agree, assigned, model, node, recorded, values


def conv(
    weight: tuple[int, ...], *, bias: Any = None, x: Any = (1, 1, 8, 8), **attributes: Any
) -> tuple[bytes, dict[str, Any]]:
    import onnx

    weights = {"w": values(weight, 1), **({} if bias is None else {"b": bias})}
    nodes = [node("Conv", "x w" + ("" if bias is None else " b"), "y", **attributes)]
    rank = len(weight) - 2
    made = model(nodes, {"x": x}, {"y": [None] * (rank + 2)}, weights)
    inferred = onnx.shape_inference.infer_shapes(onnx.load_from_string(made))
    return inferred.SerializeToString(), {"x": values(x)}


@pytest.mark.parametrize(
    ("weight", "more"),
    [
        ((2, 1, 3, 3), {"pads": [0, 1, 2, 1], "bias": values((2,), 3)}),
        ((2, 1, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ((2, 1, 3, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
        ((2, 1, 3, 3), {"auto_pad": "VALID", "dilations": [2, 2]}),
        ((4, 2, 3, 3), {"x": (2, 4, 6, 7), "group": 2, "pads": [1, 1, 1, 1]}),
        ((4, 1, 3, 3), {"x": (1, 4, 6, 7), "group": 4}),
        ((3, 2, 3), {"x": (2, 2, 9), "pads": [1, 0]}),
        ((3, 2, 3, 3, 2), {"x": (1, 2, 5, 5, 4), "pads": [1, 0, 1, 0, 1, 0]}),
    ],
)
def test_convolutions(weight: tuple[int, ...], more: dict[str, Any]) -> None:
    source, feed = conv(weight, **more)
    agree(source, feed)


@pytest.mark.parametrize(
    ("a", "b", "c", "attributes"),
    [
        ((16, 8), (4, 16), (4,), {"transA": 1, "transB": 1, "beta": 2.0}),
        ((8, 16), (16, 4), (8, 1), {"alpha": 0.5}),
        ((1, 7), (7, 5), (1,), {}),
    ],
)
def test_gemm(a: Any, b: Any, c: Any, attributes: dict[str, Any]) -> None:
    m = a[1] if attributes.get("transA") else a[0]
    n = b[0] if attributes.get("transB") else b[1]
    given = {"a": a, "b": b, **({} if c is None else {"c": c})}
    source = model([node("Gemm", " ".join(given), "y", **attributes)], given, {"y": (m, n)})
    agree(source, {name: values(shape, k) for k, (name, shape) in enumerate(given.items())})


def test_matmuls_of_batches() -> None:
    source = model(
        [node("MatMul", "a b", "y")], {"a": (2, 3, 4, 5), "b": (3, 5, 6)}, {"y": (2, 3, 4, 6)}
    )
    agree(source, {"a": values((2, 3, 4, 5)), "b": values((3, 5, 6), 1)})


@pytest.mark.parametrize("op", ["Mul", "Sub", "Add", "Div"])
def test_pointwise_with_broadcasts(op: str) -> None:
    shape = (4, 1, 1)
    source = model([node(op, "a b", "y")], {"a": (1, 4, 8, 8), "b": shape}, {"y": (1, 4, 8, 8)})
    agree(source, {"a": values((1, 4, 8, 8)), "b": values(shape, 1) + 3}, bound=1e-3)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float64])
def test_pointwise_of_other_types(kind: Any) -> None:
    from onnx import helper

    code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    kinds = dict.fromkeys("aby", code)
    source = model([node("Add", "a b", "y")], {"a": (3, 4), "b": (4,)}, {"y": (3, 4)}, kinds=kinds)
    agree(source, {"a": np.arange(12).reshape(3, 4).astype(kind), "b": np.arange(4).astype(kind)})


def test_what_is_fused_is_one_graph() -> None:
    """A convolution, its bias and activation, and one more that reads the same input."""
    nodes = [
        node("Conv", "x w b", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("Add", "r x", "y"),
    ]
    weights = {"w": values((4, 4, 3, 3), 1), "b": values((4,), 2)}
    source = model(nodes, {"x": (1, 4, 8, 8)}, {"y": (1, 4, 8, 8)}, weights)
    found = agree(source, {"x": values((1, 4, 8, 8))})
    if recorded():
        (group,) = assigned(found)
        assert len(group) >= 2


def test_a_node_in_the_middle_that_is_not_ours() -> None:
    """The path around it is respected: no group needs its own result."""
    nodes = [
        node("Relu", "x", "a"),
        node("NonZero", "a", "z"),
        node("Cast", "z", "f", to=1),
        node("ReduceSum", "f", "s", keepdims=0),
        node("Mul", "a s", "y"),
    ]
    source = model(nodes, {"x": (3, 4)}, {"y": (3, 4)})
    found = agree(source, {"x": values((3, 4))}, whole=False)
    if recorded():
        groups = assigned(found)
        assert not any({"Relu_a", "Mul_y"} <= group for group in groups)
        assert any("Relu_a" in group for group in groups)


@pytest.mark.parametrize("axis", [-1, 1, 0])
def test_rms_normalisation(axis: int) -> None:
    shape = (2, 4, 8, 8)
    scale = values(shape[axis:] if axis >= 0 else shape[-1:], 1)
    nodes = [node("SimplifiedLayerNormalization", "x s", "y", axis=axis, epsilon=1e-5)]
    source = model(nodes, {"x": shape}, {"y": shape}, {"s": scale})
    agree(source, {"x": values(shape)}, whole=False)


def test_layer_normalisation_and_softmax() -> None:
    nodes = [node("LayerNormalization", "x s b", "n", axis=-1), node("Softmax", "n", "y", axis=-1)]
    weights = {"s": values((16,), 1), "b": values((16,), 2)}
    agree(model(nodes, {"x": (4, 16)}, {"y": (4, 16)}, weights), {"x": values((4, 16))})


def test_glue_between_matmuls() -> None:
    nodes = [
        node("MatMul", "x w", "m"),
        node("Reshape", "m shape", "r"),
        node("Transpose", "r", "t", perm=[0, 2, 1, 3]),
        node("Slice", "t starts ends", "s"),
        node("Concat", "s s", "y", axis=1),
    ]
    weights = {
        "w": values((8, 12), 1),
        "shape": np.array([2, 5, 3, 4], np.int64),
        "starts": np.array([0, 1], np.int64),
        "ends": np.array([2, 3], np.int64),
    }
    source = model(nodes, {"x": (2, 5, 8)}, {"y": (2, 4, 5, 4)}, weights)
    agree(source, {"x": values((2, 5, 8))})


@pytest.mark.parametrize("buckets", ["", "2,5"])
def test_dims_known_at_execution(buckets: str, caplog: pytest.LogCaptureFixture) -> None:
    """One session, several sizes, by one code, or by that of the buckets."""
    nodes = [node("MatMul", "x w", "m"), node("Softmax", "m", "y")]
    cols = 11 + bool(buckets)  # each is compiled here first
    source = model(nodes, {"x": ("batch", 9)}, {"y": ("batch", cols)}, {"w": values((9, cols), 1)})
    from ep_models import on_cpu, session
    from hipdnn_iree.provider.onnx.reports import listening, summary

    caplog.set_level("INFO", "hipdnn_iree.pipeline")
    with listening() as heard:
        found = session(source, {"buckets": buckets} if buckets else None)
    codes = {group["code"] for group in summary(heard)["groups"]}
    assert codes == {"buckets" if buckets else "all sizes"}
    ahead = len(caplog.messages)
    for size in (1, 3, 2, 3, 5):
        feed = {"x": values((size, 9), size)}
        np.testing.assert_allclose(
            found.run(None, feed)[0], on_cpu(source, feed)[0], rtol=1e-4, atol=1e-4
        )
    later = [text for text in caplog.messages[ahead:] if text.startswith("compiling")]
    assert len(later) == bool(buckets)  # the bucket of 5; that of 2 is made with the session


def test_a_result_that_is_an_input_or_given_twice() -> None:
    nodes = [node("Identity", "x", "y"), node("Relu", "x", "r"), node("Identity", "r", "z")]
    source = model(nodes, {"x": (3, 4)}, {"y": (3, 4), "r": (3, 4), "z": (3, 4)})
    agree(source, {"x": values((3, 4))})


def test_scalars() -> None:
    source = model(
        [node("ReduceSum", "x", "s", keepdims=0), node("Sqrt", "s", "y")], {"x": (3, 4)}, {"y": ()}
    )
    agree(source, {"x": np.abs(values((3, 4)))}, whole=recorded())


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_half_types(name: str) -> None:
    from onnx import TensorProto

    kind = {"f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}[name]
    kinds = dict.fromkeys(("a", "b"), kind)
    nodes = [
        node("Cast", "x", "a", to=kind),
        node("Mul", "a a", "b"),
        node("Cast", "b", "y", to=1),
    ]
    source = model(nodes, {"x": (4, 8)}, {"y": (4, 8)}, kinds=kinds)
    from ep_models import session

    x = values((4, 8))
    np.testing.assert_allclose(session(source).run(None, {"x": x})[0], x * x, rtol=3e-2)


def external(folder: Path, location: str = "m.data") -> Path:
    """Write a model with two weights in a file beside it, the second one not aligned."""
    import onnx

    weights = {"w": values((8, 5), 1), "v": values((5, 3), 2)}
    nodes = [node("MatMul", "x w", "m"), node("MatMul", "m v", "y")]
    made = onnx.load_from_string(model(nodes, {"x": (4, 8)}, {"y": (4, 3)}, weights))
    with open(folder / location, "wb") as file:
        file.write(b"skip")
        for tensor in made.graph.initializer:
            about = {"location": location, "offset": file.tell(), "length": len(tensor.raw_data)}
            file.write(tensor.raw_data)
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            for key, value in about.items():
                tensor.external_data.add(key=key, value=str(value))
    path = folder / "m.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def test_weights_in_a_file_are_read_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime is not asked for them, as it would keep them; nor where there is no folder."""
    from hipdnn_iree.provider.onnx import ort_graph

    path = external(tmp_path)
    read = []
    whole = ort_graph.FileBytes.read_into
    monkeypatch.setattr(
        ort_graph.FileBytes, "read_into", lambda own, to: (read.append(own), whole(own, to))[1]
    )
    agree(str(path), {"x": values((4, 8))})
    assert [(one.offset, one.nbytes) for one in read] == [(164, 60), (4, 160)]
    monkeypatch.chdir(tmp_path)
    agree("m.onnx", {"x": values((4, 8))})
    assert len(read) == 4


def test_a_file_of_weights_that_is_cut(tmp_path: Path) -> None:
    path = external(tmp_path)
    data = tmp_path / "m.data"
    data.write_bytes(data.read_bytes()[:-8])
    from ep_models import session

    with pytest.raises(Exception, match=r"m\.data|external"):
        session(str(path))
