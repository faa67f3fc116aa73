"""The workloads of ``benchmarks/gfx9.py``: graphs in half precision that compute in float32.

Each is built in one of two ways.  As a user of this project would: intermediate values in the
compute type, in half precision where a matrix instruction takes them.  And as Fusilli needs it:
all tensors in half precision, since it converts nowhere (``half=True``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from hipdnn_iree import Graph, Tensor
from hipdnn_iree.graph_api.layout import channels_last_strides

__all__ = ["WORKLOADS", "Workload"]

Ints = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """One graph to compile.

    Attributes
    ----------
    build : callable
        Takes ``half`` and returns the graph.
    products : int
        Ops that must be done by matrix instructions: convolutions, matrix products, attention.
    dispatches : int or None
        What is demanded on gfx942; None: no more than the plain form takes.
    plain : bool
        Whether Fusilli has the ops.
    reason : str
        Why IREE 3.13 cannot do what is demanded; empty where it can.
    """

    build: Callable[..., Graph]
    products: int = 0
    dispatches: int | None = None
    plain: bool = True
    reason: str = ""


def _graph(name: str, half: bool) -> Graph:
    between = "half" if half else "float"
    return Graph(
        name, io_data_type="half", intermediate_data_type=between, compute_data_type="float"
    )


def _tensor(graph: Graph, dims: Sequence[int], name: str, last: bool = False) -> Tensor:
    strides = channels_last_strides(dims) if last else None
    return graph.tensor(dims=dims, strides=strides, name=name)


def _done(graph: Graph, y: Tensor, like: Tensor | None = None, last: bool = False) -> Graph:
    y.set_output().set_name("y")
    if last and like is not None:
        y.set_dims(like.dims).set_strides(channels_last_strides(like.dims))
    return graph


def conv(
    x: Ints,
    w: Ints,
    *,
    padding: int = 0,
    stride: int = 1,
    x_last: bool = False,
    w_last: bool | None = None,
    epilogue: bool = False,
    half: bool = False,
) -> Graph:
    """Return y = conv(x, w), or relu(conv(x, w) + bias); layouts are channels-first or -last."""
    graph = _graph("conv", half)
    image = _tensor(graph, x, "x", x_last)
    weights = _tensor(graph, w, "w", x_last if w_last is None else w_last)
    y = graph.conv_fprop(image, weights, padding=padding, stride=stride, name="conv")
    if epilogue:
        bias = _tensor(graph, (1, w[0], 1, 1), "bias")
        y = graph.relu(graph.add(y, bias, name="bias"), name="relu")
    return _done(graph, y)


def dgrad(
    dy: Ints, w: Ints, dx: Ints, *, stride: int = 1, last: bool = False, half: bool = False
) -> Graph:
    """Return dx of a convolution with padding 1."""
    graph = _graph("dgrad", half)
    given, weights = _tensor(graph, dy, "dy", last), _tensor(graph, w, "w", last)
    return _done(
        graph, graph.conv_dgrad(given, weights, dx_dims=dx, padding=1, stride=stride, name="dgrad")
    )


def wgrad(
    dy: Ints, x: Ints, dw: Ints, *, stride: int = 1, last: bool = False, half: bool = False
) -> Graph:
    """Return dw of a convolution with padding 1."""
    graph = _graph("wgrad", half)
    given, image = _tensor(graph, dy, "dy", last), _tensor(graph, x, "x", last)
    return _done(
        graph, graph.conv_wgrad(given, image, dw_dims=dw, padding=1, stride=stride, name="wgrad")
    )


def matmul(m: int, k: int, n: int, *, epilogue: bool = False, half: bool = False) -> Graph:
    """Return y = a · b, or gelu(a · b + bias)."""
    graph = _graph("matmul", half)
    y = graph.matmul(_tensor(graph, (m, k), "a"), _tensor(graph, (k, n), "b"), name="matmul")
    if epilogue:
        y = graph.gelu(graph.add(y, _tensor(graph, (1, n), "bias"), name="bias"), name="gelu")
    return _done(graph, y)


def sdpa(heads: int, length: int, depth: int, *, causal: bool = False, half: bool = False) -> Graph:
    """Return attention over ``heads`` heads."""
    graph = _graph("sdpa", half)
    q, k, v = (_tensor(graph, (1, heads, length, depth), name) for name in "qkv")
    return _done(graph, graph.sdpa(q, k, v, causal_mask=causal, name="sdpa").o)


def norm(rows: int, n: int, *, rms: bool = False, half: bool = False) -> Graph:
    """Return layer norm or rms norm of rows."""
    graph = _graph("norm", half)
    x, scale = _tensor(graph, (rows, n), "x"), _tensor(graph, (1, n), "scale")
    if rms:
        return _done(graph, graph.rmsnorm(x, scale, name="rmsnorm").y)
    bias = _tensor(graph, (1, n), "bias")
    return _done(graph, graph.layernorm(x, scale, bias, name="layernorm").y)


def softmax(rows: int, n: int, *, half: bool = False) -> Graph:
    """Return softmax of rows, as reductions and pointwise nodes."""
    graph = _graph("softmax", half)
    x = _tensor(graph, (rows, n), "x")
    largest = graph.reduction(x, mode="max", axes=1, name="max")
    e = graph.exp(graph.sub(x, largest, name="shift"), name="exp")
    total = graph.reduction(e, mode="add", axes=1, name="sum")
    return _done(graph, graph.div(e, total, name="divide"))


def batchnorm(dims: Ints, *, training: bool = False, half: bool = False) -> Graph:
    """Return batch norm with given statistics, or with the batch's own."""
    graph = _graph("batchnorm", half)
    x = _tensor(graph, dims, "x")
    kind = "half" if half else "float"
    names = ("scale", "bias") if training else ("mean", "inv_variance", "scale", "bias")
    given = [graph.tensor(dims=(1, dims[1], 1, 1), data_type=kind, name=name) for name in names]
    if not training:
        return _done(graph, graph.batchnorm_inference(x, *given, name="batchnorm"))
    result = graph.batchnorm(x, *given, name="batchnorm")
    for name in ("mean", "inv_variance"):
        getattr(result, name).set_output().set_data_type(kind).set_name(name)
    return _done(graph, result.y)


