# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What random graphs grow by: an op (or the few that belong together) on fitting operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ....graph_api.dtypes import DataType
from ....graph_api.enums import ReductionMode
from .maker import EXTENTS, Known, Maker

__all__ = ["growths"]

Grow = Callable[[Maker], Any]
Ints = tuple[int, ...]


def growths(style: str) -> list[tuple[Grow, float]]:
    """Return the ways to grow, each with its weight in a style of graphs."""
    group = {"conv": _CONVS, "product": _PRODUCTS, "rows": _ROWS, "moves": _MOVES}.get(style, ())
    if style == "integers":
        return [(grow, 1.0) for grow in _INTEGERS] + [(grow, 0.3) for grow in _MOVES]
    usual = (*_CONVS, *_PRODUCTS, *_ROWS, *_MOVES, *_POINTWISE, *_SELDOM)
    weights = [4.0 if g in group else 0.3 if g in _SELDOM else 1.0 for g in usual]
    return list(zip(usual, weights, strict=True))


# ---------------------------------------------------------------------------- operands


def _is_float(known: Known) -> bool:
    return known.data_type.is_float and known.data_type.bits >= 16 and known.dims != (1,)


def _floats(m: Maker, *ranks: int, most: int = 20_000) -> int:
    """Return a float tensor of one of the ranks: one that is there, or a new one."""

    def fits(known: Known) -> bool:
        small = prod(known.dims) <= most
        return _is_float(known) and small and (not ranks or len(known.dims) in ranks)

    found = m.pick(fits) if m.rng.random() < 0.9 else None
    return m.tensor(_dims(m, m.rng.choice(ranks or (2, 3, 4, 4)), most)) if found is None else found


def _dims(m: Maker, rank: int, most: int = 4000) -> Ints:
    while True:
        dims = tuple(m.rng.choice(EXTENTS) for _ in range(rank))
        if prod(dims) <= min(most, 4000):
            return dims


def _extent(m: Maker, most: int = 33) -> int:
    return m.rng.choice([e for e in EXTENTS if e <= most])


def _like(m: Maker, dims: Ints) -> int:
    """Return a tensor of these dims, or one that is repeated to them."""
    found = m.pick(lambda k: _is_float(k) and k.dims == dims) if m.rng.random() < 0.6 else None
    if found is not None:
        return found
    if m.rng.random() < 0.5:
        return m.tensor(dims)
    return m.tensor([d if m.rng.random() < 0.5 else 1 for d in dims])


def _same(m: Maker, dims: Ints) -> int:
    """Return a tensor of exactly these dims."""
    found = m.pick(lambda k: _is_float(k) and k.dims == dims) if m.rng.random() < 0.5 else None
    return m.tensor(dims) if found is None else found


# ---------------------------------------------------------------------------- pointwise

_UNARY = ("relu", "gelu", "gelu_approx_tanh", "sigmoid", "tanh", "elu", "softplus", "swish", "abs",
          "neg", "erf", "sin", "cos", "identity", "identity", "ceil", "floor")  # fmt: skip
_BINARY = ("add", "add", "sub", "mul", "mul", "max", "min", "add_square")
_BACKWARD = ("gelu_backward", "gelu_approx_tanh_backward", "sigmoid_backward", "tanh_backward",
             "relu_backward", "elu_backward", "softplus_backward", "swish_backward")  # fmt: skip


def _unary(m: Maker) -> Any:
    method = m.rng.choice(_UNARY)
    parameters: dict[str, Any] = {}
    if method == "relu" and m.rng.random() < 0.4:
        parameters = {"lower_clip": -0.25, "upper_clip": 0.75, "lower_clip_slope": 0.125}
    if method == "elu" and m.rng.random() < 0.4:
        parameters = {"alpha": 0.5}
    if method in ("softplus", "swish") and m.rng.random() < 0.4:
        parameters = {"beta": 1.5}
    return m.op(method, _floats(m), **parameters)


def _binary(m: Maker) -> Any:
    x = _floats(m)
    draw = m.rng.random()
    if draw < 0.15:
        other: Any = m.number()
    elif draw < 0.25:
        other = ("value", m.rng.choice([0.5, -1.5, 3.0]))
    elif draw < 0.3:
        other = x
    else:
        other = _like(m, m.known[x].dims)
    pair = [x, other]
    m.rng.shuffle(pair)
    return m.op(m.rng.choice(_BINARY), *pair)


