# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs of the guard's own: realistic sizes, where rules go by size, and dynamic dims.

Made through the public interface alone, so that they stay the same when the package moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hipdnn_iree import Graph

__all__ = ["dynamic", "sized"]

Build = Callable[[], Graph]
Ints = tuple[int, ...]

_KINDS = ("half", "float")


def _channels_last(dims: Ints) -> Ints:
    order, step = (*range(2, len(dims)), 1), 1
    strides = [0] * len(dims)
    for axis in reversed((0, *order)):
        strides[axis] = step
        step *= dims[axis]
    return tuple(strides)


def _tensor(graph: Graph, dims: Sequence[Any], name: str, last: bool = False) -> Any:
    strides = _channels_last(tuple(dims)) if last else None
    return graph.tensor(dims=dims, strides=strides, name=name)


def _conv(kind: str, x: Ints, w: Ints, last: bool, w_last: bool, relu: bool, **more: Any) -> Graph:
    graph = Graph("conv", io_data_type=kind, compute_data_type="float")
    y = graph.conv_fprop(_tensor(graph, x, "x", last), _tensor(graph, w, "w", w_last), **more)
    if relu:
        y = graph.relu(graph.add(y, _tensor(graph, (1, w[0], 1, 1), "bias")))
    y.set_output()
    return graph


def _dgrad(kind: str, dy: Ints, w: Ints, dx: Ints, last: bool, stride: int) -> Graph:
    graph = Graph("dgrad", io_data_type=kind, compute_data_type="float")
    given, taps = _tensor(graph, dy, "dy", last), _tensor(graph, w, "w", last)
    padding = w[-1] // 2
    graph.conv_dgrad(given, taps, dx_dims=dx, padding=padding, stride=stride).set_output()
    return graph


def _wgrad(kind: str, dy: Ints, x: Ints, dw: Ints, last: bool, stride: int) -> Graph:
    graph = Graph("wgrad", io_data_type=kind, compute_data_type="float")
    given, read = _tensor(graph, dy, "dy", last), _tensor(graph, x, "x", last)
    padding = dw[-1] // 2
    graph.conv_wgrad(given, read, dw_dims=dw, padding=padding, stride=stride).set_output()
    return graph


def _matmul(kind: str, a: Ints, b: Ints, gelu: bool) -> Graph:
    graph = Graph("matmul", io_data_type=kind, compute_data_type="float")
    y = graph.matmul(_tensor(graph, a, "a"), _tensor(graph, b, "b"))
    if gelu:
        y = graph.gelu(graph.add(y, _tensor(graph, (*(1,) * (len(a) - 1), b[-1]), "bias")))
    y.set_output()
    return graph


def _sdpa(kind: str, batch: int, heads: int, length: int, depth: int, causal: bool) -> Graph:
    graph = Graph("sdpa", io_data_type=kind, compute_data_type="float")
    q, k, v = (_tensor(graph, (batch, heads, length, depth), name) for name in "qkv")
    graph.sdpa(q, k, v, causal_mask=causal).o.set_output()
    return graph


def _norm(kind: str, rows: int, n: int, rms: bool) -> Graph:
    graph = Graph("norm", io_data_type=kind, compute_data_type="float")
    x, scale = _tensor(graph, (rows, n), "x"), _tensor(graph, (1, n), "scale")
    if rms:
        graph.rmsnorm(x, scale).y.set_output()
    else:
        graph.layernorm(x, scale, _tensor(graph, (1, n), "bias")).y.set_output()
    return graph


def _experts(kind: str, count: int, tokens: int, width: int, gradient: bool) -> Graph:
    graph = Graph("experts", io_data_type=kind, compute_data_type="float")
    x = _tensor(graph, (1, tokens, width), "x")
    offsets = graph.tensor(dims=(count, 1, 1), data_type="int32", name="offsets")
    if gradient:
        dy = _tensor(graph, (1, tokens, width), "dy")
        y = graph.moe_grouped_matmul_bwd(dy, x, offsets, dweight_dims=(count, width, width))
    else:
        w = _tensor(graph, (count, width, width), "w")
        y = graph.moe_grouped_matmul(x, w, offsets, mode="none")
    y.set_output()
    return graph


