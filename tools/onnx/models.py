# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Example models in ONNX, made here: nothing is downloaded, and weights are random.

::

    python -m tools.onnx.models models
    hipdnn-iree onnx models/resnet.onnx --verify --report resnet.html

``resnet``: an 18-layer residual network for pictures of 224 x 224.  ``transformer``: a block with
grouped-query attention, rotary embedding, RMS normalisation and a gated feed-forward part.
``quantised``: a perceptron with integer weights (QDQ).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import onnx
from onnx import TensorProto, helper, numpy_helper


class Builder:
    """Nodes and weights of a model."""

    def __init__(self, seed: int = 0) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.random = np.random.default_rng(seed)

    def node(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **more: Any) -> Any:
        """Add a node and return the name of its result, or the names."""
        name = f"{op}_{len(self.nodes)}"
        made = [name if k == 0 else f"{name}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, made, name=name, domain=domain, **more))
        return made[0] if outputs == 1 else made

    def constant(self, array: Any) -> str:
        """Add an initializer and return its name."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *dims: int, fan: int = 0) -> str:
        """Add random weights."""
        scale = np.sqrt(2 / (fan or np.prod(dims[1:])))
        return self.constant((self.random.standard_normal(dims) * scale).astype(np.float32))

    def model(self, inputs: dict[str, list[Any]], outputs: dict[str, list[Any]]) -> Any:
        """Return the model; all inputs and outputs are float32."""
        infos = [
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in side.items()]
            for side in (inputs, outputs)
        ]
        graph = helper.make_graph(self.nodes, "model", *infos, self.weights)
        domains = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=domains, ir_version=9)


def resnet(
    size: int = 224, classes: int = 1000, widths: tuple[int, ...] = (64, 128, 256, 512)
) -> Any:
    """Return an 18-layer residual network."""
    b = Builder()

    def conv(x: str, inputs: int, outputs: int, kernel: int, stride: int) -> str:
        y = b.node(
            "Conv",
            x,
            b.weight(outputs, inputs, kernel, kernel),
            strides=[stride] * 2,
            pads=[kernel // 2] * 4,
            kernel_shape=[kernel] * 2,
        )
        ones, zeros = np.ones(outputs, np.float32), np.zeros(outputs, np.float32)
        parameters = [b.constant(a) for a in (ones, zeros + 0.1, zeros + 0.01, ones)]
        return str(b.node("BatchNormalization", y, *parameters))

    x = b.node("Relu", conv("x", 3, widths[0], 7, 2))
    x = b.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    before = widths[0]
    for stage, width in enumerate(widths):
        for block in range(2):
            stride = 2 if stage and not block else 1
            y = b.node("Relu", conv(x, before, width, 3, stride))
            y = conv(y, width, width, 3, 1)
            short = x if before == width else conv(x, before, width, 1, stride)
            x = b.node("Relu", b.node("Add", y, short))
            before = width
    x = b.node("Flatten", b.node("GlobalAveragePool", x))
    b.nodes.append(
        helper.make_node(
            "Gemm",
            [x, b.weight(classes, before), b.constant(np.zeros(classes, np.float32))],
            ["y"],
            name="Gemm_y",
            transB=1,
        )
    )
    return b.model({"x": [1, 3, size, size]}, {"y": [1, classes]})


def transformer(length: int = 64, size: int = 256, heads: int = 8, groups: int = 2) -> Any:
    """Return a transformer block."""
    b, each = Builder(), size // heads

    def norm(x: str) -> str:
        scale = b.constant(np.ones(size, np.float32))
        return str(
            b.node("SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=1e-5, stash_type=1)
        )

    def linear(x: str, inputs: int, outputs: int) -> str:
        return str(b.node("MatMul", x, b.weight(inputs, outputs, fan=inputs)))

    angles = np.outer(np.arange(length), 1e4 ** (-np.arange(0, each, 2) / each))
    h = norm("x")
    attention, _, _ = b.node(
        "GroupQueryAttention",
        linear(h, size, size),
        linear(h, size, groups * each),
        linear(h, size, groups * each),
        "",
        "",
        b.constant(np.array([length - 1], np.int32)),
        b.constant(np.array(length, np.int32)),
        b.constant(np.cos(angles).astype(np.float32)),
        b.constant(np.sin(angles).astype(np.float32)),
        outputs=3,
        domain="com.microsoft",
        num_heads=heads,
        kv_num_heads=groups,
        do_rotary=1,
    )
    x = b.node("Add", "x", linear(attention, size, size))
    h = norm(x)
    gate = linear(h, size, 4 * size)
    gated = b.node("Mul", b.node("Mul", gate, b.node("Sigmoid", gate)), linear(h, size, 4 * size))
    b.nodes.append(helper.make_node("Add", [x, linear(gated, 4 * size, size)], ["y"], name="Add_y"))
    return b.model({"x": [1, length, size]}, {"y": [1, length, size]})


def quantised(batch: int = 8, size: int = 256) -> Any:
    """Return a perceptron with integer weights and activations."""
    b = Builder()
    zero = b.constant(np.array(0, np.int8))

    def rounded(x: str, scale: str) -> str:
        return str(
            b.node("DequantizeLinear", b.node("QuantizeLinear", x, scale, zero), scale, zero)
        )

    x = "x"
    for layer in range(3):
        scale = b.constant(np.array(0.02, np.float32))
        whole = b.random.integers(-127, 128, (size, size)).astype(np.int8)
        factor = b.constant(np.array(0.001, np.float32))
        weight = b.node("DequantizeLinear", b.constant(whole), factor, zero)
        x = b.node("MatMul", rounded(x, scale), weight)
        x = b.node("Add", x, b.constant(np.full(size, 0.01, np.float32)))
        if layer < 2:
            x = b.node("Relu", x)
    b.nodes.append(helper.make_node("Identity", [x], ["y"], name="Identity_y"))
    return b.model({"x": [batch, size]}, {"y": [batch, size]})


MODELS: dict[str, Callable[[], Any]] = {
    "resnet": resnet,
    "transformer": transformer,
    "quantised": quantised,
}


def main() -> None:
    """Write the models into a folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("models"))
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in MODELS.items():
        made = make()
        onnx.checker.check_model(made) if name != "transformer" else None
        onnx.save(made, str(folder / f"{name}.onnx"))
        print(folder / f"{name}.onnx")


if __name__ == "__main__":
    main()