def _residual(m: Maker) -> Any:
    """Join two computed tensors of the same dims."""
    x = m.pick(_is_float, computed=True)
    if x is None:
        return None
    y = m.pick(lambda k: _is_float(k) and k.dims == m.known[x].dims and m.known[x] is not k)
    return None if y is None else m.op(m.rng.choice(("add", "mul", "max")), x, y)


def _guarded(m: Maker) -> Any:
    """Apply a function to operands that it is defined for."""
    size = m.op("abs", _floats(m))
    if size is None:
        return None
    away = m.op("add", size[0], ("value", 0.5))
    if away is None:
        return None
    what = m.rng.choice(("sqrt", "rsqrt", "log", "reciprocal", "div", "pow", "mod"))
    if what in ("div", "mod"):
        return m.op(what, _like(m, m.known[away[0]].dims), away[0])
    return m.op("pow", away[0], ("value", 1.5)) if what == "pow" else m.op(what, away[0])


def _backward(m: Maker) -> Any:
    x = _floats(m)
    return m.op(m.rng.choice(_BACKWARD), _same(m, m.known[x].dims), x)


def _compare(m: Maker) -> Any:
    x = _floats(m)
    dims = m.known[x].dims
    method = m.rng.choice(("cmp_ge", "cmp_gt", "cmp_le", "cmp_lt"))
    mask = m.op(method, x, _like(m, dims))
    if mask is None or m.rng.random() < 0.3:
        return mask
    return m.op("binary_select", _like(m, dims), _like(m, dims), mask[0])


def _index(m: Maker) -> Any:
    x = _floats(m)
    dims = m.known[x].dims
    index = m.op("gen_index", x, axis=m.rng.randrange(len(dims)))
    return index and m.op("mul", index[0], ("value", 0.125))


# ---------------------------------------------------------------------------- matmul


def _matmul(m: Maker) -> Any:
    a = _floats(m, 2, 3, 4, most=6000)
    dims, draw = m.known[a].dims, m.rng.random()
    if draw < 0.25:
        fits = m.pick(lambda k: _is_float(k) and k.dims[:-2] == dims[:-2] and len(k.dims) > 1
                      and k.dims[-2] == dims[-1])  # fmt: skip
        if fits is not None:
            return m.op("matmul", a, fits)
    if draw < 0.35:
        order = [*range(len(dims) - 2), len(dims) - 1, len(dims) - 2]
        turned = m.op("transpose", a, permutation=order)
        pair = [a, *(turned or ())]
        m.rng.shuffle(pair)
        return turned and m.op("matmul", *pair)
    batch = dims[:-2]
    if m.rng.random() < 0.3:
        batch = tuple(m.rng.choice([1, d]) for d in batch)
    if m.rng.random() < 0.25:
        return m.op("matmul", m.tensor((*batch, _extent(m), dims[-2])), a)
    return m.op("matmul", a, m.tensor((*batch, dims[-1], _extent(m))))


def _attention(m: Maker) -> Any:
    q = m.pick(lambda k: _is_float(k) and len(k.dims) == 4 and prod(k.dims) < 4000)
    if q is None or m.rng.random() < 0.3:
        q = m.tensor((m.rng.choice((1, 2)), m.rng.choice((1, 2, 3, 4)), _extent(m), _extent(m)))
    b, heads, _, depth = m.known[q].dims
    shared = m.rng.choice([h for h in range(1, heads + 1) if heads % h == 0])
    keys = _extent(m)
    k = m.tensor((b, shared, keys, depth))
    v = m.tensor((b, shared, keys, m.rng.choice((depth, _extent(m)))))
    parameters: dict[str, Any] = {}
    if m.rng.random() < 0.4:
        parameters["right_bound"] = 0
    if m.rng.random() < 0.3:
        mask = (m.rng.choice((1, b)), m.rng.choice((1, heads)), m.known[q].dims[2], keys)
        parameters["attn_mask"] = ("tensor", m.tensor(mask))
    if m.rng.random() < 0.6:
        return m.op("sdpa", q, k, v, **parameters)
    found = m.op("sdpa", q, k, v, generate_stats=True, **parameters)
    if found is None or m.rng.random() < 0.5:
        return found
    do = _same(m, m.known[found[0]].dims)
    return m.op("sdpa_backward", q, k, v, found[0], do, found[1], **parameters)