def _residual(kind: str, n: int, c: int, size: int, last: bool) -> Graph:
    graph = Graph("residual", io_data_type=kind, compute_data_type="float")
    x = h = _tensor(graph, (n, c, size, size), "x", last)
    for i in (1, 2):
        y = graph.conv_fprop(h, _tensor(graph, (c, c, 3, 3), f"w{i}", last), padding=1)
        y = graph.add(y, _tensor(graph, (1, c, 1, 1), f"b{i}"))
        h = graph.relu(y if i == 1 else graph.add(y, x)).set_data_type(kind)
    h.set_output()
    return graph


def _transformer(kind: str, tokens: int, heads: int, depth: int) -> Graph:
    graph = Graph("transformer", io_data_type=kind, compute_data_type="float")
    width = heads * depth
    x = _tensor(graph, (tokens, width), "x")

    def normed(value: Any, i: int) -> Any:
        scale, bias = (_tensor(graph, (1, width), f"{p}{i}") for p in ("scale", "bias"))
        return graph.layernorm(value, scale, bias).y.set_data_type(kind)

    split, n1 = [], normed(x, 1)
    for p in "qkv":
        flat = graph.matmul(n1, _tensor(graph, (width, width), f"w{p}")).set_data_type(kind)
        apart = graph.reshape(flat, dim=(1, tokens, heads, depth))
        split.append(graph.transpose(apart, permutation=(0, 2, 1, 3)))
    o = graph.sdpa(*split).o.set_data_type(kind)
    rows = graph.reshape(graph.transpose(o, permutation=(0, 2, 1, 3)), dim=(tokens, width))
    h = graph.add(graph.matmul(rows, _tensor(graph, (width, width), "wo")), x).set_data_type(kind)
    up = graph.matmul(normed(h, 2), _tensor(graph, (width, 4 * width), "w1"))
    up = graph.gelu_approx_tanh(up).set_data_type(kind)
    down = graph.matmul(up, _tensor(graph, (4 * width, width), "w2"))
    graph.add(down, h).set_output()
    return graph


