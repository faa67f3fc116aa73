"""Forward convolution as ``torch.aten.convolution``, in the form that each target likes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ...graph_api.dtypes import DataType
from ...graph_api.enums import ConvMode
from ...graph_api.frozen import FrozenNode
from ...graph_api.ops.conv_fprop import ConvFprop
from ..emit.builder import Builder, T, Value
from .accumulate import operands

__all__ = ["convolve", "lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y = conv(x, w)."""
    op = node.op
    assert isinstance(op, ConvFprop)
    given = inputs["w"]
    # The CPU code for 16-bit convolutions is scalar; in float32 it is four times as fast.
    x, w, accumulate = operands(
        b, inputs["x"], given, node.compute_data_type, widen=b.target.is_cpu
    )
    if b.target.is_cpu and (_transposed(given) or w.dtype is not given.dtype):
        # Folded into the convolution, a transpose or a conversion of the filter makes a loop
        # nest that is not vectorised: 4 to 60 times slower.  Copying the filter costs little.
        w = b.materialise(w)
    if op.conv_mode is ConvMode.CONVOLUTION:
        w = b.flip(w, range(2, w.rank))
    return {"y": convolve(b, x, w, op, accumulate)}


def _transposed(w: Value) -> bool:
    """Whether the filter lies in another order than its logical one, and that order matters."""
    return bool(w.order) and w.order != tuple(range(w.rank)) and prod(w.shape[2:]) > 1


def convolve(b: Builder, x: Value, w: Value, op: ConvFprop, accumulate: DataType) -> Value:
    """Return the cross-correlation of logical x and w, accumulated in a type."""
    padding = list(op.pre_padding)
    if op.pre_padding != op.post_padding:
        # Torch pads both sides alike.
        x, padding = b.pad(x, op.pre_padding, op.post_padding), [0] * len(padding)
    taps = w.shape[2:]
    extents = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, p, s, d in zip(x.shape[2:], taps, padding, op.stride, op.dilation, strict=True)
    ]
    groups = x.shape[1] // w.shape[1]
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
        groups,
    )
