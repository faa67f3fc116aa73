# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The float64 references against PyTorch in float64: two implementations by different people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hipdnn_iree.graph_api.enums import PointwiseMode
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.provider.reference import execute

torch = pytest.importorskip("torch")
F = torch.nn.functional

Dims = tuple[int, ...]
Build = Callable[..., Any]
SEED = 11


def values(*dims: int, seed: int = SEED, positive: bool = False) -> np.ndarray[Any, Any]:
    array = np.random.default_rng([seed, *dims]).standard_normal(dims)
    return np.abs(array) + 0.1 if positive else array


def reference(build: Build, *arrays: np.ndarray[Any, Any]) -> list[Any]:
    """Return what the reference gives for ``build(graph, *tensors)``, as torch tensors."""
    graph = Graph(io_data_type="double", compute_data_type="double")
    types = {"b": "boolean", "i": "int64", "f": "double"}
    tensors = [graph.tensor(dims=a.shape, data_type=types[a.dtype.kind]) for a in arrays]
    made = build(graph, *tensors)
    made = [made] if not isinstance(made, tuple) else [t for t in made if t is not None]
    for tensor in made:
        tensor.set_output()
    frozen = graph.freeze()
    used = {t.uid: a for t, a in zip(tensors, arrays, strict=True) if t.uid in frozen.inputs}
    found = execute(frozen, used)
    return [torch.from_numpy(np.array(found[t.uid])) for t in made]


def tensors(*arrays: np.ndarray[Any, Any], grad: bool = False) -> list[Any]:
    found = [torch.from_numpy(a.copy()) for a in arrays]
    return [t.requires_grad_() for t in found] if grad else found


def same(got: list[Any], expected: list[Any], tolerance: float = 1e-11) -> None:
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        wanted = theirs.detach().double().reshape(ours.shape)
        torch.testing.assert_close(ours.double(), wanted, rtol=tolerance, atol=tolerance)


# ---------------------------------------------------------------------------- products

CONVS: dict[str, tuple[Dims, Dims, dict[str, Any]]] = {
    "plain": ((2, 3, 7, 8), (4, 3, 3, 3), {}),
    "padding": ((2, 3, 7, 8), (4, 3, 3, 3), {"padding": (1, 2)}),
    "stride_of_an_even_size": ((2, 3, 8, 8), (4, 3, 3, 3), {"stride": 2, "padding": 1}),
    "dilation": ((1, 2, 11, 9), (3, 2, 3, 2), {"dilation": (2, 3)}),
    "groups": ((2, 6, 5, 5), (4, 3, 3, 3), {"padding": 1}),
    "depthwise": ((2, 4, 6, 6), (8, 1, 3, 3), {"stride": (2, 1)}),
    "1d": ((2, 3, 13), (4, 3, 4), {"stride": 3, "padding": 2}),
    "3d": ((1, 2, 5, 4, 6), (3, 2, 2, 3, 2), {"padding": (1, 0, 1), "dilation": (1, 1, 2)}),
}


