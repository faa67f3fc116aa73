# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cases that the C++ provider is tested with, by their names there; every node is on ours.

Expected values are computed here in float64, where the C++ tests compare with another run or
with a reference of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ep_models import agree, model, node, session, values
from hipdnn_iree.provider.onnx import DEFAULT_NAME, register

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
MS = "com.microsoft"
_HALF = np.array(0.5, np.float32).reshape(1)


def test_register_ep_library_and_get_ep_devices() -> None:
    found = register()
    assert {d.ep_name for d in found} == {DEFAULT_NAME}
    assert {d.ep_vendor for d in found} == {"AMD"}
    assert "cpu" in {d.ep_metadata["device"] for d in found}
    assert len(register()) == len(found)


def ones(shape: Any) -> Array:
    return np.ones(shape, np.float32)


def convolved(x: Array, w: Array, pad: int) -> Array:
    wide = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    rows = np.lib.stride_tricks.sliding_window_view(wide, w.shape[2:], (2, 3))
    return np.einsum("nchwij,kcij->nkhw", rows, w.astype(np.float64))


def dense(v: Arrays, alpha: float = 1, beta: float = 1, flip: str = "") -> Array:
    a, b = (v[n].astype(np.float64) for n in "ab")
    a, b = (a.T if "a" in flip else a), (b.T if "b" in flip else b)
    return np.asarray(alpha * (a @ b) + beta * v.get("c", 0.0))


X, W = (1, 1, 8, 8), values((1, 1, 3, 3), 1)
A, B, C = values((64, 128)), values((128, 32), 1), values((64, 32), 2)
P, Q = values((1, 4, 8, 8)), values((1, 4, 8, 8), 1) + 4
_PAD = {"pads": [1, 1, 1, 1]}

Case = tuple[str, Arrays, Arrays, dict[str, Any], Callable[[Arrays], Array]]
"""Op, inputs, initializers, attributes, and what is expected of all arrays."""

CASES: dict[str, Case] = {
    "BasicConv2D": ("Conv", {"x": values(X)}, {"w": W}, _PAD, lambda v: convolved(v["x"], W, 1)),
    "ConvWithBias": (
        *("Conv", {"x": values(X)}, {"w": W, "b": _HALF}, _PAD),
        lambda v: convolved(v["x"], W, 1) + 0.5,
    ),
    "ReferenceConvCorrectness": (
        *("Conv", {"x": ones(X), "w": ones((1, 1, 3, 3))}, {}, _PAD),
        lambda v: convolved(v["x"], v["w"], 1),
    ),
    "ReferenceMatMulCorrectness": (
        *("MatMul", {"a": values((2, 3)), "b": values((3, 2), 1)}, {}, {}),
        dense,
    ),
    "BasicMatMul": ("MatMul", {"a": A, "b": B}, {}, {}, dense),
    "BasicGemm": ("Gemm", {"a": A, "b": B}, {}, {}, dense),
    "GemmWithBias": ("Gemm", {"a": A, "b": B, "c": C}, {}, {}, dense),
    "GemmWithTransposeA": (
        *("Gemm", {"a": A.T.copy(), "b": B}, {}, {"transA": 1}),
        lambda v: dense(v, flip="a"),
    ),
    "GemmWithTransposeB": (
        *("Gemm", {"a": A, "b": B.T.copy()}, {}, {"transB": 1}),
        lambda v: dense(v, flip="b"),
    ),
    "GemmWithScaling": (
        *("Gemm", {"a": A, "b": B, "c": C}, {}, {"alpha": 0.5, "beta": 0.25}),
        lambda v: dense(v, 0.5, 0.25),
    ),
    "GemmWithScalarBias": ("Gemm", {"a": A, "b": B}, {"c": _HALF}, {}, dense),
    **{
        f"{op}{kind}": (op, {"a": P, "b": b}, {}, {}, lambda v, f=f: f(v["a"], v["b"]))
        for op, f in (
            *(("Mul", np.multiply), ("Sub", np.subtract)),
            *(("Add", np.add), ("Div", np.divide)),
        )
        for kind, b in (("", Q), ("Scalar", Q[0, 0, 0, :1]))
    },
    "Sigmoid": (
        *("Sigmoid", {"x": np.linspace(-3, 3.4, 256, dtype=np.float32).reshape(P.shape)}, {}, {}),
        lambda v: 1 / (1 + np.exp(-v["x"].astype(np.float64))),
    ),
    **{
        f"RmsNorm{name}": (
            "SimplifiedLayerNormalization",
            {"x": values(dims), "s": values(dims[axis:], 1)},
            {},
            {"axis": axis, "epsilon": 1e-5, "stash_type": 1},
            lambda v, axis=axis: rms(v["x"], v["s"], axis),
        )
        for name, dims, axis in (
            *(("Basic", (1, 4, 8, 8), -1), ("Rank2", (8, 64), -1)),
            ("Axis1", (2, 4, 8, 8), 1),
        )
    },
}


