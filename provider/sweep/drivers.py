# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lines of MIOpenDriver and of Fusilli's benchmark driver, as cases of a suite.

::

    ./bin/MIOpenDriver convfp16 -n 16 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1 -I NHWC
    --iter 2 matmul -M 16 -N 32 -K 64 --a_type f16 --b_type f16 --out_type f16

Each line becomes what a suite would say of it, one case for each direction that it runs.  A flag
that is unknown, and a value for which hipDNN has no operation, make the case an invalid one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .driver_flags import COMMANDS, Line, parse
from .expand import Entry

__all__ = ["entries"]

About = dict[str, Any]
_SKIPPED = ("#", "[SKIP]")
_LAYOUTS = {
    **dict.fromkeys(("", "NC", "NCH", "NCHW", "NCDHW"), "contiguous"),
    **dict.fromkeys(("NHC", "NHWC", "NDHWC"), "channels_last"),
}
_WORDS = {"f32": "float", "f16": "half", "bf16": "bfloat16"}


def entries(text: str) -> Iterator[Entry]:
    """Yield the cases of all lines; ``#`` and ``[SKIP]`` begin lines that are left out."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.strip().startswith(_SKIPPED):
            yield from _of_line(line, number)


def _of_line(text: str, number: int) -> Iterator[Entry]:
    line = parse(text)
    made = list(_CASES[line.command](line)) if not line.problems else []
    if line.problems:
        about = {"name": line.text, "op": line.command}
        yield Entry(about=about, line=number, problems=tuple(line.problems))
        return
    for word, about in made:
        name = f"{line.text} {word}" if len(made) > 1 else line.text
        yield Entry(about={"dtypes": [line.dtype], **about, "name": name}, line=number)


def _one_of(line: Line, flag: str, known: Mapping[Any, Any]) -> Any:
    """Return what a flag's value stands for."""
    if line[flag] not in known:
        line.add("DRIVER-03", flag, line[flag], f"one of {', '.join(map(str, known))}")
        return next(iter(known.values()))
    return known[line[flag]]


def _must_be(line: Line, **values: Any) -> None:
    """Note flags that have another value than the one that hipDNN's op has."""
    for flag, value in values.items():
        if line[flag] != value:
            line.add("DRIVER-03", flag, line[flag], f"{value}, as in hipDNN's operation")


def _extent(size: int, pads: int, window: int, stride: int, dilation: int = 1) -> int:
    return (size + 2 * pads - dilation * (window - 1) - 1) // max(stride, 1) + 1


def _directions(line: Line, bits: Mapping[int, str]) -> list[str]:
    """Return the directions that ``forw`` asks for; 0 is all of them."""
    asked = line["forw"] or sum(bits)
    return [word for bit, word in bits.items() if asked & bit]


# ------------------------------------------------------------------------ convolution


