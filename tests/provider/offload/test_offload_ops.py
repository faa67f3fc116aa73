# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each aten op of the table: what its graph computes, against NumPy, with the reference engine."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from aten_ops import A, run, x
from hipdnn_iree.provider.offload import offload, outline
from hipdnn_iree.provider.offload.aten import ATEN
from torch_text import Module, Val

X = np.random.default_rng(7)


def erf(x: A) -> A:
    return np.vectorize(math.erf)(x)


def softmax(x: A, axis: int = -1) -> A:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def sigmoid(x: A) -> A:
    return 1 / (1 + np.exp(-x))


UNARY: dict[str, Callable[[A], A]] = {
    "abs": np.abs,
    "neg": np.negative,
    "relu": lambda v: np.maximum(v, 0),
    "relu6": lambda v: np.clip(v, 0, 6),
    "ceil": np.ceil,
    "floor": np.floor,
    "exp": np.exp,
    "erf": erf,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "silu": lambda v: v * sigmoid(v),
    "hardsigmoid": lambda v: np.clip(v / 6 + 0.5, 0, 1),
    "hardswish": lambda v: v * np.clip(v / 6 + 0.5, 0, 1),
    "mish": lambda v: v * np.tanh(np.log1p(np.exp(v))),
    "log_sigmoid": lambda v: -np.log1p(np.exp(-v)),
    "selu": lambda v: 1.0507009873554805 * np.where(v > 0, v, 1.6732632423543772 * np.expm1(v)),
    "square": np.square,
}
POSITIVE: dict[str, Callable[[A], A]] = {
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda v: 1 / np.sqrt(v),
    "reciprocal": lambda v: 1 / v,
    "log2": np.log2,
    "log10": np.log10,
    "tan": np.tan,
}


@pytest.mark.parametrize("name", [*UNARY, *POSITIVE])
def test_functions(name: str) -> None:
    positive = name in POSITIVE
    a = x(3, 5, low=0.2 if positive else -3, high=1.2 if positive else 3)
    f = (POSITIVE if positive else UNARY)[name]
    run(f"aten.{name}", [a], (), f(a.astype(np.float64)))


def test_functions_with_parameters() -> None:
    a = x(3, 5)
    w = a.astype(np.float64)
    for name, rest, expected in (
        ("leaky_relu", (0.1,), np.where(w > 0, w, 0.1 * w)),
        ("elu", (1.5, 1, 1), np.where(w > 0, w, 1.5 * np.expm1(w))),
        ("elu", (1.5, 2, 0.5), 2 * np.where(w > 0, w, 1.5 * np.expm1(0.5 * w))),
        ("celu", (1.5,), np.where(w > 0, w, 1.5 * np.expm1(w / 1.5))),
        ("gelu", ("none",), 0.5 * w * (1 + erf(w / math.sqrt(2)))),
        (
            "gelu",
            ("tanh",),
            0.5 * w * (1 + np.tanh(math.sqrt(2 / math.pi) * (w + 0.044715 * w**3))),
        ),
        ("softplus", (2, 20), np.log1p(np.exp(2 * w)) / 2),
        ("softplus", (2, 3), np.where(2 * w > 3, w, np.log1p(np.exp(2 * w)) / 2)),
        ("hardtanh", (-1, 2.5), np.clip(w, -1, 2.5)),
        ("clamp", (-1, 2), np.clip(w, -1, 2)),
        ("clamp", (None, 0.5), np.minimum(w, 0.5)),
        ("clamp", (-0.5, None), np.maximum(w, -0.5)),
        ("pow.Tensor_Scalar", (2,), w**2),
        ("pow.Tensor_Scalar", (3,), w**3),
        ("add.Scalar", (2, 3), w + 6),
        ("sub.Scalar", (2, 0.5), w - 1),
        ("rsub.Scalar", (2, 3), 2 - 3 * w),
        ("mul.Scalar", (0.5,), w / 2),
        ("div.Scalar", (4,), w / 4),
        ("fmod.Scalar", (1.25,), np.fmod(w, 1.25)),
    ):
        run(f"aten.{name}", [a], rest, expected)
    a = x(3, 5, low=0.2)
    run("aten.pow.Tensor_Scalar", [a], (0.5,), np.sqrt(a.astype(np.float64)))
    run("aten.pow.Tensor_Scalar", [a], (1.7,), a.astype(np.float64) ** 1.7)