def rms(x: Array, scale: Array, axis: int) -> Array:
    axes = tuple(range(axis % x.ndim, x.ndim))
    wide = x.astype(np.float64)
    return np.asarray(
        wide / np.sqrt((wide**2).mean(axes, keepdims=True) + 1e-5) * scale.astype(np.float64)
    )


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    op, given, weights, attributes, expected = CASES[name]
    wanted = expected({**given, **weights})
    nodes = [node(op, " ".join((*given, *weights)), "y", **attributes)]
    shapes = {n: a.shape for n, a in given.items()}
    source = model(nodes, shapes, {"y": wanted.shape}, weights)
    (y,) = session(source).run(None, given)
    bound = 1e-4 * max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=bound)


@pytest.mark.parametrize(
    ("keys", "more"),
    [
        pytest.param(16, {}, id="BasicSdpa"),
        pytest.param(16, {"unidirectional": 1}, id="CausalSdpa"),
        pytest.param(32, {}, id="CrossAttentionSdpa"),
    ],
)
def test_multi_head_attention(keys: int, more: dict[str, Any]) -> None:
    given = {"q": values((2, 16, 256)), "k": values((2, keys, 256), 1)}
    given["v"] = values((2, keys, 256), 2)
    nodes = [node("MultiHeadAttention", "q k v", "y", domain=MS, num_heads=4, **more)]
    shapes = {n: a.shape for n, a in given.items()}
    agree(model(nodes, shapes, {"y": (2, 16, 256)}), given, bound=1e-3)


def test_grouped_query_attention_mha_baseline() -> None:
    given = {n: values((2, 16, 64), k) for k, n in enumerate("qkv")}
    weights = {"n": np.full(2, 15, np.int32), "t": np.array(16, np.int32)}
    shapes = {n: a.shape for n, a in given.items()}
    outputs = {"y": (2, 16, 64), "nk": (2, 8, 16, 8), "nv": (2, 8, 16, 8)}
    nodes = [
        node(
            *("GroupQueryAttention", "q k v - - n t", "y nk nv"),
            **{"domain": MS, "num_heads": 8, "kv_num_heads": 8},
        )
    ]
    agree(model(nodes, shapes, outputs, weights), given, bound=1e-3)


def test_rotary_embedding_basic_rope() -> None:
    from onnx import TensorProto

    at = np.tile(np.arange(16, dtype=np.int64), (2, 1))
    given = {"x": values((2, 4, 16, 64)), "at": at}
    weights = {"cos": values((16, 32), 1), "sin": values((16, 32), 2)}
    nodes = [node("RotaryEmbedding", "x at cos sin", "y", domain=MS)]
    shapes = {n: a.shape for n, a in given.items()}
    kinds = {"at": TensorProto.INT64}
    agree(model(nodes, shapes, {"y": (2, 4, 16, 64)}, weights, kinds=kinds), given)