def convolve(x: Any, w: Any, options: dict[str, Any]) -> Any:
    function = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[x.ndim]
    return function(x, w, groups=x.shape[1] // w.shape[1], **options)


@pytest.mark.parametrize("case", CONVS.values(), ids=CONVS)
def test_convolution_and_its_gradients(case: tuple[Dims, Dims, dict[str, Any]]) -> None:
    image, taps, options = case
    x, w = tensors(values(*image), values(*taps), grad=True)
    y = convolve(x, w, options)
    dy = values(*y.shape)
    y.backward(torch.from_numpy(dy))
    a, b = x.detach().numpy(), w.detach().numpy()
    same(reference(lambda g, x, w: g.conv_fprop(x, w, **options), a, b), [y])
    same(reference(lambda g, dy, w: g.conv_dgrad(dy, w, dx_dims=image, **options), dy, b), [x.grad])
    same(reference(lambda g, dy, x: g.conv_wgrad(dy, x, dw_dims=taps, **options), dy, a), [w.grad])


@pytest.mark.parametrize(
    ("a", "b"), [((5, 7), (7, 3)), ((2, 3, 5, 7), (2, 3, 7, 4)), ((4, 1, 5, 7), (1, 3, 7, 2))]
)
def test_matmul(a: Dims, b: Dims) -> None:
    left, right = values(*a), values(*b)
    got = reference(lambda g, a, b: g.matmul(a, b), left, right)
    same(got, [torch.matmul(*tensors(left, right))])


# ---------------------------------------------------------------------------- normalisation


def channels(n: int, rank: int = 4, *, seed: int, positive: bool = False) -> Any:
    return values(1, n, *(1,) * (rank - 2), seed=seed, positive=positive)


def test_batchnorm_training_and_gradient() -> None:
    image = (4, 3, 5, 2)
    x, dy = values(*image), values(*image, seed=2)
    scale, bias = channels(3, seed=3), channels(3, seed=4)
    mean, variance = channels(3, seed=5), channels(3, seed=6, positive=True)
    tx, ts, tb = tensors(x, scale.ravel(), bias.ravel(), grad=True)
    running = tensors(mean.ravel(), variance.ravel())
    y = F.batch_norm(tx, *running, ts, tb, training=True, momentum=0.25, eps=1e-3)
    y.backward(torch.from_numpy(dy))
    statistics = [tx.mean((0, 2, 3)), 1 / torch.sqrt(tx.var((0, 2, 3), correction=0) + 1e-3)]
    got = reference(
        lambda g, x, s, b, m, v: tuple(
            g.batchnorm(
                x,
                s,
                b,
                epsilon=1e-3,
                momentum=0.25,
                prev_running_mean=m,
                prev_running_variance=v,
            )
        ),
        *(x, scale, bias, mean, variance),
    )
    same(got, [y, *statistics, *running])
    saved = [t.detach().numpy().reshape(1, 3, 1, 1) for t in statistics]
    got = reference(
        lambda g, dy, x, s, m, v: tuple(g.batchnorm_backward(dy, x, s, mean=m, inv_variance=v)),
        *(dy, x, scale, *saved),
    )
    same(got, [tx.grad, ts.grad, tb.grad])


def test_batchnorm_inference() -> None:
    x, scale, bias = values(4, 3, 5, 2), channels(3, seed=3), channels(3, seed=4)
    mean, variance = channels(3, seed=5), channels(3, seed=6, positive=True)
    flat = tensors(*(a.ravel() for a in (mean, variance, scale, bias)))
    y = F.batch_norm(*tensors(x), *flat, training=False, eps=1e-3)
    inverse = 1 / np.sqrt(variance + 1e-3)
    got = reference(lambda g, *t: g.batchnorm_inference(*t), x, mean, inverse, scale, bias)
    same(got, [y])
    got = reference(
        lambda g, *t: g.batchnorm_inference_variance_ext(*t, 1e-3), x, mean, variance, scale, bias
    )
    same(got, [y])


@pytest.mark.parametrize(
    ("dims", "count"), [((4, 7), 1), ((2, 3, 5, 2), 1), ((2, 3, 5, 2), 2), ((3, 4, 6), 2)]
)
def test_layernorm_and_its_gradient(dims: Dims, count: int) -> None:
    inner = dims[-count:]
    x, dy = values(*dims), values(*dims, seed=2)
    scale, bias = values(*inner, seed=3), values(*inner, seed=4)
    tx, ts, tb = tensors(x, scale, bias, grad=True)
    y = F.layer_norm(tx, inner, ts, tb, eps=1e-3)
    y.backward(torch.from_numpy(dy))
    axes = tuple(range(-count, 0))
    mean = tx.detach().mean(axes, keepdim=True)
    inverse = 1 / torch.sqrt(tx.detach().var(axes, correction=0, keepdim=True) + 1e-3)
    full = (1,) * (len(dims) - count) + inner
    shaped = [a.reshape(full) for a in (scale, bias)]
    got = reference(
        lambda g, x, s, b: tuple(g.layernorm(x, s, b, epsilon=1e-3, forward_phase="training")),
        *(x, *shaped),
    )
    same(got, [y, mean, inverse])
    got = reference(
        lambda g, dy, x, s, m, v: tuple(g.layernorm_backward(dy, x, s, mean=m, inv_variance=v)),
        *(dy, x, shaped[0], mean.numpy(), inverse.numpy()),
    )
    same(got, [tx.grad, ts.grad, tb.grad])


def test_rmsnorm_and_its_gradient() -> None:
    x, dy, scale = values(4, 6, 5), values(4, 6, 5, seed=2), values(5, seed=3)
    tx, ts = tensors(x, scale, grad=True)
    y = F.rms_norm(tx, (5,), ts, eps=1e-3)
    y.backward(torch.from_numpy(dy))
    inverse = torch.rsqrt(tx.detach().square().mean(-1, keepdim=True) + 1e-3)
    shaped = scale.reshape(1, 1, 5)
    got = reference(
        lambda g, x, s: tuple(g.rmsnorm(x, s, epsilon=1e-3, forward_phase="training")), x, shaped
    )
    same(got, [y, inverse])
    got = reference(
        lambda g, dy, x, s, r: tuple(g.rmsnorm_backward(dy, x, s, r)),
        *(dy, x, shaped, inverse.numpy()),
    )
    same(got, [tx.grad, ts.grad])


def test_softmax_chain() -> None:
    def softmax(g: Any, x: Any) -> Any:
        e = g.exp(g.sub(x, g.reduction(x, mode="max", axes=1)))
        return g.div(e, g.reduction(e, mode="add", axes=1))

    x = 10 * values(5, 17)
    same(reference(softmax, x), [torch.softmax(*tensors(x), 1)])


# ---------------------------------------------------------------------------- attention


@pytest.mark.parametrize("masked", ["no", "causal", "float", "bool"])
@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1)], ids=["mha", "gqa", "mqa"])
def test_attention(masked: str, heads: tuple[int, int]) -> None:
    q = values(2, heads[0], 5, 8)
    k, v = values(2, heads[1], 7, 8, seed=2), values(2, heads[1], 7, 6, seed=3)
    mask = {"float": values(1, 4, 5, 7, seed=4), "bool": values(2, 1, 5, 7, seed=5) > -0.8}.get(
        masked
    )
    # torch's causal mask begins in the top left corner too.
    y = F.scaled_dot_product_attention(
        *tensors(q, k, v),
        attn_mask=None if mask is None else torch.from_numpy(mask),
        is_causal=masked == "causal",
        enable_gqa=True,
        scale=0.25,
    )

    def attend(g: Any, q: Any, k: Any, v: Any, *mask: Any) -> Any:
        options: dict[str, Any] = {"attn_mask": mask[0]} if mask else {}
        if masked == "causal":
            options["right_bound"] = 0
        return g.sdpa(q, k, v, attn_scale_value=0.25, **options).o

    same(reference(attend, q, k, v, *([] if mask is None else [mask])), [y])