@pytest.mark.parametrize(
    "dims", [((3, 5), (3, 5)), ((2, 3, 5), (5,)), ((2, 1, 5), (3, 1)), ((4,), ())]
)
def test_two_operands(dims: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = x(*dims[0]), x(*dims[1], low=0.5)
    v, w = a.astype(np.float64), b.astype(np.float64)
    for name, rest, expected in (
        ("add.Tensor", (1,), v + w),
        ("add.Tensor", (2.5,), v + 2.5 * w),
        ("sub.Tensor", (3,), v - 3 * w),
        ("mul.Tensor", (), v * w),
        ("div.Tensor", (), v / w),
        ("div.Tensor_mode", ("floor",), np.floor(v / w)),
        ("maximum", (), np.maximum(v, w)),
        ("minimum", (), np.minimum(v, w)),
        ("fmod.Tensor", (), np.fmod(v, w)),
    ):
        run(f"aten.{name}", [a, b], rest, expected)


def test_comparisons_and_choice() -> None:
    a, b = np.round(x(4, 6)), np.round(x(4, 6))
    for name, f in (
        *(("eq", np.equal), ("ne", np.not_equal), ("lt", np.less)),
        *(("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal)),
    ):
        run(f"aten.{name}.Tensor", [a, b], (), f(a, b), element="i1")
        run(f"aten.{name}.Scalar", [a], (1,), f(a, 1), element="i1")
    p, q = a > 0, b > 0
    for name, f in (
        ("logical_and", np.logical_and),
        ("logical_or", np.logical_or),
        ("logical_xor", np.logical_xor),
    ):
        run(f"aten.{name}", [p, q], (), f(p, q), element="i1")
    run("aten.logical_not", [p], (), ~p, element="i1")
    run("aten.isnan", [np.where(p, a, np.nan).astype(np.float32)], (), ~p, element="i1")
    run("aten.where.self", [p, a, b], (), np.where(p, a, b), element="f32")
    run("aten.where.ScalarOther", [p, a], (2.5,), np.where(p, a, 2.5), element="f32")
    run("aten.masked_fill.Scalar", [a, p], (-7.0,), np.where(p, -7.0, a))


def test_prelu_has_a_slope_for_each_channel() -> None:
    a, w = x(2, 3, 4), x(3)
    slopes = w.astype(np.float64).reshape(1, 3, 1)
    run("aten.prelu", [a, w], (), np.where(a > 0, a, a * slopes))


def test_three_operands() -> None:
    a, b, c = x(3, 4), x(3, 4), x(3, 4, low=0.5)
    run("aten.addcmul", [a, b, c], (2,), a + 2 * b.astype(np.float64) * c)
    run("aten.addcdiv", [a, b, c], (0.5,), a + 0.5 * b.astype(np.float64) / c)
    run("aten.lerp.Scalar", [a, b], (0.3,), a + 0.3 * (b.astype(np.float64) - a))


def test_conversions() -> None:
    a = x(3, 5)
    for code, kind, element in (
        (5, np.float16, "f16"),
        (7, np.float64, "f64"),
        (3, np.int32, "si32"),
    ):
        run("prims.convert_element_type", [a], (code,), a.astype(kind), element=element)
        run("aten.to.dtype", [a], (code, False, False, None), a.astype(kind), element=element)
    big = np.array([[300, -3]], np.int32)
    run("prims.convert_element_type", [big], (6,), big.astype(np.float32), element="f32")
    m = Module()
    y = m.op(
        "prims.convert_element_type", [m.argument(1, 2, element="si32"), 1], 1, 2, element="si8"
    )
    ((remark,), _) = (outline(m.text(y)).declined, None)
    assert remark.rule == "ATEN-04"


MATMULS = [
    ((3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (1, 5, 4, 6)),
    ((2, 2, 2, 2, 3, 4), (4, 5)),
    ((4,), (4,)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((2, 3, 4), (4,)),
]


@pytest.mark.parametrize("dims", MATMULS)
def test_matmul_by_numpys_rules(dims: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = x(*dims[0]), x(*dims[1])
    run("aten.matmul", [a, b], (), np.asarray(a.astype(np.float64) @ b))


def test_matmuls() -> None:
    a, b, c = x(3, 4), x(4, 5), x(3, 5)
    y = a.astype(np.float64) @ b
    run("aten.mm", [a, b], (), y)
    run("aten.mv", [a, b[:, 0].copy()], (), y[:, 0])
    run("aten.bmm", [x(2, 3, 4) * 0 + a, x(2, 4, 5) * 0 + b], (), np.stack([y, y]))
    run("aten.addmm", [c, a, b], (2, 3), 2 * c + 3 * y)
    run("aten.addmm", [c[0].copy(), a, b], (1, 1), c[0] + y)
    run("aten.addmm", [c * np.float32(np.nan), a, b], (0, 0.5), y / 2)
    run("aten.linear", [a, b.T.copy()], (None,), y)
    run("aten.linear", [a, b.T.copy(), c[0].copy()], (), y + c[0])
    run("aten.baddbmm", [c[None], a[None], b[None]], (0.5, 2), (0.5 * c + 2 * y)[None])
    wide = a.astype(np.float16)
    run("aten.mm", [wide, b.astype(np.float16)], (), wide.astype(np.float64) @ b.astype(np.float16))


def convolved(a: A, w: A, stride: int, padding: int, dilation: int, groups: int) -> A:
    """A 1-D convolution by its definition."""
    a = np.pad(a.astype(np.float64), ((0, 0), (0, 0), (padding, padding)))
    span = dilation * (w.shape[2] - 1) + 1
    count = (a.shape[2] - span) // stride + 1
    y = np.zeros((a.shape[0], w.shape[0], count))
    per = w.shape[0] // groups
    for k in range(w.shape[0]):
        first = k // per * w.shape[1]
        for o in range(count):
            window = a[:, first : first + w.shape[1], o * stride : o * stride + span : dilation]
            y[:, k, o] = (window * w[k]).sum((1, 2))
    return y


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"),
    [(1, 0, 1, 1), (2, 3, 1, 1), (1, 2, 2, 2), (3, 1, 2, 4)],
)
def test_convolution_1d(stride: int, padding: int, dilation: int, groups: int) -> None:
    a, w, b = x(2, 4, 13), x(8, 4 // groups, 3), x(8)
    y = convolved(a, w, stride, padding, dilation, groups)
    more = ([stride], [padding], [dilation], False, [0], groups)
    run("aten.convolution", [a, w], (None, *more), y)
    run("aten.convolution", [a, w, b], more, y + b[:, None])
    run("aten.conv1d", [a, w, b], (*more[:3], groups), y + b[:, None])


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize(("stride", "padding", "dilation", "groups"), [(2, 1, 1, 1), (2, 0, 2, 2)])
def test_transposed_convolution_1d(
    stride: int, padding: int, dilation: int, groups: int, more: int
) -> None:
    a, w = x(2, 4, 6), x(4, 6 // groups, 3)
    extent = (6 - 1) * stride - 2 * padding + dilation * 2 + more + 1
    y = np.zeros((2, 6, extent + 2 * padding))
    for c in range(4):
        group = c // (4 // groups)
        for k in range(6 // groups):
            for i in range(6):
                for t in range(3):
                    at = i * stride + t * dilation
                    y[:, group * (6 // groups) + k, at] += a[:, c, i] * np.float64(w[c, k, t])
    y = y[:, :, padding : padding + extent]
    run(
        "aten.convolution",
        [a, w],
        (None, [stride], [padding], [dilation], True, [more], groups),
        y,
    )


def test_gradients_of_a_convolution() -> None:
    dy, a, w = x(2, 4, 5), x(2, 6, 7), x(4, 3, 3)  # two groups
    d, v, f = (one.astype(np.float64) for one in (dy, a, w))
    dx, dw = np.zeros(a.shape), np.zeros(w.shape)
    for g, r in np.ndindex(2, 3):
        k, c, i = slice(2 * g, 2 * g + 2), slice(3 * g, 3 * g + 3), slice(r, r + 5)
        dx[:, c, i] += np.einsum("nki,kc->nci", d[:, k], f[k, :, r])
        dw[k, :, r] += np.einsum("nki,nci->kc", d[:, k], v[:, c, i])
    expected = (dx, dw, d.sum((0, 2)))
    for mask in ((True, True, True), (False, True, False), (True, False, True)):
        m = Module()
        values = [m.argument(*one.shape) for one in (dy, a, w)]
        rest = ([4], [1], [0], [1], False, [0], 2, list(mask))
        dims = [one.shape if kept else (0,) for one, kept in zip(expected, mask, strict=True)]
        made = m.results("aten.convolution_backward", [*values, *rest], *dims)
        module = offload(
            m.text(*(one for one, kept in zip(made, mask, strict=True) if kept)), engine="reference"
        )
        assert not module.remarks, [str(one) for one in module.remarks]
        wanted = [one for one, kept in zip(expected, mask, strict=True) if kept]
        for got, right in zip(module.executor().run(dy, a, w), wanted, strict=True):
            assert np.allclose(got, right, rtol=2e-6, atol=1e-5)


def test_convolution_with_padding_of_the_same_size() -> None:
    a, w = x(1, 2, 9), x(3, 2, 4)
    full = np.pad(a, ((0, 0), (0, 0), (1, 2)))
    run("aten.conv1d.padding", [a, w], (None, [1], "same", [1], 1), convolved(full, w, 1, 0, 1, 1))


def test_norms() -> None:
    a, w, b = x(2, 3, 8), x(8), x(8)
    v = a.astype(np.float64)

    def rows(v: A, axes: tuple[int, ...], eps: float) -> A:
        return (v - v.mean(axes, keepdims=True)) / np.sqrt(v.var(axes, keepdims=True) + eps)

    y = rows(v, (2,), 1e-3)
    run("aten.layer_norm", [a], ([8], None, None, 1e-3, False), y)
    run(
        "aten.layer_norm",
        [a, w, b],
        (),
        y * w + b,
        order=lambda t, _: [t[0], [8], t[1], t[2], 1e-3, False],
    )
    run("aten.layer_norm", [a], ([3, 8], None, None, 1e-3, False), rows(v, (1, 2), 1e-3))
    root = v / np.sqrt((v**2).mean(-1, keepdims=True) + 1e-3)
    run("aten.rms_norm", [a, w], (), root * w, order=lambda t, _: [t[0], [8], t[1], 1e-3])
    run("aten.rms_norm", [a], ([8], None, 1e-3), root)
    a, w, b = x(2, 4, 5), x(4), x(4)
    v = a.astype(np.float64)
    grouped = rows(v.reshape(2, 2, 10), (2,), 1e-3).reshape(2, 4, 5)
    affine = grouped * w[:, None] + b[:, None]
    run(
        "aten.group_norm",
        [a, w, b],
        (),
        affine,
        order=lambda t, _: [t[0], 2, t[1], t[2], 1e-3, False],
    )
    mean, variance = x(4), x(4, low=0.5)
    y = (v - mean[:, None]) / np.sqrt(variance[:, None] + 1e-3)
    end = (False, 0.1, 1e-3, True)
    run("aten.batch_norm", [a, w, b, mean, variance], end, y * w[:, None] + b[:, None])
    run(
        "aten.batch_norm",
        [a, mean, variance],
        (),
        y,
        order=lambda t, _: [t[0], None, None, t[1], t[2], *end],
    )


def test_softmax() -> None:
    a = x(3, 4, 5)
    v = a.astype(np.float64)
    for dim in (-1, 1, 0):
        run("aten.softmax.int", [a], (dim, None), softmax(v, dim))
        run("aten._softmax", [a], (dim, False), softmax(v, dim))
        run("aten.log_softmax.int", [a], (dim, None), np.log(softmax(v, dim)))
    run(
        "aten.softmax.int",
        [a.astype(np.float16)],
        (-1, 6),
        softmax(a.astype(np.float16).astype(np.float64)),
        element="f32",
    )


def test_reductions() -> None:
    a = x(3, 4, 5)
    v = a.astype(np.float64)
    for dims, keep in (([1], False), ([0, 2], True), ([-1], True)):
        axes = tuple(dims)
        run("aten.sum.dim_IntList", [a], (dims, keep, None), v.sum(axes, keepdims=keep))
        run("aten.mean.dim", [a], (dims, keep, None), v.mean(axes, keepdims=keep))
        run("aten.amax", [a], (dims, keep), v.max(axes, keepdims=keep))
        run("aten.amin", [a], (dims, keep), v.min(axes, keepdims=keep))
        run("aten.var.correction", [a], (dims, 1, keep), v.var(axes, ddof=1, keepdims=keep))
        norm = np.sqrt((v**2).sum(axes, keepdims=keep))
        run("aten.linalg_vector_norm", [a], (2.0, dims, keep, None), norm)
    run("aten.sum", [a], (None,), v.sum())
    run("aten.mean", [a], (None,), v.mean())
    run("aten.max", [a], (), v.max())
    run("aten.prod.dim_int", [a], (1, False, None), v.prod(1))
    run("aten.cumsum", [a], (1, None), v.cumsum(1))
    ints = np.arange(12, dtype=np.int32).reshape(3, 4)
    run("aten.sum.dim_IntList", [ints], ([1], False, None), ints.sum(1), element="si64")


def test_attention() -> None:
    q, k, v = x(2, 4, 5, 8), x(2, 4, 7, 8), x(2, 4, 7, 6)
    wide = [t.astype(np.float64) for t in (q, k, v)]

    def attend(mask: A | float = 0.0, scale: float = 1 / math.sqrt(8)) -> A:
        return softmax(wide[0] @ wide[1].swapaxes(2, 3) * scale + mask) @ wide[2]

    name = "aten.scaled_dot_product_attention"
    run(name, [q, k, v], (None, 0.0, False, None, False), attend())
    run(name, [q, k, v], (None, 0.0, False, 0.5, False), attend(scale=0.5))
    mask = x(5, 7)
    run(name, [q, k, v, mask], (0.0, False, None, False), attend(mask))
    causal = np.where(np.tril(np.ones((5, 7))) > 0, 0.0, -np.inf)
    run(name, [q, k, v], (None, 0.0, True, None, False), attend(causal))
    few = [t[:, :2].copy() for t in (k, v)]
    wide = [wide[0], *(np.repeat(t.astype(np.float64), 2, 1) for t in few)]
    run(name, [q, *few], (None, 0.0, False, None, True), attend())


def test_movement() -> None:
    a = x(2, 3, 4)
    v = a.astype(np.float64)
    for name, rest, expected in (
        ("view", ([6, 4],), v.reshape(6, 4)),
        ("reshape", ([-1],), v.reshape(-1)),
        ("flatten.using_ints", (1, -1), v.reshape(2, 12)),
        ("unflatten.int", (2, [2, -1]), v.reshape(2, 3, 2, 2)),
        ("unsqueeze", (-1,), v[..., None]),
        ("permute", ([2, 0, 1],), v.transpose(2, 0, 1)),
        ("transpose.int", (-1, 0), v.swapaxes(2, 0)),
        ("slice.Tensor", (1, 1, 9223372036854775807, 1), v[:, 1:]),
        ("slice.Tensor", (2, -3, -1, 2), v[..., -3:-1:2]),
        ("select.int", (1, -1), v[:, -1]),
        ("narrow", (2, 1, 2), v[..., 1:3]),
        (
            "pad",
            ([1, 2, 0, 1], "constant", 1.5),
            np.pad(v, ((0, 0), (0, 1), (1, 2)), constant_values=1.5),
        ),
        ("constant_pad_nd", ([1, -1], 0), np.pad(v, ((0, 0), (0, 0), (1, 0)))[..., :-1]),
        ("clone", (None,), v),
        ("dropout", (0.5, False), v),
    ):
        run(f"aten.{name}", [a], rest, expected)
    b = x(2, 1, 4)
    w = b.astype(np.float64)
    run("aten.squeeze", [b], (), w.reshape(2, 4))
    run("aten.squeeze.dim", [b], (1,), w.reshape(2, 4))
    run("aten.expand", [b], ([3, 2, 5, -1], False), np.broadcast_to(w, (3, 2, 5, 4)))
    run("aten.t", [a[0]], (), v[0].T)
    run("aten.cat", [a, b], (), np.concatenate([v, w], 1), order=lambda t, _: [t, 1])
    run("aten.stack", [a, a], (), np.stack([v, v], 2), order=lambda t, _: [t, -2])


def test_lists_of_tensors() -> None:
    a = x(2, 7, 3)
    v = a.astype(np.float64)
    for name, rest, parts in (
        ("split.Tensor", (3, 1), [v[:, :3], v[:, 3:6], v[:, 6:]]),
        ("split_with_sizes", ([2, 5], 1), [v[:, :2], v[:, 2:]]),
        ("chunk", (2, 1), [v[:, :4], v[:, 4:]]),
        ("unbind.int", (0,), [v[0], v[1]]),
    ):
        m = Module()
        operands = ", ".join(m.constant(one)[0] for one in (m.argument(2, 7, 3), *rest))
        kinds = ", ".join(m.constant(one)[1] for one in (m.arguments[0], *rest))
        lists = [line for line in m.lines if "ListConstruct" in line]
        if lists:  # written once for its name and once for its type
            m.lines.remove(lists[-1])
            operands = operands.replace(operands.split(", ")[1], lists[0].split(" ")[0])
        m.lines.append(f"%l = torch.aten.{name} {operands} : {kinds} -> !torch.list<vtensor>")
        made = [Val(f"%p#{i}", part.shape) for i, part in enumerate(parts)]
        types = ", ".join(one.type for one in made)
        count = len(parts)
        m.lines.append(f"%p:{count} = torch.prim.ListUnpack %l : !torch.list<vtensor> -> {types}")
        m.lines.append("%last = torch.constant.int -1")
        last = Val("%e", parts[-1].shape)
        m.lines.append(
            "%e = torch.aten.__getitem__.t %l, %last : "
            f"!torch.list<vtensor>, !torch.int -> {last.type}"
        )
        module = offload(m.text(*made, last), engine="reference")
        assert not module.remarks, [str(one) for one in module.remarks]
        found = module.executor().run(a)
        for got, expected in zip(found, [*parts, parts[-1]], strict=True):
            assert np.array_equal(got, expected)


def test_the_table_names_ops_and_operands_as_the_dialect_does() -> None:
    import torch_mlir.dialects._torch_ops_gen as generated

    source = Path(str(generated.__file__)).read_text(encoding="utf-8")
    known = {}
    for text in source.split("\nclass "):
        name = re.search(r'OPERATION_NAME = "torch\.([^"]+)"', text)
        made = re.search(r"def __init__\(self, (.*?)\):", text, re.S)
        if name and made:
            words = [word.split("=")[0].split(":")[0].strip() for word in made[1].split(",")]
            known[name[1]] = [w.rstrip("_") for w in words if not re.match(r"\*|loc|ip|result", w)]
    # What the dialect has no op for comes as a torch.operator of that name.
    inference = ["input", "weight", "bias", "running_mean", "running_var", "momentum", "eps"]
    known["aten._native_batch_norm_legit_no_training"] = inference
    attention = ["query", "key", "value", "dropout_p", "is_causal", "attn_mask", "scale"]
    known["aten._scaled_dot_product_flash_attention_for_cpu"] = attention
    renamed = {"input": "self", "a": "self", "qtensor": "self"}
    for name, entry in ATEN.items():
        assert name in known, f"{name} is no op of the torch dialect"
        wanted = known[name]
        if list(entry.operands) != wanted:
            assert list(entry.operands) == [renamed.get(w, w) for w in wanted], name