def gelu(rows: int, n: int, *, half: bool = False) -> Graph:
    """Return gelu(x + bias)."""
    graph = _graph("gelu", half)
    x, bias = _tensor(graph, (rows, n), "x"), _tensor(graph, (1, n), "bias")
    return _done(graph, graph.gelu(graph.add(x, bias, name="bias"), name="gelu"))


def residual(n: int, c: int, size: int, *, last: bool = False, half: bool = False) -> Graph:
    """Return relu(x + conv(relu(conv(x, w1) + b1), w2) + b2), 3x3 with padding."""
    graph = _graph("residual_block", half)
    x = _tensor(graph, (n, c, size, size), "x", last)

    def layer(value: Tensor, i: int) -> Tensor:
        w = _tensor(graph, (c, c, 3, 3), f"w{i}", last)
        bias = _tensor(graph, (1, c, 1, 1), f"b{i}")
        return graph.add(graph.conv_fprop(value, w, padding=1, name=f"conv{i}"), bias)

    h = graph.relu(layer(x, 1), name="relu1").set_data_type("half")
    return _done(graph, graph.relu(graph.add(layer(h, 2), x, name="skip"), name="relu2"))


def mlp(tokens: int, width: int, hidden: int, *, half: bool = False) -> Graph:
    """Return gelu(x · w1 + b1) · w2 + b2."""
    graph = _graph("mlp", half)
    return _done(graph, _mlp(graph, _tensor(graph, (tokens, width), "x"), width, hidden))


def _mlp(graph: Graph, x: Tensor, width: int, hidden: int) -> Tensor:
    w1, b1 = _tensor(graph, (width, hidden), "w1"), _tensor(graph, (1, hidden), "b1")
    w2, b2 = _tensor(graph, (hidden, width), "w2"), _tensor(graph, (1, width), "b2")
    up = graph.add(graph.matmul(x, w1, name="up"), b1, name="b1")
    h = graph.gelu_approx_tanh(up, name="gelu").set_data_type("half")
    return graph.add(graph.matmul(h, w2, name="down"), b2, name="b2")


def transformer(tokens: int, heads: int, depth: int, *, half: bool = False) -> Graph:
    """Return x + attention(norm(x)), and that plus MLP(norm(.)): one block, pre-norm."""
    graph = _graph("transformer_block", half)
    width = heads * depth
    x = _tensor(graph, (tokens, width), "x")

    def normed(value: Tensor, i: int) -> Tensor:
        scale, bias = (_tensor(graph, (1, width), f"{p}{i}") for p in ("scale", "bias"))
        return graph.layernorm(value, scale, bias, name=f"ln{i}").y.set_data_type("half")

    n1 = normed(x, 1)
    split = []
    for p in "qkv":
        flat = graph.matmul(n1, _tensor(graph, (width, width), f"w{p}"), name=p)
        flat.set_data_type("half")
        apart = graph.reshape(flat, dim=(1, tokens, heads, depth), name=f"split_{p}")
        split.append(graph.transpose(apart, permutation=(0, 2, 1, 3), name=f"heads_{p}"))
    o = graph.sdpa(*split, name="sdpa").o.set_data_type("half")
    joined = graph.reshape(
        graph.transpose(o, permutation=(0, 2, 1, 3), name="join"), dim=(tokens, width), name="rows"
    )
    out = graph.matmul(joined, _tensor(graph, (width, width), "wo"), name="out")
    h = graph.add(out, x, name="skip1").set_data_type("half")
    return _done(graph, graph.add(_mlp(graph, normed(h, 2), width, 4 * width), h, name="skip2"))


