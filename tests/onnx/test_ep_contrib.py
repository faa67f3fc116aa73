# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX Runtime's own ops, against its CPU provider; every node is on ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from covering import covering
from ep_models import agree, model, node, on_cpu, session, values
from onnx import TensorProto, helper

MS = "com.microsoft"
Given = dict[str, Any]


def check(
    op: str,
    given: Given,
    outputs: dict[str, Any],
    *,
    weights: Given | None = None,
    bound: float = 1e-4,
    domain: str = MS,
    order: str = "",
    **attributes: Any,
) -> None:
    """Run one node; inputs are in order of ``order``, or of ``given`` and then ``weights``."""
    constants = weights or {}
    kinds = {n: kind(a) for n, a in {**given, **constants}.items()}
    kinds |= dict.fromkeys(outputs, kind(next(iter(given.values()))))
    inputs = order or " ".join((*given, *constants))
    nodes = [node(op, inputs, " ".join(outputs), domain=domain, **attributes)]
    source = model(
        nodes, {n: a.shape for n, a in given.items()}, outputs, constants, opset=21, kinds=kinds
    )
    agree(source, given, bound=bound)


def kind(array: Any) -> int:
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def int32(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


# ------------------------------------------------------------------------ norms


@pytest.mark.parametrize("dims", [(2, 3, 8), (1, 1, 7), (5, 16)])
def test_simplified_layer_normalization(dims: Any) -> None:
    given = {"x": values(dims), "s": values(dims[-1:], 1)}
    more = {"axis": -1, "epsilon": 1e-5}
    check("SimplifiedLayerNormalization", given, {"y": dims}, domain="", **more)


@pytest.mark.parametrize(
    ("op", "rest", "dims"),
    covering(
        ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"],
        ["", "b", "sum", "b sum"],
        [(2, 3, 8), (1, 5, 7)],
    ),
)
def test_skip_normalization(op: str, rest: str, dims: Any) -> None:
    size = dims[-1:]
    given = {"x": values(dims), "skip": values(dims, 1)}
    weights = {"s": values(size, 2)}
    order = "x skip s"
    if op == "SkipLayerNormalization":
        weights["t"] = values(size, 3)
        order += " t"
    if "b" in rest.split():
        weights["b"] = values(size, 4)
        order += " b"
    outputs: dict[str, Any] = {"y": dims}
    if "sum" in rest:
        names = {"y": dims, "sum": dims}
        source = model(
            [node(op, order, "y - - sum", domain=MS, epsilon=1e-5)],
            {n: a.shape for n, a in given.items()},
            names,
            weights,
        )
        agree(source, given)
        return
    check(op, given, outputs, weights=weights, order=order, epsilon=1e-5)


# ------------------------------------------------------------------------ rotary


@pytest.mark.parametrize(
    ("interleaved", "positions", "shape"),
    covering(
        [0, 1], [(2, 5), (1,)], [((2, 5, 24), 3, 0), ((2, 3, 5, 8), 0, 0), ((2, 5, 24), 3, 4)]
    ),
)
def test_rotary_embedding(interleaved: int, positions: Any, shape: Any) -> None:
    dims, heads, rotated = shape
    half = (rotated or 8) // 2
    rng = np.random.default_rng(5)
    at = rng.integers(0, 6, positions).astype(np.int64)
    given = {"x": values(dims), "at": at}
    angles = {"cos": values((11, half), 1), "sin": values((11, half), 2)}
    check(
        "RotaryEmbedding",
        given,
        {"y": dims},
        weights=angles,
        interleaved=interleaved,
        num_heads=heads,
        rotary_embedding_dim=rotated,
    )


# ------------------------------------------------------------------------ attention


@pytest.mark.parametrize(
    ("batch", "heads", "length", "keys", "size", "parts"),
    [
        (2, 4, 5, 5, 8, ""),
        (1, 3, 7, 2, 4, ""),
        (2, 2, 5, 5, 4, "bias"),
        (2, 2, 5, 3, 4, "lengths"),
        (2, 2, 5, 3, 4, "mask"),
        (2, 2, 5, 3, 4, "scores"),
        (2, 2, 3, 3, 4, "past"),
        (2, 2, 3, 3, 4, "past bias causal"),
        (2, 2, 5, 5, 4, "causal"),
        (1, 2, 3, 4, 8, "scores mask scale"),
    ],
)
def test_multi_head_attention(
    batch: int, heads: int, length: int, keys: int, size: int, parts: str
) -> None:
    chosen, d = parts.split(), heads * size
    given: Given = {
        "q": values((batch, length, d)),
        "k": values((batch, keys, d), 1),
        "v": values((batch, keys, d), 2),
    }
    places = ["q", "k", "v", "-", "-", "-", "-", "-"]
    old = 4 if "past" in chosen else 0

    def add(place: int, name: str, array: Any) -> None:
        given[name], places[place] = array, name

    if "bias" in chosen:
        add(3, "b", values((3 * d,), 3))
    if "lengths" in chosen:
        add(4, "m", np.resize(int32(1, keys), batch))
    if "mask" in chosen:
        add(4, "m", np.random.default_rng(3).integers(0, 2, (batch, keys)).astype(np.int32))
    if "scores" in chosen:
        add(5, "a", values((1, heads, length, keys), 4))
    outputs = {"y": (batch, length, d)}
    if old:
        add(6, "pk", values((batch, heads, old, size), 5))
        add(7, "pv", values((batch, heads, old, size), 6))
        outputs |= dict.fromkeys(("nk", "nv"), (batch, heads, old + keys, size))
    while places[-1] == "-":
        places.pop()
    check(
        "MultiHeadAttention",
        given,
        outputs,
        order=" ".join(places),
        num_heads=heads,
        **({"unidirectional": 1} if "causal" in chosen else {}),
        **({"scale": 0.3} if "scale" in chosen else {}),
    )


GROUPED = [
    # batch, heads, groups, queries, past, keys that rows have, parts
    (1, 4, 2, 5, 0, (5,), ""),
    (2, 4, 4, 5, 0, (5, 5), "rotary"),
    (1, 4, 1, 1, 6, (7,), ""),
    (2, 4, 2, 1, 6, (7, 4), "rotary"),
    (1, 2, 1, 3, 4, (7,), "rotary interleaved"),
    (1, 4, 2, 1, 6, (7,), "packed rotary"),
    (1, 4, 2, 5, 0, (5,), "packed"),
    (1, 4, 2, 5, 0, (5,), "window"),
    (1, 4, 2, 1, 6, (7,), "window cap"),
    (1, 4, 2, 5, 0, (5,), "smooth"),
    (1, 2, 2, 3, 4, (7,), "cap scale"),
    (2, 4, 2, 1, 6, (7, 4), "bias"),
    (2, 4, 2, 1, 6, (7, 4), "sink rotary"),
    (2, 4, 2, 3, 0, (3, 3), "positions rotary"),
    (2, 4, 2, 3, 3, (3, 3), "positions rotary"),
    (1, 4, 1, 3, 4, (7,), "positions rotary bias sink cap window"),
]


@pytest.mark.parametrize("case", GROUPED, ids=str)
def test_grouped_query_attention(case: Any) -> None:
    if "window" in case[-1] and ort.__version__ < "1.24":
        pytest.skip("the CPU provider's windows were one key larger")
    source, given = grouped(*case)
    found = session(source).run(None, given)
    wanted = on_cpu(source, given)
    for got, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-4)