# Name -> input, filter, further arguments: the layers of ResNet-50 and MobileNet, and a few more.
_CONVS: dict[str, tuple[Ints, Ints, dict[str, Any]]] = {
    "stem7x7": ((1, 3, 224, 224), (64, 3, 7, 7), {"padding": 3, "stride": 2}),
    "3x3": ((8, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
    "3x3_batch1": ((1, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
    "3x3_wide": ((1, 512, 7, 7), (512, 512, 3, 3), {"padding": 1}),
    "3x3_stride2": ((8, 64, 56, 56), (128, 64, 3, 3), {"padding": 1, "stride": 2}),
    "3x3_dilated": ((2, 64, 28, 28), (64, 64, 3, 3), {"padding": 2, "dilation": 2}),
    "1x1": ((8, 256, 56, 56), (64, 256, 1, 1), {}),
    "1x1_stride2": ((1, 256, 56, 56), (512, 256, 1, 1), {"stride": 2}),
    "5x5": ((1, 32, 28, 28), (96, 32, 5, 5), {"padding": 2}),
    "grouped": ((8, 128, 28, 28), (128, 32, 3, 3), {"padding": 1}),
    "depthwise": ((8, 128, 56, 56), (128, 1, 3, 3), {"padding": 1}),
    "depthwise_stride2": ((1, 96, 112, 112), (96, 1, 3, 3), {"padding": 1, "stride": 2}),
    "depthwise5x5": ((1, 64, 28, 28), (64, 1, 5, 5), {"padding": 2}),
}
# Name -> result of the forward convolution, filter, its input, stride.
_GRADIENTS: dict[str, tuple[Ints, Ints, Ints, int]] = {
    "3x3": ((8, 64, 56, 56), (64, 64, 3, 3), (8, 64, 56, 56), 1),
    "3x3_stride2": ((8, 128, 28, 28), (128, 64, 3, 3), (8, 64, 56, 56), 2),
    "1x1": ((1, 64, 56, 56), (64, 256, 1, 1), (1, 256, 56, 56), 1),
    "grouped": ((1, 128, 28, 28), (128, 32, 3, 3), (1, 128, 28, 28), 1),
    "depthwise": ((1, 128, 28, 28), (128, 1, 3, 3), (1, 128, 28, 28), 1),
    "3x3_many": ((3, 8, 70, 70), (8, 16, 3, 3), (3, 16, 70, 70), 1),
}


def sized() -> dict[str, Build]:
    """Return graphs of the sizes of real networks, by name."""
    found: dict[str, Build] = {}
    for kind in _KINDS:
        for last in (False, True):
            end = f"{'nhwc' if last else 'nchw'} {kind}"
            for name, (x, w, more) in _CONVS.items():
                found[f"conv_fprop.{name} {end}"] = partial(
                    _conv, kind, x, w, last, last, False, **more
                )
            for name in ("3x3", "3x3_stride2", "1x1"):
                x, w, more = _CONVS[name]
                for same in (True, False):
                    found[f"conv_fprop.{name}_relu{'' if same else '_mixed'} {end}"] = partial(
                        _conv, kind, x, w, last, last is same, True, **more
                    )
            for name, (dy, w, x, stride) in _GRADIENTS.items():
                found[f"conv_dgrad.{name} {end}"] = partial(_dgrad, kind, dy, w, x, last, stride)
                found[f"conv_wgrad.{name} {end}"] = partial(_wgrad, kind, dy, x, w, last, stride)
            found[f"residual {end}"] = partial(_residual, kind, 8, 64, 56, last)
        for name, a, b in (
            ("square", (1024, 1024), (1024, 1024)),
            ("wide", (1024, 1024), (1024, 4096)),
            ("vector", (1, 768), (768, 3072)),
            ("batched", (12, 128, 64), (12, 64, 128)),
            ("shared", (4, 8, 128, 64), (1, 8, 64, 128)),
        ):
            for gelu in (False, True):
                found[f"matmul.{name}{'_gelu' if gelu else ''} {kind}"] = partial(
                    _matmul, kind, a, b, gelu
                )
        for name, shape in (("bert", (1, 12, 384, 64)), ("long", (2, 8, 2048, 128))):
            for causal in (False, True):
                found[f"sdpa.{name}{'_causal' if causal else ''} {kind}"] = partial(
                    _sdpa, kind, *shape, causal
                )
        for n in (768, 1000, 1024, 4096):
            found[f"layernorm.{n} {kind}"] = partial(_norm, kind, 4096, n, False)
            found[f"rmsnorm.{n} {kind}"] = partial(_norm, kind, 4096, n, True)
        for count, tokens, width in ((8, 64, 512), (8, 2048, 512), (32, 512, 256), (32, 64, 256)):
            shape = f"{count}x{tokens}x{width} {kind}"
            found[f"moe.{shape}"] = partial(_experts, kind, count, tokens, width, False)
            found[f"moe_bwd.{shape}"] = partial(_experts, kind, count, tokens, width, True)
        found[f"transformer {kind}"] = partial(_transformer, kind, 256, 8, 64)
    return found


def _dynamic(kind: str, fill: Callable[[Graph, Any], None]) -> Graph:
    graph = Graph("dynamic", io_data_type=kind, compute_data_type="float")
    fill(graph, graph.dynamic("n", range=(1, 4096), example=8))
    return graph


def _pointwise_nhwc(g: Graph, n: Any) -> None:
    x = g.tensor(dims=(n, 3, 4, 5), strides=(60, 1, 15, 3))
    g.relu(g.add(x, g.tensor(dims=(1, 3, 1, 1)))).set_output()


def _mlp(g: Graph, n: Any) -> None:
    hidden = g.relu(g.matmul(g.tensor(dims=(n, 16)), g.tensor(dims=(16, 33))))
    g.add(g.matmul(hidden, g.tensor(dims=(33, 5))), g.tensor(dims=(1, 5))).set_output()


def _batches(g: Graph, n: Any) -> None:
    g.matmul(g.tensor(dims=(n, 2, 4, 6)), g.tensor(dims=(1, 2, 6, 5))).set_output()


def _inner(g: Graph, n: Any) -> None:
    g.matmul(g.tensor(dims=(7, n)), g.tensor(dims=(n, 9))).set_output()


def _sums(g: Graph, n: Any) -> None:
    x = g.tensor(dims=(n, 33))
    for mode in ("add", "avg", "max", "norm2"):
        g.reduction(x, mode=mode, axes=[0]).set_output()
    g.reduction(x, mode="avg", axes=[1]).set_output()


def _softmax(dims: tuple[Any, ...], g: Graph, n: Any) -> None:
    x = g.tensor(dims=tuple(n if d is None else d for d in dims))
    e = g.exp(g.sub(x, g.reduction(x, mode="max", axes=[1])))
    g.div(e, g.reduction(e, mode="add", axes=[1])).set_output()


def _layernorm(g: Graph, n: Any) -> None:
    scale, bias = (g.tensor(dims=(1, 1, 65)) for _ in range(2))
    for y in g.layernorm(g.tensor(dims=(2, n, 65)), scale, bias, forward_phase="training"):
        g.output(y)


def _rmsnorm(g: Graph, n: Any) -> None:
    g.output(g.rmsnorm(g.tensor(dims=(n, 40)), g.tensor(dims=(1, 40)))[0])


def _attention(g: Graph, n: Any) -> None:
    q, k, v = (g.tensor(dims=(2, 2, n, 16)) for _ in range(3))
    result = g.sdpa(q, k, v, attn_mask=g.tensor(dims=(1, 1, n, n)), generate_stats=True)
    g.output(result.o)
    g.output(result.stats)


def _causal(g: Graph, n: Any) -> None:
    q, k, v = (g.tensor(dims=(2, 2, n, 16)) for _ in range(3))
    g.output(g.sdpa(q, k, v, causal_mask=True).o)


def _convolution(g: Graph, n: Any) -> None:
    x, w = g.tensor(dims=(n, 3, 9, 9)), g.tensor(dims=(8, 3, 3, 3))
    g.relu(g.conv_fprop(x, w, padding=1)).set_output()


def _dgrad_batch(g: Graph, n: Any) -> None:
    dy, w = g.tensor(dims=(n, 8, 9, 9)), g.tensor(dims=(8, 3, 3, 3))
    g.conv_dgrad(dy, w, dx_dims=(n, 3, 9, 9), padding=1).set_output()


def _width(g: Graph, n: Any) -> None:
    x, w = g.tensor(dims=(2, 3, 9, n)), g.tensor(dims=(8, 3, 3, 3))
    g.conv_fprop(x, w, padding=1).set_output()


def _batchnorm(g: Graph, n: Any) -> None:
    others = [g.tensor(dims=(1, 4, 1, 1)) for _ in range(4)]
    g.output(g.batchnorm_inference(g.tensor(dims=(n, 4, 3, 3)), *others))


def _pooling(g: Graph, n: Any) -> None:
    x = g.tensor(dims=(n, 4, 8, 8))
    g.output(g.resample_fwd(x, window=(2, 2), stride=(2, 2), resample_mode="maxpool").y)


def _scalars(g: Graph, n: Any) -> None:
    x = g.mul(g.tensor(dims=(n, 3)), g.runtime_scalar(data_type="float"))
    g.add(x, g.scalar(0.5)).set_output()


def dynamic() -> dict[str, Build]:
    """Return graphs with a dynamic dim called ``n``, by name; some of them are declined."""
    fills: dict[str, Callable[[Graph, Any], None]] = {
        "pointwise_nhwc": _pointwise_nhwc,
        "mlp": _mlp,
        "batches": _batches,
        "inner": _inner,
        "sums": _sums,
        "softmax": partial(_softmax, (None, 40)),
        "softmax_along": partial(_softmax, (4, None)),
        "layernorm": _layernorm,
        "rmsnorm": _rmsnorm,
        "attention": _attention,
        "causal": _causal,
        "convolution": _convolution,
        "dgrad": _dgrad_batch,
        "width": _width,
        "batchnorm": _batchnorm,
        "pooling": _pooling,
        "scalars": _scalars,
    }
    return {
        f"{name} {kind}": partial(_dynamic, kind, fill)
        for name, fill in fills.items()
        for kind in _KINDS
    }
