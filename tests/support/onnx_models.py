# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small ONNX models, made here; nothing is downloaded."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["attention_block", "model", "residual_network"]


def model(
    nodes: list[Any],
    inputs: dict[str, tuple[int, ...]],
    outputs: dict[str, tuple[int, ...]],
    weights: dict[str, Any] | None = None,
    *,
    opset: int = 17,
    domains: tuple[str, ...] = (),
) -> Any:
    """Return a model of float32 inputs and outputs."""

    def infos(named: dict[str, tuple[int, ...]]) -> list[Any]:
        kind = TensorProto.FLOAT
        return [helper.make_tensor_value_info(n, kind, list(d)) for n, d in named.items()]

    constants = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "net", infos(inputs), infos(outputs), constants)
    versions = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    made = helper.make_model(graph, opset_imports=versions)
    made.ir_version = 8
    if not domains:
        onnx.checker.check_model(made)
    return made


def residual_network() -> Any:
    """A stem, a block with a shortcut of its own, pooling and a dense layer."""
    rng = np.random.default_rng(0)
    weights: dict[str, Any] = {}
    nodes: list[Any] = []

    def conv(x: str, y: str, channels: tuple[int, int], size: int, stride: int, name: str) -> None:
        k, c = channels[1], channels[0]
        w = rng.standard_normal((k, c, size, size)) / np.sqrt(c * size * size)
        weights[f"{name}_w"] = w.astype(np.float32)
        weights[f"{name}_b"] = rng.standard_normal(k).astype(np.float32)
        pads = [size // 2] * 4
        operands = [x, f"{name}_w", f"{name}_b"]
        made = {"strides": [stride] * 2, "pads": pads, "kernel_shape": [size] * 2}
        nodes.append(helper.make_node("Conv", operands, [f"{name}_y"], name=name, **made))
        names = [f"{name}_{part}" for part in ("scale", "shift", "mean", "var")]
        for part in names:
            weights[part] = rng.uniform(0.5, 2, k).astype(np.float32)
        operands = [f"{name}_y", *names]
        nodes.append(helper.make_node("BatchNormalization", operands, [y], name=f"{name}_bn"))

    def node(op: str, x: list[str], y: str, **attributes: Any) -> None:
        nodes.append(helper.make_node(op, x, [y], name=y, **attributes))

    conv("x", "a", (3, 16), 7, 2, "stem")
    node("Relu", ["a"], "b")
    node("MaxPool", ["b"], "c", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    conv("c", "d", (16, 32), 3, 2, "first")
    node("Relu", ["d"], "e")
    conv("e", "f", (32, 32), 3, 1, "second")
    conv("c", "g", (16, 32), 1, 2, "shortcut")
    node("Add", ["f", "g"], "h")
    node("Relu", ["h"], "i")
    node("GlobalAveragePool", ["i"], "j")
    node("Flatten", ["j"], "k", axis=1)
    weights["dense_w"] = rng.standard_normal((10, 32)).astype(np.float32)
    weights["dense_b"] = rng.standard_normal(10).astype(np.float32)
    node("Gemm", ["k", "dense_w", "dense_b"], "y", transB=1)
    return model(nodes, {"x": (1, 3, 64, 64)}, {"y": (1, 10)}, weights)


def attention_block() -> Any:
    """Attention by its parts, with norms, a residual and a dense layer with GELU by erf."""
    rng = np.random.default_rng(1)
    d, heads, length = 64, 4, 16
    f = np.float32
    weights: dict[str, Any] = {"s": np.ones(d, f), "t": np.zeros(d, f)}
    nodes: list[Any] = []

    def node(op: str, x: list[str], y: str, **attributes: Any) -> None:
        nodes.append(helper.make_node(op, x, [y], name=y, **attributes))

    def dense(x: str, y: str, name: str, dims: tuple[int, int] = (d, d)) -> None:
        weights[name] = (rng.standard_normal(dims) / 8).astype(f)
        node("MatMul", [x, name], y)

    weights["split"] = np.array([1, length, heads, d // heads], np.int64)
    weights["join"] = np.array([1, length, d], np.int64)
    weights |= {"scale": np.array(0.25, f), "one": np.array(1, f), "half": np.array(0.5, f)}
    weights["root"] = np.array(np.sqrt(2), f)
    node("LayerNormalization", ["x", "s", "t"], "n", axis=-1, epsilon=1e-5)
    for one, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        dense("n", f"{one}1", f"w{one}")
        node("Reshape", [f"{one}1", "split"], f"{one}2")
        node("Transpose", [f"{one}2"], one, perm=order)
    node("MatMul", ["q", "k"], "logits")
    node("Mul", ["logits", "scale"], "scaled")
    node("Softmax", ["scaled"], "p", axis=-1)
    node("MatMul", ["p", "v"], "o1")
    node("Transpose", ["o1"], "o2", perm=[0, 2, 1, 3])
    node("Reshape", ["o2", "join"], "o3")
    dense("o3", "o4", "wo")
    node("Add", ["o4", "x"], "r")
    node("LayerNormalization", ["r", "s", "t"], "m", axis=-1)
    dense("m", "h1", "w1", (d, 2 * d))
    node("Div", ["h1", "root"], "h2")
    node("Erf", ["h2"], "h3")
    node("Add", ["h3", "one"], "h4")
    node("Mul", ["h1", "h4"], "h5")
    node("Mul", ["h5", "half"], "h6")
    dense("h6", "h7", "w2", (2 * d, d))
    node("Add", ["h7", "r"], "y")
    return model(nodes, {"x": (1, length, d)}, {"y": (1, length, d)}, weights)