def _convs() -> dict[str, Workload]:
    image, taps = (8, 64, 56, 56), (64, 64, 3, 3)
    found = {}
    for x_last, x_name in ((False, "nchw"), (True, "nhwc")):
        for w_last, w_name in ((False, "kcrs"), (True, "krsc")):
            made = partial(conv, image, taps, padding=1, x_last=x_last, w_last=w_last)
            if x_last == w_last:
                found[f"conv3x3_{x_name}"] = Workload(build=made, products=1)
            found[f"conv3x3_bias_relu_{x_name}_{w_name}"] = Workload(
                build=partial(made, epilogue=True), products=1, dispatches=1
            )
        found[f"conv1x1_{x_name}"] = Workload(
            build=partial(conv, (8, 256, 56, 56), (64, 256, 1, 1), x_last=x_last), products=1
        )
        found[f"conv3x3_stride2_{x_name}"] = Workload(
            build=partial(conv, image, (128, 64, 3, 3), padding=1, stride=2, x_last=x_last),
            products=1,
        )
        found[f"stem7x7_{x_name}"] = Workload(
            build=partial(
                conv, (8, 3, 224, 224), (64, 3, 7, 7), padding=3, stride=2, x_last=x_last
            ),
            products=1,
        )
        found[f"depthwise3x3_{x_name}"] = Workload(
            build=partial(conv, (8, 128, 56, 56), (128, 1, 3, 3), padding=1, x_last=x_last),
            reason="each channel has a filter of its own: there is no matrix to multiply",
        )
        found[f"grouped3x3_{x_name}"] = Workload(
            build=partial(conv, (8, 128, 56, 56), (128, 32, 3, 3), padding=1, x_last=x_last),
            products=1,
        )
        found[f"dgrad3x3_{x_name}"] = Workload(
            build=partial(dgrad, image, taps, image, last=x_last), products=1
        )
        found[f"dgrad3x3_stride2_{x_name}"] = Workload(
            build=partial(dgrad, (8, 128, 28, 28), (128, 64, 3, 3), image, stride=2, last=x_last),
            products=1,
        )
        found[f"wgrad3x3_{x_name}"] = Workload(
            build=partial(wgrad, image, image, taps, last=x_last), products=1
        )
        found[f"wgrad3x3_stride2_{x_name}"] = Workload(
            build=partial(wgrad, (8, 128, 28, 28), image, (128, 64, 3, 3), stride=2, last=x_last),
            products=1,
        )
        found[f"residual_block_{x_name}"] = Workload(
            build=partial(residual, 8, 64, 56, last=x_last), products=2
        )
    return found


WORKLOADS: dict[str, Workload] = {
    **_convs(),
    "matmul": Workload(build=partial(matmul, 1024, 1024, 1024), products=1, dispatches=1),
    "matmul_bias_gelu": Workload(
        build=partial(matmul, 1024, 1024, 4096, epilogue=True), products=1, dispatches=1
    ),
    "sdpa": Workload(build=partial(sdpa, 8, 512, 64), products=1, dispatches=1),
    "sdpa_causal": Workload(build=partial(sdpa, 8, 512, 64, causal=True), products=1, dispatches=1),
    "layernorm": Workload(build=partial(norm, 4096, 1024), dispatches=1),
    "layernorm_n1000": Workload(
        build=partial(norm, 4096, 1000),
        dispatches=1,
        reason="rows that are no multiple of 64 go to single threads, unrolled (12 s to compile); "
        "completed, they take a list of 8 KB that is not fused",
    ),
    "rmsnorm": Workload(build=partial(norm, 4096, 1024, rms=True), dispatches=1),
    "rmsnorm_n1000": Workload(build=partial(norm, 4096, 1000, rms=True), dispatches=1),
    "softmax": Workload(build=partial(softmax, 4096, 1024)),
    "batchnorm_inference": Workload(
        build=partial(batchnorm, (16, 64, 56, 56)), plain=False, dispatches=1
    ),
    "batchnorm_training": Workload(build=partial(batchnorm, (16, 64, 56, 56), training=True)),
    "bias_gelu": Workload(build=partial(gelu, 4096, 1024), dispatches=1),
    "mlp": Workload(build=partial(mlp, 512, 768, 3072), products=2),
    "transformer_block": Workload(build=partial(transformer, 512, 12, 64), products=7, plain=False),
}
"""Name -> workload; the sizes are those of ResNet-50's and BERT's layers."""