def grouped(
    batch: int, heads: int, groups: int, length: int, old: int, kept: Any, parts: str
) -> tuple[bytes, Given]:
    """Return one node with all its lengths known at execution, and inputs."""
    chosen, size = parts.split(), 16  # rotation on the CPU wants a multiple of 16
    d, e = heads * size, groups * size
    places = ["q", "k", "v", "-", "-", "n", "t", *["-"] * 5]
    given: Given = {"q": values((batch, length, d)), "k": values((batch, length, e), 1)}
    given["v"] = values((batch, length, e), 2)
    if "packed" in chosen:
        given = {"q": np.concatenate([given.pop(n) for n in "qkv"], -1)}
        places[1:3] = "--"
    if old:
        for k, name in enumerate(("pk", "pv")):
            given[name], places[3 + k] = values((batch, groups, old, size), 3 + k), name
    given["n"] = int32(*(n - 1 for n in kept))
    # Known when the session is made: on it depends the extent of what is returned of keys.
    weights: Given = {"t": np.array(max(kept), np.int32)}
    if "rotary" in chosen:
        weights |= {"cos": values((16, size // 2), 6), "sin": values((16, size // 2), 7)}
        places[7:9] = ["cos", "sin"]
    if "positions" in chosen:
        at = np.random.default_rng(8).integers(0, 13, (batch, length))
        given["at"], places[9] = at.astype(np.int64), "at"
    if "bias" in chosen:
        shared = (1, heads) if batch == 1 else (batch, 1)
        given["bias"], places[10] = values((*shared, length, max(kept)), 9), "bias"
    if "sink" in chosen:
        weights["sink"], places[11] = values((heads,), 10), "sink"
    while places[-1] == "-":
        places.pop()
    attributes = {
        "do_rotary": int("rotary" in chosen),
        "rotary_interleaved": int("interleaved" in chosen),
        "local_window_size": 2 if "window" in chosen else -1,
        "softcap": 3.0 if "cap" in chosen else 0.0,
        "scale": 0.2 if "scale" in chosen else 0.0,
        "smooth_softmax": int("smooth" in chosen),
    }
    nodes = [
        node(
            "GroupQueryAttention",
            " ".join(places),
            "y nk nv",
            domain=MS,
            num_heads=heads,
            kv_num_heads=groups,
            **attributes,
        )
    ]
    outputs = {"y": (batch, length, d)}
    outputs |= dict.fromkeys(("nk", "nv"), (batch, groups, max(old, *kept), size))
    kinds = {"n": TensorProto.INT32, "t": TensorProto.INT32, "at": TensorProto.INT64}
    shapes = {n: a.shape for n, a in given.items()}
    return model(nodes, shapes, outputs, weights, kinds=kinds), given


# ------------------------------------------------------------------------ quantised


def has_kernel(bits: int, shape: Any, zeros: str) -> bool:
    """Whether ONNX Runtime's own provider has it: 2 bits are tried in one shape."""
    return (bits, zeros) != (8, "float") and (bits > 2 or shape == (40, 5, 16))


@pytest.mark.parametrize(
    ("bits", "shape", "zeros"),
    covering(
        [2, 4, 8],
        [(32, 8, 16), (40, 5, 16), (96, 3, 32)],
        ["", "packed", "float"],
        possible=has_kernel,
    ),
)
def test_matmul_nbits(bits: int, shape: tuple[int, int, int], zeros: str) -> None:
    rows, columns, block = shape
    rng = np.random.default_rng(0)
    blocks = -(-rows // block)
    weights: Given = {
        "b": rng.integers(0, 256, (columns, blocks, block * bits // 8)).astype(np.uint8),
        "s": (values((columns, blocks), 1) / 10).astype(np.float32),
    }
    if zeros == "packed":
        weights["z"] = rng.integers(0, 256, (columns, -(-blocks * bits // 8))).astype(np.uint8)
    if zeros == "float":
        weights["z"] = values((columns, blocks), 2)
    check(
        "MatMulNBits",
        {"x": values((2, 3, rows))},
        {"y": (2, 3, columns)},
        weights=weights,
        bound=1e-3,
        K=rows,
        N=columns,
        bits=bits,
        block_size=block,
    )


@pytest.mark.parametrize(
    ("stored", "dims", "by_column"),
    covering(
        [np.uint8, np.int8],
        [((3, 7), (7, 5)), ((2, 3, 4), (4, 6)), ((2, 3, 4), (2, 4, 1))],
        [False, True],
    ),
)
def test_qlinear_matmul(stored: Any, dims: Any, by_column: bool) -> None:
    a, b = (whole(d, stored, k) for k, d in enumerate(dims))
    columns = dims[1][-1]
    scales = np.linspace(0.01, 0.03, columns).astype(np.float32)
    weights = {
        "as": np.array(0.02, np.float32),
        "az": np.array(3, stored),
        "bs": scales if by_column else scales[0],
        "bz": np.full(columns if by_column else (), 5, stored),
        "ys": np.array(0.5, np.float32),
        "yz": np.array(2, stored),
    }
    outer = dims[0][:-1]
    check(
        "QLinearMatMul",
        {"a": a, "b": b},
        {"y": (*outer, columns)},
        weights=weights,
        domain="",
        order="a as az b bs bz ys yz",
    )


def whole(dims: Any, kind: Any, seed: int) -> Any:
    edge = np.iinfo(kind)
    rng = np.random.default_rng(seed)
    return rng.integers(edge.min, edge.max + 1, dims).astype(kind)


@pytest.mark.parametrize(
    ("stored", "bias", "by_channel"), covering([np.uint8, np.int8], [False, True], [False, True])
)
def test_qlinear_conv(stored: Any, bias: bool, by_channel: bool) -> None:
    x = whole((1, 3, 6, 5), stored, 0)
    scales = np.linspace(0.01, 0.02, 4).astype(np.float32)
    weights = {
        "xs": np.array(0.02, np.float32),
        "xz": np.array(3, stored),
        # Of 7 bits: without VNNI, ONNX Runtime's CPU kernels saturate sums of two products
        # uint8 x int8 at 16 bits, so that they are wrong for larger ones.
        "w": whole((4, 3, 3, 3), np.int8, 1) // 2,
        "ws": scales if by_channel else scales[:1],
        "wz": np.zeros(4 if by_channel else 1, np.int8),
        "ys": np.array(0.7, np.float32),
        "yz": np.array(2, stored),
    }
    order = "x xs xz w ws wz ys yz"
    if bias:
        weights["b"] = np.arange(-300, 100, 100).astype(np.int32)
        order += " b"
    check(
        "QLinearConv",
        {"x": x},
        {"y": (1, 4, 6, 5)},
        weights=weights,
        domain="",
        order=order,
        pads=[1, 1, 1, 1],
    )
