"""Forward convolution as ``torch.aten.convolution``, in the form that each target likes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from ....graph_api.dtypes import DataType
from ....graph_api.enums import ConvMode
from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.conv_fprop import ConvFprop, ConvOp
from ...emit.builder import Builder, T, Value
from ...emit.dims import Dim
from ..accumulate import operands
from ..forms_conv import forward_form, takes_frame
from .depthwise import channels_last, taps
from .im2col_gemm import PRODUCTS

__all__ = ["convolve", "doubled", "framed", "lower", "skips_dilation"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y = conv(x, w)."""
    op = node.op
    assert isinstance(op, ConvFprop)
    if b.form == "plain":
        return {"y": _plain(b, node, op, inputs)}
    image, given = _usual_order(b, inputs["x"]), inputs["w"]
    # The CPU code for 16-bit convolutions is scalar; in float32 it is four times as fast.  Its
    # products of bfloat16 are quicker than those of float32, those of float16 are not.
    products = b.form in PRODUCTS
    brains = image.dtype is given.dtype is DataType.BFLOAT16
    widen = b.target.is_cpu and not (products and brains)
    x, w, accumulate = operands(b, image, given, node.compute_data_type, widen=widen)
    if products or b.form == "channels_last":
        pass  # what reorders the filter is a copy in any case
    elif w.dtype is given.dtype:
        w = _settled(b, w, channels_last=image.argument and _channels_last(image))
    elif b.target.is_cpu:
        # Folded into the convolution, the conversion of the filter makes scalar code too.
        w = b.materialise(w)
    if op.conv_mode is ConvMode.CONVOLUTION:
        w = b.flip(w, range(2, w.rank))
    x, op = framed(b, x, w, op)
    if x.shape[1] == 1 and skips_dilation(b, op):
        x, w = doubled(b, x, 1), doubled(b, w, 1)
    last = _channels_last(image)
    y = convolve(b, x, w, op, accumulate, form=b.form, last=last)
    if products and y.shape[0] == 1 and image.order == tuple(range(y.rank)):
        # Products lie channels-last.  Fused with the change to channels-first, what follows would
        # be computed in that order, badly (64x56x56, bias and ReLU: 1.7 ms, with a copy 1.28).
        y = b.reshape(b.materialise(b.reshape(y, y.shape[1:])), y.shape)
    return {"y": y}


def _plain(b: Builder, node: FrozenNode, op: ConvFprop, inputs: Mapping[str, Value]) -> Value:
    """Return the convolution as one op on the operands as they come."""
    x, w, accumulate = operands(b, inputs["x"], inputs["w"], node.compute_data_type)
    if op.conv_mode is ConvMode.CONVOLUTION:
        w = b.flip(w, range(2, w.rank))
    padding = list(op.pre_padding)
    if op.pre_padding != op.post_padding:
        x, padding = b.pad(x, op.pre_padding, op.post_padding, fused=True), [0] * len(padding)
    return _convolution(b, x, w, op, padding, accumulate)


def skips_dilation(b: Builder, op: ConvOp) -> bool:
    """Whether IREE 3.13 would leave the dilation out if one channel only is summed over.

    (Found by emulation.)  A second channel of zeros keeps it from doing so.
    """
    return b.target.is_gfx9 and max(op.dilation) > 1


def doubled(b: Builder, v: Value, axis: int) -> Value:
    """Return v with as many zeros behind it along an axis."""
    return b.concatenate([v, b.literal(0, v.dtype, v.shape)], axis)


def framed(
    b: Builder, x: Value, w: Value, op: ConvFprop, *, joined: bool = False
) -> tuple[Value, ConvFprop]:
    """Return image and op, the padding apart where gfx9 would lose it, or it is ``joined``.

    IREE 3.13 fuses a padding wrongly in these cases, with a border that is never written and
    positions mixed up (found by emulation); zeros that are joined on (`Builder.pad`) are right.

    - The filter covers the padded image: the convolution becomes a matrix product.
    - One tap along a dim with steps: the image is cut before it is padded.
    - An image that is computed on the way and has a dim of one element that is not padded (one
      channel, one row), in a batch: the dim is dropped.
    - One dilated channel of one image: zeros are joined on to it (`doubled`) before it is padded.
    """
    pairs = list(zip(op.pre_padding, op.post_padding, strict=True))
    if not b.target.is_gfx9 or not any(map(any, pairs)):
        return x, op
    flat = x.shape[1] == 1 or any(
        n == 1 and not any(pair) for n, pair in zip(x.shape[2:], pairs, strict=True)
    )
    mixed = flat and x.shape[0] > 1 and not x.argument
    if not (joined or mixed or takes_frame(x.shape, w.shape, op)):
        return x, op
    none = (0,) * len(pairs)
    x = b.pad(x, op.pre_padding, op.post_padding)
    return x, replace(op, pre_padding=none, post_padding=none)