@pytest.mark.parametrize("masked", ["no", "causal", "float"])
@pytest.mark.parametrize("heads", [(4, 4), (4, 2)], ids=["mha", "gqa"])
def test_attention_gradient(masked: str, heads: tuple[int, int]) -> None:
    q = values(2, heads[0], 5, 8)
    k, v = values(2, heads[1], 7, 8, seed=2), values(2, heads[1], 7, 6, seed=3)
    bias, do = values(1, 4, 5, 7, seed=4), values(2, 4, 5, 6, seed=5)
    scale = 0.25  # exact in the float32 that hipDNN stores it in
    leaves = tensors(q, k, v, bias, grad=True)
    tq, tk, tv, tb = leaves
    # Written out, as torch's fused form has no statistics.
    groups = heads[0] // heads[1]
    logits = scale * tq @ tk.repeat_interleave(groups, 1).mT
    if masked == "float":
        logits = logits + tb
    if masked == "causal":
        logits = logits.masked_fill(torch.ones(5, 7).triu(1).bool(), -torch.inf)
    o = logits.softmax(-1) @ tv.repeat_interleave(groups, 1)
    stats = logits.logsumexp(-1, keepdim=True).detach().numpy()
    o.backward(torch.from_numpy(do))

    def differentiate(g: Any, *t: Any) -> Any:
        options: dict[str, Any] = {"right_bound": 0} if masked == "causal" else {}
        if masked == "float":
            options |= {"attn_mask": t[6], "generate_dbias": True}
        return tuple(g.sdpa_backward(*t[:6], attn_scale_value=scale, **options))

    mask = [bias] if masked == "float" else []
    got = reference(differentiate, q, k, v, o.detach().numpy(), do, stats, *mask)
    same(got, [t.grad for t in leaves if t.grad is not None])


# ---------------------------------------------------------------------------- elementwise

M = PointwiseMode
UNARY: dict[PointwiseMode, Callable[[Any], Any]] = {
    M.ABS: torch.abs,
    M.CEIL: torch.ceil,
    M.COS: torch.cos,
    M.ERF: torch.erf,
    M.EXP: torch.exp,
    M.FLOOR: torch.floor,
    M.GELU_FWD: F.gelu,
    M.GELU_APPROX_TANH_FWD: lambda x: F.gelu(x, approximate="tanh"),
    M.LOG: torch.log,
    M.NEG: torch.neg,
    M.RECIPROCAL: torch.reciprocal,
    M.RELU_FWD: torch.relu,
    M.RSQRT: torch.rsqrt,
    M.SIGMOID_FWD: torch.sigmoid,
    M.SIN: torch.sin,
    M.SQRT: torch.sqrt,
    M.TAN: torch.tan,
    M.TANH_FWD: torch.tanh,
    M.ELU_FWD: F.elu,
    M.SOFTPLUS_FWD: F.softplus,
    M.SWISH_FWD: F.silu,
}
POSITIVE = (M.LOG, M.RSQRT, M.SQRT)