# ---------------------------------------------------------------------------- convolutions


def _geometry(m: Maker, extents: Sequence[int], filter_size: Sequence[int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    rank = len(extents)
    if m.rng.random() < 0.25:
        found["stride"] = tuple(m.rng.choice((1, 2, 3)) for _ in range(rank))
    if m.rng.random() < 0.15:
        found["dilation"] = tuple(m.rng.choice((1, 2)) for _ in range(rank))
    draw = m.rng.random()
    if draw < 0.5:
        found["padding"] = tuple(t // 2 for t in filter_size)
    elif draw < 0.65:
        found["pre_padding"] = tuple(m.rng.choice((0, 1, t)) for t in filter_size)
        found["post_padding"] = tuple(m.rng.choice((0, 1)) for t in filter_size)
    return found


def _filter_size(m: Maker, extents: Sequence[int]) -> Ints:
    return tuple(m.rng.choice([t for t in (1, 1, 2, 3, 3, 5) if t <= e + 1]) for e in extents)


def _activation(m: Maker) -> int:
    found = m.pick(lambda k: _is_float(k) and len(k.dims) in (3, 4, 5) and prod(k.dims) <= 6000)
    if found is not None and m.rng.random() < 0.85:
        return found
    rank = m.rng.choices((1, 2, 3), (1, 8, 1))[0]
    while True:
        dims = (m.rng.choice((1, 1, 2, 3)), m.rng.choice((1, 2, 3, 4, 8, 15, 16, 17, 32)),
                *(m.rng.choice((1, 3, 4, 5, 7, 8, 9, 13)) for _ in range(rank)))  # fmt: skip
        if prod(dims) <= 3000:
            return m.tensor(dims)


def _groups(m: Maker, channels: int) -> int:
    divisors = [g for g in range(1, channels + 1) if channels % g == 0]
    return m.rng.choice(divisors) if m.rng.random() < 0.2 else 1


def _conv(m: Maker) -> Any:
    x = _activation(m)
    dims = m.known[x].dims
    groups, filter_size = _groups(m, dims[1]), _filter_size(m, dims[2:])
    filters = dims[1] if m.rng.random() < 0.3 else m.rng.choice((1, 2, 3, 4, 8, 15, 16, 17, 32))
    filters = filters if filters % groups == 0 else groups
    w = m.tensor((filters, dims[1] // groups, *filter_size))
    geometry = _geometry(m, dims[2:], filter_size)
    if m.rng.random() < 0.4:  # so that residuals fit
        geometry = {"padding": tuple(t // 2 for t in filter_size)}
    if m.rng.random() < 0.1:
        geometry["conv_mode"] = "CONVOLUTION"
    return m.op("conv_fprop", x, w, **geometry)


def _dgrad(m: Maker) -> Any:
    dy = _activation(m)
    n, filters, *extents = m.known[dy].dims
    channels, filter_size = m.rng.choice((1, 2, 3, 8, 16, 17)), _filter_size(m, extents)
    geometry = _geometry(m, extents, filter_size)
    step = geometry.get("stride", (1,) * len(filter_size))
    wide = geometry.get("dilation", (1,) * len(filter_size))
    both = [2 * p for p in geometry.get("padding", (0,) * len(filter_size))]
    if "pre_padding" in geometry:
        pairs = zip(geometry["pre_padding"], geometry["post_padding"], strict=True)
        both = [a + b for a, b in pairs]
    spatial = [
        (e - 1) * s + d * (t - 1) + 1 - p + (m.rng.randrange(s) if s > 1 else 0)
        for e, s, d, t, p in zip(extents, step, wide, filter_size, both, strict=True)
    ]
    if min(spatial) < 1:
        return None
    groups = _groups(m, filters)
    w = m.tensor((filters, channels, *filter_size))
    return m.op("conv_dgrad", dy, w, dx_dims=(n, channels * groups, *spatial), **geometry)


def _wgrad(m: Maker) -> Any:
    x = _activation(m)
    _, channels, *extents = m.known[x].dims
    filter_size = _filter_size(m, extents)
    geometry = _geometry(m, extents, filter_size)
    filters = m.rng.choice((1, 2, 3, 8, 16, 17))
    w = m.tensor((filters, channels, *filter_size))
    y = m.op("conv_fprop", x, w, **geometry)
    if y is None:
        return None
    dims = (filters, channels, *filter_size)
    dy = m.tensor(m.known[y[0]].dims) if m.rng.random() < 0.5 else y[0]
    return m.op("conv_wgrad", dy, x, dw_dims=dims, **geometry)


def _pool(m: Maker) -> Any:
    x = _activation(m)
    extents = m.known[x].dims[2:]
    window = tuple(m.rng.choice([t for t in (1, 2, 3) if t <= e]) for e in extents)
    mode = m.rng.choice(("maxpool", "avgpool_include_padding", "avgpool_exclude_padding"))
    about: dict[str, Any] = {"resample_mode": mode, "window": window}
    if m.rng.random() < 0.5:
        about["stride"] = window
    if m.rng.random() < 0.4:
        about["pre_padding"] = about["post_padding"] = tuple(w // 2 for w in window)
        choices = ("zero_pad", "neg_inf_pad") if mode == "maxpool" else ("zero_pad",)
        about["padding_mode"] = m.rng.choice(choices)
    index = mode == "maxpool" and m.rng.random() < 0.5
    found = m.op("resample_fwd", x, generate_index=index, **about)
    if found is None or m.rng.random() < 0.6 or (mode == "maxpool" and not index):
        return found
    dy = _same(m, m.known[found[0]].dims)
    if index:
        about["index"] = ("tensor", found[1])
    return m.op("resample_bwd", dy, dx_dims=m.known[x].dims, **about)


def _batchnorm(m: Maker) -> Any:
    x = _activation(m)
    dims = m.known[x].dims
    channels = tuple(d if i == 1 else 1 for i, d in enumerate(dims))
    a, b, c, d = (m.tensor(channels, DataType.FLOAT if m.rng.random() < 0.5 else None)
                  for _ in range(4))  # fmt: skip
    draw = m.rng.random()
    if draw < 0.3:
        return m.op("batchnorm_inference", x, a, b, c, d)
    if draw < 0.5:
        return m.op("batchnorm_inference_variance_ext", x, a, b, c, d)
    found = m.op("batchnorm", x, a, b)
    if found is None or m.rng.random() < 0.5:
        return found
    dy = _same(m, dims)
    saved: dict[str, Any] = {"mean": ("tensor", found[1]), "inv_variance": ("tensor", found[2])}
    return m.op("batchnorm_backward", dy, x, a, **(saved if m.rng.random() < 0.7 else {}))


# ---------------------------------------------------------------------------- rows

_REDUCTIONS = ("add", "avg", "max", "min", "amax", "norm1", "norm2", "add", "avg")


def _reduction(m: Maker) -> Any:
    x = _floats(m)
    rank = len(m.known[x].dims)
    axes = sorted(m.rng.sample(range(rank), m.rng.randint(1, min(rank, 3))))
    found = m.op("reduction", x, mode=m.rng.choice(_REDUCTIONS), axes=axes)
    if found is None or m.rng.random() < 0.4:
        return found
    return m.op(m.rng.choice(("sub", "add", "mul")), x, found[0])


def _softmax(m: Maker) -> Any:
    x = _floats(m)
    axis = m.rng.randrange(len(m.known[x].dims))
    top = m.op("reduction", x, mode=ReductionMode.MAX, axes=[axis])
    e = top and m.op("sub", x, top[0])
    e = e and m.op("exp", e[0])
    total = e and m.op("reduction", e[0], mode=ReductionMode.ADD, axes=[axis])
    return total and e and m.op("div", e[0], total[0])


def _row_norm(m: Maker) -> Any:
    x = _floats(m, 2, 3, 4)
    dims = m.known[x].dims
    count = m.rng.choice([n for n in (1, 1, 2, 3) if n < len(dims)])
    row = (*(1,) * (len(dims) - count), *dims[-count:])
    if prod(row) == 1:
        return None
    scale, bias = m.tensor(row), m.tensor(row)
    backward = m.rng.random() < 0.35
    phase = "TRAINING" if backward or m.rng.random() < 0.2 else "INFERENCE"
    if m.rng.random() < 0.5:
        found = m.op("layernorm", x, scale, bias, forward_phase=phase)
        if found is None or not backward:
            return found
        saved = {"mean": ("tensor", found[1]), "inv_variance": ("tensor", found[2])}
        own = {"epsilon": 1e-5}
        given: dict[str, Any] = saved if m.rng.random() < 0.6 else own
        return m.op("layernorm_backward", _same(m, dims), x, scale, **given)
    found = m.op("rmsnorm", x, scale, bias=("tensor", bias), forward_phase=phase)
    if found is None or not backward:
        return found
    return m.op("rmsnorm_backward", _same(m, dims), x, scale, found[1], has_dbias=True)


# ---------------------------------------------------------------------------- moves


def _any_of(m: Maker) -> int:
    found = m.pick(lambda k: k.dims != (1,) and k.data_type.bits >= 8)
    return m.tensor(_dims(m, m.rng.choice((2, 3, 4)))) if found is None else found


def _transpose(m: Maker) -> Any:
    x = _any_of(m)
    rank = len(m.known[x].dims)
    return m.op("transpose", x, permutation=m.rng.sample(range(rank), rank))


def _reshape(m: Maker) -> Any:
    x = _any_of(m)
    dims = list(m.known[x].dims)
    for _ in range(m.rng.randint(1, 3)):
        draw, at = m.rng.random(), m.rng.randrange(len(dims))
        if draw < 0.4 and len(dims) > 2:
            at = min(at, len(dims) - 2)
            dims[at : at + 2] = [dims[at] * dims[at + 1]]
        elif draw < 0.85 and len(dims) < 5:
            part = m.rng.choice([d for d in range(1, dims[at] + 1) if dims[at] % d == 0])
            dims[at : at + 1] = [part, dims[at] // part]
        else:
            m.rng.shuffle(dims)
    return m.op("reshape", x, dim=tuple(dims))


def _slice(m: Maker) -> Any:
    x = _any_of(m)
    starts, limits, strides = [], [], []
    for d in m.known[x].dims:
        whole = m.rng.random() < 0.5
        start = 0 if whole else m.rng.randrange(d)
        starts.append(start)
        limits.append(d if whole else m.rng.randint(start + 1, d))
        strides.append(1 if m.rng.random() < 0.7 else m.rng.choice((2, 3)))
    return m.op("slice", x, starts=starts, limits=limits, strides=strides)


def _concatenate(m: Maker) -> Any:
    x = _any_of(m)
    dims, kind = m.known[x].dims, m.known[x].data_type
    axis = m.rng.randrange(len(dims))

    def fits(k: Known) -> bool:
        others = [a == b for i, (a, b) in enumerate(zip(k.dims, dims, strict=False)) if i != axis]
        return k.data_type is kind and len(k.dims) == len(dims) and all(others)

    parts = [x]
    for _ in range(m.rng.randint(1, 2)):
        more = m.pick(fits) if m.rng.random() < 0.6 else None
        if more is None:
            shape = [m.rng.choice((1, 2, d)) if i == axis else d for i, d in enumerate(dims)]
            more = m.tensor(shape, kind)
        parts.append(more)
    m.rng.shuffle(parts)
    return m.op("concatenate", parts, axis=axis)


def _pad(m: Maker) -> Any:
    x = _any_of(m)
    dims = m.known[x].dims
    ends = [[m.rng.choice((0, 0, 1, 2, -1 if d > 2 else 0)) for d in dims] for _ in range(2)]
    value = m.rng.choice((0.0, 0.0, 1.5))
    if not m.known[x].data_type.is_float:
        value = 0.0
    return m.op("pad", x, pre_padding=ends[0], post_padding=ends[1], value=value)


# ---------------------------------------------------------------------------- integers, narrow

_INTS = (DataType.INT32, DataType.INT8, DataType.UINT8, DataType.INT64)


def _is_integer(known: Known) -> bool:
    return known.data_type.is_integer and known.data_type.bits >= 8


def _whole(m: Maker, dims: Ints = ()) -> int:
    def fits(k: Known) -> bool:
        return _is_integer(k) and (k.dims == dims if dims else k.dims != (1,))

    found = m.pick(fits) if m.rng.random() < 0.8 else None
    if found is None:
        found = m.tensor(dims or _dims(m, m.rng.choice((2, 3, 4))), m.rng.choice(_INTS))
    return found


def _integers(m: Maker) -> Any:
    x = _whole(m)
    dims = m.known[x].dims
    compute = {"compute_data_type": m.rng.choice((DataType.INT32, DataType.INT64))}
    method = m.rng.choice(("add", "sub", "mul", "max", "min", "abs", "neg", "relu", "identity"))
    y = [] if method in ("abs", "neg", "relu", "identity") else [_whole(m, dims)]
    kind = m.rng.choice(_INTS) if m.rng.random() < 0.6 else DataType.INT32
    return m.op(method, x, *y, kinds=[kind], **compute)


def _logic(m: Maker) -> Any:
    x = _whole(m)
    dims = m.known[x].dims
    compute = {"compute_data_type": DataType.INT64}
    mode = m.rng.choice(("cmp_eq", "cmp_lt", "cmp_neq"))
    kinds = [m.rng.choice((DataType.BOOLEAN, DataType.INT8))]
    mask = m.op(mode, x, _whole(m, dims), kinds=kinds, **compute)
    if mask is None:
        return None
    if m.rng.random() < 0.4:
        other = m.tensor(dims, DataType.BOOLEAN)
        mode = m.rng.choice(("logical_and", "logical_or"))
        both = m.op(mode, mask[0], other, kinds=[DataType.BOOLEAN], **compute)
        both = both and m.op("logical_not", both[0], kinds=[DataType.BOOLEAN], **compute)
        mask = both or mask
    if m.rng.random() < 0.6:
        return m.op(
            "binary_select", x, _whole(m, dims), mask[0], kinds=[m.known[x].data_type], **compute
        )
    return mask


def _sum_integers(m: Maker) -> Any:
    x = _whole(m)
    rank = len(m.known[x].dims)
    mode = m.rng.choice(("add", "max", "min", "amax"))
    return m.op("reduction", x, mode=mode, axes=[m.rng.randrange(rank)],
                compute_data_type=DataType.INT64, kinds=[m.rng.choice(_INTS)])  # fmt: skip


def _multiply_integers(m: Maker) -> Any:
    x = m.pick(lambda k: k.data_type is DataType.INT8 and len(k.dims) in (2, 3))
    x = m.tensor(_dims(m, 2), DataType.INT8) if x is None else x
    dims = m.known[x].dims
    w = m.tensor((*dims[:-2], dims[-1], _extent(m)), DataType.INT8)
    kinds = [m.rng.choice((DataType.INT32, DataType.INT8))]
    return m.op("matmul", x, w, compute_data_type=DataType.INT32, kinds=kinds)


def _as_float(m: Maker) -> Any:
    """Convert between integers and floats."""
    if m.rng.random() < 0.5:
        kind = m.rng.choice((DataType.FLOAT, DataType.HALF, DataType.BFLOAT16))
        return m.op("identity", _whole(m), kinds=[kind])
    return m.op("identity", _floats(m), kinds=[m.rng.choice(_INTS)])


def _blocks(m: Maker) -> Any:
    x = m.tensor((m.rng.choice((1, 3, 4)), m.rng.choice((32, 64))))
    kinds = [m.rng.choice(("fp8_e4m3", "fp8_e5m2", "fp4_e2m1")), "fp8_e8m0"]
    found = m.op("block_scale_quantize", x, block_size=32, kinds=kinds)
    return found and m.op("block_scale_dequantize", found[0], found[1])


def _experts(m: Maker) -> Any:
    token = m.pick(lambda k: _is_float(k) and len(k.dims) == 3 and k.dims[0] == 1)
    token = m.tensor((1, _extent(m), _extent(m))) if token is None else token
    _, _, width = m.known[token].dims
    experts = m.rng.choice((1, 2, 3))
    weight = m.tensor((experts, width, _extent(m)))
    offsets = m.tensor((experts, 1, 1), DataType.INT32)
    return m.op("moe_grouped_matmul", token, weight, offsets)


_POINTWISE: tuple[Grow, ...] = (
    _unary, _unary, _binary, _binary, _binary, _residual, _residual, _guarded, _backward,
    _compare, _index,
)  # fmt: skip
_PRODUCTS: tuple[Grow, ...] = (_matmul, _matmul, _attention)
_CONVS: tuple[Grow, ...] = (_conv, _conv, _conv, _dgrad, _wgrad, _pool, _batchnorm)
_ROWS: tuple[Grow, ...] = (_reduction, _softmax, _row_norm, _row_norm)
_MOVES: tuple[Grow, ...] = (_transpose, _reshape, _slice, _concatenate, _pad)
_INTEGERS: tuple[Grow, ...] = (
    _integers, _integers, _integers, _logic, _sum_integers, _multiply_integers, _as_float,
)  # fmt: skip
_SELDOM: tuple[Grow, ...] = (_logic, _as_float, _blocks, _experts)