def _convolution(line: Line) -> Iterator[tuple[str, About]]:
    _choose_convolution(line)
    depth = line["spatial_dim"] == 3
    axes = ("d", "h", "w") if depth else ("h", "w")
    n, c, k, groups = (
        line[flag] for flag in ("batchsize", "in_channels", "out_channels", "group_count")
    )
    groups = max(groups, 1)
    if c % groups or k % groups:
        line.add("DRIVER-04", "group_count", groups, f"a divisor of {c} and {k} channels")
    image, window, stride, dilation, pads, extra = (
        [line[f"{prefix}_{axis}"] for axis in axes]
        for prefix in ("in", "fil", "conv_stride", "dilation", "pad", "trans_output_pad")
    )
    if line["pad_mode"] != "default":
        pads = _padding(line["pad_mode"], image, window, stride, pads)
    layouts = [_layout(line, flag, len(axes) + 2) for flag in ("in", "fil", "out")]
    turned = line["mode"] in ("trans", "transpose")
    sizes = list(zip(image, pads, window, stride, dilation, extra, strict=True))
    if turned:
        out = [(i - 1) * s - 2 * p + d * (w - 1) + 1 + e for i, p, w, s, d, e in sizes]
    else:
        out = [_extent(i, p, w, s, d) for i, p, w, s, d, _ in sizes]
    if min(*out, *image, n, c, k) < 1:
        line.add("DRIVER-04", "in_h", image, f"an output of positive extents, not {out}")
    if line.problems:
        return
    filters = [c, k // groups, *window] if turned else [k, c // groups, *window]
    tensors = [
        {"dims": dims, "layout": layout}
        for dims, layout in zip(([n, c, *image], filters, [n, k, *out]), layouts, strict=True)
    ]
    keywords = {"padding": pads, "stride": stride, "dilation": dilation}
    make = _transposed if turned else _forward
    for word in _directions(line, {1: "fwd", 2: "bwd", 4: "wrw"}):
        yield word, make(line, word, tensors, keywords)


def _choose_convolution(line: Line) -> None:
    """Settle the flags that both drivers spell in ways of their own."""
    if str(line["mode"]).isdigit():  # Fusilli's word for the direction
        line.given |= {"forw": int(line["mode"]), "mode": "conv"}
    for flag, kind in (("fp16", "half"), ("bf16", "bfloat16")):
        if line[flag]:
            line.dtype = kind
    line.given["bias"] = bool(int(line["bias"]))
    modes = ("conv", "trans", "transpose")
    _one_of(line, "mode", dict.fromkeys(modes))
    _one_of(line, "spatial_dim", {2: 2, 3: 3})
    _one_of(line, "pad_mode", dict.fromkeys(("default", "same", "valid")))
    _one_of(line, "forw", dict.fromkeys(range(8)))
    _must_be(line, pad_val=0, tensor_vect=0, vector_length=1)
    _must_be(line, in_cast_type=-1, wei_cast_type=-1, out_cast_type=-1)


def _padding(
    mode: str, image: list[int], window: list[int], stride: list[int], pads: list[int]
) -> list[int]:
    """Return MIOpen's padding of a mode; both sides have the same."""
    if mode == "valid":
        return [0] * len(pads)
    found = []
    for i, w, s in zip(image, window, stride, strict=True):
        over = w - s if i % s == 0 else w - i % s
        found.append(max(over, 0) // 2)
    return found


def _layout(line: Line, flag: str, rank: int) -> str:
    word = str(line[f"{flag}_layout"]).upper()
    if word not in _LAYOUTS or (word and len(word) != rank):
        known = ", ".join(name for name in _LAYOUTS if len(name) == rank)
        line.add("DRIVER-03", f"{flag}_layout", word, f"one of {known}")
    return _LAYOUTS.get(word, "contiguous")


def _forward(line: Line, word: str, tensors: list[Any], keywords: About) -> About:
    x, w, y = tensors
    if word == "bwd":
        return {"op": "conv_dgrad", "dy": y, "w": w, "dx": x, "dx_dims": x["dims"], **keywords}
    if word == "wrw":
        about = {"op": "conv_wgrad", "in": ["dy", "x"], "out": "dw", "dw_dims": w["dims"]}
        return _with_bias_gradient(line, {"dy": y, "x": x}, {**about, **keywords}, {"dw": w})
    about = {"op": "conv_fprop", "in": ["x", "w"], "out": "y", **keywords}
    y = {**y, "type": "sum"}
    if not line["bias"]:
        return {"tensors": {"x": x, "w": w}, "nodes": [about], "results": {"y": y}}
    bias = [1, y["dims"][1], *[1] * (len(y["dims"]) - 2)]
    nodes = [about, {"op": "add", "in": ["y", "bias"], "out": "z"}]
    return {"tensors": {"x": x, "w": w, "bias": bias}, "nodes": nodes, "results": {"z": y}}


def _with_bias_gradient(line: Line, tensors: About, node: About, results: About) -> About:
    nodes = [node]
    if line["bias"]:
        axes = [axis for axis in range(len(tensors["dy"]["dims"])) if axis != 1]
        nodes.append({"op": "reduction", "in": "dy", "out": "db", "mode": "add", "axes": axes})
    return {"tensors": tensors, "nodes": nodes, "results": results}


def _transposed(line: Line, word: str, tensors: list[Any], keywords: About) -> About:
    """Return a transposed convolution: each direction is another one of a convolution."""
    x, w, y = tensors
    if word == "fwd":
        return {"op": "conv_dgrad", "dy": x, "w": w, "dx": y, "dx_dims": y["dims"], **keywords}
    if word == "bwd":
        return {"op": "conv_fprop", "x": y, "w": w, "y": x, **keywords}
    return {"op": "conv_wgrad", "dy": x, "x": y, "dw": w, "dw_dims": w["dims"], **keywords}


# ------------------------------------------------------------------------ norms, pooling


def _batchnorm(line: Line) -> Iterator[tuple[str, About]]:
    _one_of(line, "mode", {0: 0, 1: 1})
    _one_of(line, "forw", {0: 0, 1: 1, 2: 2})
    _must_be(line, alpha=1.0, beta=0.0)
    n, c, *image = (line[flag] for flag in ("batchsize", "in_channels", "in_h", "in_w"))
    image = [line["in_d"], *image] if line["in_d"] else image
    dims = [n, c, *image]
    line.given |= {"x_layout": line["layout"]}
    layout = _layout(line, "x", len(dims))
    if line["mode"] == 0:  # statistics for each element of an image: each is a channel
        for extent in image:
            c *= extent
        dims, layout = [n, c], "contiguous"
    if line.problems:
        return
    x = {"dims": dims, "layout": layout} if len(dims) > 2 else {"dims": dims}
    own = {"dims": [1, c, *[1] * (len(dims) - 2)], "type": "wide" if _mixed(line) else "dtype"}
    statistics = {**own, "type": "wide"}
    if line["back"] and not line["forw"]:
        yield "bwd", {
            "op": "batchnorm_backward", "dy": x, "x": x, "scale": own, "mean": statistics,
            "inv_variance": statistics, "dscale": own, "dbias": own,
        }  # fmt: skip
    elif line["forw"] == 2:
        yield "fwd", {
            "op": "batchnorm_inference_variance_ext", "x": x, "mean": statistics,
            "variance": statistics, "scale": own, "bias": own, "epsilon": 1e-5,
        }  # fmt: skip
    else:
        about: About = {"op": "batchnorm", "x": x, "scale": own, "bias": own}
        results = ["mean", "inv_variance"]
        if line["run"]:
            about |= {f"prev_running_{name}": statistics for name in ("mean", "variance")}
            about["momentum"] = 0.1
            results += ["next_running_mean", "next_running_variance"]
        yield "fwd", {**about, **{name: {"type": "wide"} for name in results}}


def _mixed(line: Line) -> bool:
    return line.text.split("bnorm", 1)[-1].split()[0].endswith("fp32")


_POOLING = {
    "max": ("maxpool", "neg_inf_pad"),
    "avg": ("avgpool_exclude_padding", "zero_pad"),
    "avg_in": ("avgpool_include_padding", "zero_pad"),
}


def _pool(line: Line) -> Iterator[tuple[str, About]]:
    dims, layout = _descriptor(line, "input")
    if len(dims) == 1:  # as older drivers have it
        width = dims[0] if not line["in_w"] else line["in_w"]
        dims = [line["batchsize"], line["in_channels"], line["in_h"], width]
    mode, padding = _one_of(line, "mode", _POOLING)
    _one_of(line, "forw", {0: 0, 1: 1, 2: 2, 3: 3})
    _one_of(line, "pad_mode", {"default": 0, "valid": 0})
    _must_be(line, pad_val=0, dinput="", output="")
    if len(dims) not in (4, 5):
        line.add("DRIVER-04", "input", dims, "NxCxHxW or NxCxDxHxW")
        return
    axes = ("d", "h", "w")[5 - len(dims) :]
    window, stride, pads = (
        [line[f"{prefix}_{axis}"] for axis in axes] for prefix in ("win", "pool_stride", "pad")
    )
    if line["pad_mode"] == "valid":
        pads = [0] * len(pads)
    sizes = zip(dims[2:], pads, window, stride, strict=True)
    out = [_extent(*each) for each in sizes]
    if min(out) < 1:
        line.add("DRIVER-04", "win_h", window, f"windows within {dims[2:]} and {pads} around it")
    if line.problems:
        return
    x, dy = ({"dims": d, "layout": layout} for d in (dims, [*dims[:2], *out]))
    about = {"resample_mode": mode, "padding_mode": padding, "window": window, "stride": stride,
             "pre_padding": pads, "post_padding": pads}  # fmt: skip
    words = _directions(line, {1: "fwd", 2: "bwd"})
    if "fwd" in words:
        index = "bwd" in words and mode == "maxpool"
        more = {"generate_index": True} if index else {}
        yield "fwd", {"op": "resample_fwd", "x": x, **about, **more}
    if "bwd" in words and mode != "maxpool":
        yield "bwd", {"op": "resample_bwd", "dy": dy, "dx_dims": dims, **about}
    elif "bwd" in words:
        nodes = [
            {"op": "resample_fwd", "in": "x", "out": [None, "i"], "generate_index": True, **about},
            {"op": "resample_bwd", "in": "dy", "out": "dx", "index": "i", "dx_dims": dims, **about},
        ]
        yield "bwd", {"tensors": {"x": x, "dy": dy}, "nodes": nodes}


def _descriptor(line: Line, flag: str) -> tuple[list[int], str]:
    """Return dims and layout of a tensor such as ``100x3x32x32,NHWC``."""
    text, _, layout = str(line[flag]).partition(",")
    try:
        dims = [int(word) for word in text.split("x")]
    except ValueError:
        dims = [0]
    if min(dims) < 1:
        line.add("DRIVER-02", flag, text, "extents from 1, such as 100x3x32x32")
    line.given[f"{flag}_layout"] = layout
    return dims, _layout(line, flag, len(dims)) if layout else "contiguous"


def _softmax(line: Line) -> Iterator[tuple[str, About]]:
    """Yield softmax as the chain that hipDNN's graphs have for it."""
    axes = _one_of(line, "mode", {0: [1, 2, 3], 1: [1]})
    _one_of(line, "algorithm", {0: 0, 1: 1, 2: 2})
    _one_of(line, "forw", {0: 0, 1: 1, 2: 2, 3: 3})
    _must_be(line, alpha=1.0, beta=0.0)
    dims = [line[flag] for flag in ("batchsize", "in_channels", "in_h", "in_w")]
    if line.problems:
        return
    reduced = {"op": "reduction", "axes": axes}
    words = _directions(line, {1: "fwd", 2: "bwd"})
    log = line["algorithm"] == 2
    if "fwd" in words:
        nodes: list[About] = []
        if line["algorithm"]:
            nodes = [
                {**reduced, "in": "x", "out": "largest", "mode": "max"},
                {"op": "sub", "in": ["x", "largest"], "out": "shift"},
            ]
        start = "shift" if nodes else "x"
        nodes += [
            {"op": "exp", "in": start, "out": "e"},
            {**reduced, "in": "e", "out": "total", "mode": "add"},
        ]
        if log:
            nodes.append({"op": "log", "in": "total", "out": "l"})
        operands = [start, "l"] if log else ["e", "total"]
        nodes.append({"op": "sub" if log else "div", "in": operands, "out": "y"})
        yield "fwd", {"tensors": {"x": dims}, "nodes": nodes}
    if "bwd" in words:
        yield "bwd", {"tensors": {"y": dims, "dy": dims}, "nodes": _softmax_backward(log, reduced)}


def _softmax_backward(log: bool, reduced: About) -> list[About]:
    """Return y·(dy - Σ dy·y), and of the logarithm dy - exp(y)·Σ dy."""
    if log:
        return [
            {"op": "exp", "in": "y", "out": "p"},
            {**reduced, "in": "dy", "out": "total", "mode": "add"},
            {"op": "mul", "in": ["p", "total"], "out": "scaled"},
            {"op": "sub", "in": ["dy", "scaled"], "out": "dx"},
        ]
    return [
        {"op": "mul", "in": ["dy", "y"], "out": "p"},
        {**reduced, "in": "p", "out": "total", "mode": "add"},
        {"op": "sub", "in": ["dy", "total"], "out": "rest"},
        {"op": "mul", "in": ["y", "rest"], "out": "dx"},
    ]


def _layernorm(line: Line) -> Iterator[tuple[str, About]]:
    """Yield MIOpen's or Fusilli's: the latter gives a type, a layout or ``elementwise_affine``."""
    dims, _ = _descriptor(line, "input")
    fusilli = not str(line["type"]).isdigit() and bool(
        line["type"] or line["layout"] or line["elementwise_affine"]
    )
    first = 1 if fusilli else line["normalized_dim"]
    _one_of(line, "mode", {0: 0, 1: 1})
    _one_of(line, "forw", {0: 0, 1: 1})
    if fusilli and line["type"]:
        line.dtype = _one_of(line, "type", _WORDS)
    line.given["x_layout"] = line["layout"]
    layout = _layout(line, "x", len(dims))
    if not 0 <= first < len(dims):
        line.add("DRIVER-04", "normalized_dim", first, f"0 to {len(dims) - 1}")
    if line.problems:
        return
    affine = line["elementwise_affine"] if fusilli else line["mode"] == 1
    own: Any = {"dims": [1] * first + dims[first:]}
    if len(dims) > 2:
        own["layout"] = layout
    x = {"dims": dims, **({"layout": layout} if len(dims) > 2 else {})}
    yield (
        "fwd",
        {
            "op": "layernorm",
            "x": x,
            "scale": own if affine else 1,
            "bias": own if affine else 0,
            "epsilon": line["eps"],
            "forward_phase": "training",
            "normalized_dim_count": len(dims) - first,
        },
    )


# ------------------------------------------------------------------------ products, elements


def _gemm(line: Line) -> Iterator[tuple[str, About]]:
    _must_be(line, alpha=1.0, beta=0.0)
    _one_of(line, "forw", {0: 0, 1: 1})
    batch, m, n, k = (line[flag] for flag in ("batch_count", "a_h", "b_w", "a_w"))
    # In column-major order each matrix is the transpose of one in row-major order.
    columns = bool(line["isColMajor"])
    a = _matrix(batch, m, k, bool(line["transA"]) != columns)
    b = _matrix(batch, k, n, bool(line["transB"]) != columns)
    about: About = {"op": "matmul", "a": a, "b": b}
    if columns:
        about["c"] = _matrix(batch, m, n, columns)
    yield "fwd", about


def _matrix(batch: int, rows: int, columns: int, turned: bool) -> About:
    """Return a matrix, or several; one that is turned lies column by column."""
    first = [batch] if batch > 1 else []
    rank = len(first) + 2
    order = [*range(rank - 2), rank - 1, rank - 2]
    return {"dims": [*first, rows, columns], **({"order": order} if turned else {})}


def _matmul(line: Line) -> Iterator[tuple[str, About]]:
    batch, m, n, k = (line[flag] for flag in ("b", "m", "n", "k"))
    for flag in ("m", "n", "k"):
        if line[flag] < 1:
            line.add("DRIVER-02", f"-{flag.upper()}", line[flag], "an extent from 1")
    a_type, b_type, bias_type, out_type = (
        _one_of(line, f"{name}_type", _WORDS) for name in ("a", "b", "bias", "out")
    )
    line.dtype = a_type
    a = {**_matrix(batch, m, k, line["transA"]), "type": a_type}
    b = {**_matrix(batch, k, n, line["transB"]), "type": b_type}
    nodes: list[About] = [{"op": "matmul", "in": ["a", "b"], "out": "c"}]
    tensors: About = {"a": a, "b": b}
    results: About = {"c": {"type": out_type}}
    if line["bias"]:
        tensors["bias"] = {"dims": [*([1] if batch > 1 else []), 1, n], "type": bias_type}
        nodes.append({"op": "add", "in": ["c", "bias"], "out": "d"})
        results = {"c": {"type": bias_type}, "d": {"type": out_type}}
    yield "fwd", {"tensors": tensors, "nodes": nodes, "results": results, "compute": "float"}


def _sdpa(line: Line) -> Iterator[tuple[str, About]]:
    line.dtype = _one_of(line, "type", _WORDS)
    _must_be(line, dropout=0.0)
    n, heads, shared, rows, keys, depth = (
        line[f] for f in ("batch", "heads_q", "heads_kv", "seq_q", "seq_kv", "head_dim")
    )
    if heads != shared and not line["gqa"]:
        line.add("DRIVER-04", "heads_kv", shared, f"{heads}, or --gqa")
    if line["mask"] and line["causal"]:
        line.add("DRIVER-04", "mask", "both", "a mask or --causal")
    about: About = {
        "op": "sdpa",
        "q": [n, heads, rows, depth],
        "k": [n, shared, keys, depth],
        "v": [n, shared, keys, depth],
    }
    if line["mask"]:
        about["attn_mask"] = [n, 1, rows, keys]
    if line["causal"]:
        about["causal_mask"] = True
    if line["scale"]:
        try:
            about["attn_scale_value"] = float(line["scale"])
        except ValueError:
            line.add("DRIVER-02", "scale", line["scale"], "a number")
    yield "fwd", about


_ACTIVATIONS: dict[int, tuple[str, str]] = {
    0: ("identity", ""),
    1: ("sigmoid", ""),
    2: ("tanh", ""),
    3: ("relu", ""),
    4: ("softplus", ""),
    5: ("abs", ""),
    7: ("relu", "relu_upper_clip"),
    8: ("relu", "relu_lower_clip_slope"),
    9: ("elu", "elu_alpha"),
}
"""MIOpen's number of an activation: the method, and the keyword that its alpha is."""


def _activation(line: Line) -> Iterator[tuple[str, About]]:
    op, keyword = _one_of(line, "mode", _ACTIVATIONS)
    _must_be(line, forw=1, beta=1.0, gamma=1.0, **({} if keyword else {"alpha": 1.0}))
    x = [line[flag] for flag in ("batchsize", "in_channels", "in_h", "in_w")]
    mode = {"elu": "elu_fwd", "relu": "relu_fwd"}.get(op, "")
    if keyword:
        yield "fwd", {"op": "pointwise", "in_0": x, "mode": mode, keyword: line["alpha"]}
    else:
        yield "fwd", {"op": op, "x": x}


_REDUCTIONS = dict(enumerate(("add", "mul", "min", "max", "amax", "avg", "norm1", "norm2")))


def _reduction(line: Line) -> Iterator[tuple[str, About]]:
    numbers = []
    for flag in ("DimLengths", "DimsToReduce"):
        try:
            numbers.append([int(word) for word in str(line[flag]).split(",")])
        except ValueError:
            line.add("DRIVER-02", flag, line[flag], "integers with commas between them")
    mode = _one_of(line, "ReduceOp", _REDUCTIONS)
    _must_be(line, alpha=1.0, beta=0.0, IndicesUsed=0, NanPropagation=0, forw=1)
    _one_of(line, "CompType", {0: "half", 1: "float", 6: "double"})
    if line.problems:
        return
    compute = {0: "half", 1: "float", 6: "double"}[line["CompType"]]
    compute = "double" if line.dtype == "double" else compute
    dims, axes = numbers
    yield "fwd", {"op": "reduction", "x": dims, "axes": axes, "mode": mode, "compute": compute}


_CASES: dict[str, Callable[[Line], Iterator[tuple[str, About]]]] = {
    "conv": _convolution,
    "bnorm": _batchnorm,
    "pool": _pool,
    "softmax": _softmax,
    "activ": _activation,
    "gemm": _gemm,
    "layernorm": _layernorm,
    "reduce": _reduction,
    "matmul": _matmul,
    "sdpa": _sdpa,
}
assert _CASES.keys() == COMMANDS.keys()