@pytest.mark.parametrize("mode", UNARY, ids=lambda m: m.name)
def test_unary(mode: PointwiseMode) -> None:
    x = 3 * values(4, 33, positive=mode in POSITIVE)
    got = reference(lambda g, x: g.pointwise(x, mode=mode), x)
    same(got, [UNARY[mode](*tensors(x))])


BINARY: dict[PointwiseMode, Callable[[Any, Any], Any]] = {
    M.ADD: torch.add,
    M.ADD_SQUARE: lambda a, b: a + b * b,
    M.DIV: torch.div,
    M.MAX: torch.maximum,
    M.MIN: torch.minimum,
    M.MOD: torch.fmod,
    M.MUL: torch.mul,
    M.POW: torch.pow,
    M.SUB: torch.sub,
    M.CMP_EQ: torch.eq,
    M.CMP_NEQ: torch.ne,
    M.CMP_GE: torch.ge,
    M.CMP_GT: torch.gt,
    M.CMP_LE: torch.le,
    M.CMP_LT: torch.lt,
}


@pytest.mark.parametrize("mode", BINARY, ids=lambda m: m.name)
def test_binary(mode: PointwiseMode) -> None:
    a = values(4, 1, 9, positive=mode is M.POW)
    b = np.where(values(3, 9, seed=2) > 0.5, a[0], values(3, 9, seed=3, positive=mode is M.DIV))
    got = reference(lambda g, a, b: g.pointwise(a, b, mode=mode), a, b[None])
    same(got, [BINARY[mode](*tensors(a, b[None]))])


BACKWARD: dict[str, tuple[PointwiseMode, Callable[[Any], Any], dict[str, Any]]] = {
    "relu": (M.RELU_BWD, torch.relu, {}),
    "leaky_relu": (
        M.RELU_BWD,
        lambda x: F.leaky_relu(x, 0.125),
        {"relu_lower_clip_slope": 0.125},
    ),
    "relu6": (M.RELU_BWD, F.relu6, {"relu_upper_clip": 6.0}),
    "elu": (M.ELU_BWD, lambda x: F.elu(x, 0.5), {"elu_alpha": 0.5}),
    "gelu": (M.GELU_BWD, F.gelu, {}),
    "gelu_tanh": (M.GELU_APPROX_TANH_BWD, lambda x: F.gelu(x, approximate="tanh"), {}),
    "sigmoid": (M.SIGMOID_BWD, torch.sigmoid, {}),
    "softplus": (
        M.SOFTPLUS_BWD,
        # torch's own goes over to the identity above a threshold.
        lambda x: torch.log1p(torch.exp(2 * x)) / 2,
        {"softplus_beta": 2.0},
    ),
    "swish": (M.SWISH_BWD, lambda x: x * torch.sigmoid(0.5 * x), {"swish_beta": 0.5}),
    "tanh": (M.TANH_BWD, torch.tanh, {}),
}


@pytest.mark.parametrize("case", BACKWARD.values(), ids=BACKWARD)
def test_backward_modes(
    case: tuple[PointwiseMode, Callable[[Any], Any], dict[str, Any]],
) -> None:
    mode, forward, options = case
    x, dy = 4 * values(5, 31), values(5, 31, seed=2)
    (tx,) = tensors(x, grad=True)
    forward(tx).backward(torch.from_numpy(dy))
    got = reference(lambda g, dy, x: g.pointwise(dy, x, mode=mode, **options), dy, x)
    same(got, [tx.grad])


REDUCTIONS: dict[str, Callable[[Any, tuple[int, ...]], Any]] = {
    "add": lambda x, axes: x.sum(axes, keepdim=True),
    "mul": lambda x, axes: x.prod(axes[0], keepdim=True).prod(axes[1], keepdim=True),
    "min": lambda x, axes: x.amin(axes, keepdim=True),
    "max": lambda x, axes: x.amax(axes, keepdim=True),
    "amax": lambda x, axes: x.abs().amax(axes, keepdim=True),
    "avg": lambda x, axes: x.mean(axes, keepdim=True),
    "norm1": lambda x, axes: torch.linalg.vector_norm(x, 1, axes, keepdim=True),
    "norm2": lambda x, axes: torch.linalg.vector_norm(x, 2, axes, keepdim=True),
    "mul_no_zeros": lambda x, axes: (
        torch.where(x == 0, 1, x).prod(axes[0], keepdim=True).prod(axes[1], keepdim=True)
    ),
}


@pytest.mark.parametrize("mode", REDUCTIONS)
def test_reductions(mode: str) -> None:
    x = values(3, 4, 5, 6)
    x[x < -1.5] = 0
    got = reference(lambda g, x: g.reduction(x, mode=mode, axes=(1, 3)), x)
    same(got, [REDUCTIONS[mode](*tensors(x), (1, 3))])