def _read(b: Builder, x: Value, w: Value, op: ConvOp) -> tuple[Value, ConvOp]:
    """Return the image without what no window reaches, along dims with one window.

    IREE 3.13 takes the image for as large as that one window then, and refuses its own code.
    """
    pre, post, stride = list(op.pre_padding), list(op.post_padding), list(op.stride)
    for i, k in enumerate(w.shape[2:]):
        n, reach = x.shape[2 + i], op.dilation[i] * (k - 1) + 1
        beyond = pre[i] + n + post[i] - reach
        # Filters of one tap are compiled rightly as they are, and not where the image is cut.
        if isinstance(n, Dim) or not 0 < beyond < stride[i] or reach <= pre[i] or k == 1:
            continue
        x = b.slice(x, 2 + i, 0, min(reach - pre[i], n))
        post[i], stride[i] = max(post[i] - beyond, 0), 1
    found = replace(op, pre_padding=tuple(pre), post_padding=tuple(post), stride=tuple(stride))
    return x, found


def _channels_last(x: Value) -> bool:
    return x.order == (0, *range(2, x.rank), 1)


def _usual_order(b: Builder, x: Value) -> Value:
    """Return the image, copied on gfx9 when it lies neither channels-first nor channels-last.

    IREE 3.13 does not compile some of the other orders there, such as (W, N, C, H).
    """
    usual = not x.order or x.order == tuple(range(x.rank)) or _channels_last(x)
    return x if usual or not b.target.is_gfx9 else b.materialise(x)


def _settled(b: Builder, w: Value, *, channels_last: bool) -> Value:
    """Return the filter in a form in which its memory order does no harm.

    On the CPU a folded transpose makes a loop nest that is not vectorised, 30 to 60 times slower;
    copying the filter costs little.  On gfx9 IREE 3.13 compiles a channels-last filter wrongly
    unless the image is channels-last too (found by emulation; ``tests/ops`` has a reproducer).
    Of an image that is computed it is not known where it will lie.
    """
    if not w.order or w.order == tuple(range(w.rank)):
        return w
    if b.target.is_cpu:
        return b.materialise(w) if prod(w.shape[2:]) > 1 else w
    kept = not b.copies_filters or (channels_last and _channels_last(w))
    return w if kept else b.materialise(w)


def convolve(
    b: Builder,
    x: Value,
    w: Value,
    op: ConvOp,
    accumulate: DataType,
    *,
    form: str = "",
    last: bool = False,
) -> Value:
    """Return the cross-correlation of logical x and w, accumulated in a type.

    Without a form the rules choose one; ``last`` says that x lies channels-last.
    """
    form = form or forward_form(b.target, x.shape, w.shape, op, accumulate, last=last)
    if form in PRODUCTS:
        return PRODUCTS[form](b, x, w, op, accumulate)
    x, op = _read(b, x, w, op)
    if form == "channels_last":
        return channels_last(b, x, w, op, accumulate)
    if form == "taps":
        return taps(b, x, w, op, accumulate, last=last)
    padding = list(op.pre_padding)
    single = prod(w.shape[2:]) == 1
    if op.pre_padding != op.post_padding or single:
        # Torch pads both sides alike, and a filter of one tap becomes a matrix product, into
        # which no padding is fused.
        x = b.pad(x, op.pre_padding, op.post_padding, fused=not single)
        padding = [0] * len(padding)
    if form == "per_group":
        return _per_group(b, x, w, op, padding, accumulate)
    return _convolution(b, x, w, op, padding, accumulate)


def _per_group(
    b: Builder, x: Value, w: Value, op: ConvOp, padding: list[int], accumulate: DataType
) -> Value:
    """Return a grouped convolution as one convolution per group, joined.

    On the CPU that is 10 to 40 times faster than the generic grouped convolution.
    """
    channels = w.shape[1]
    groups = x.shape[1] // channels
    filters = w.shape[0] // groups
    inner = replace(op, pre_padding=tuple(padding), post_padding=tuple(padding))
    parts = []
    for g in range(groups):
        image = b.slice(x, 1, g * channels, (g + 1) * channels)
        taps = b.slice(w, 0, g * filters, (g + 1) * filters)
        parts.append(convolve(b, image, taps, inner, accumulate))
    return b.concatenate(parts, 1)


def _convolution(
    b: Builder, x: Value, w: Value, op: ConvOp, padding: list[int], accumulate: DataType
) -> Value:
    extents = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, p, s, d in zip(
            x.shape[2:], w.shape[2:], padding, op.stride, op.dilation, strict=True
        )
    ]
    return b.call(
        T.AtenConvolutionOp,
        (x.shape[0], w.shape[0], *extents),
        accumulate,
        x,
        w,
        None,
        list(op.stride),
        padding,
        list(op.dilation),
        False,
        [],
        x.shape[1] // w.shape[1],
    )
