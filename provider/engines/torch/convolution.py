"""Convolutions and their gradients, by oneDNN where PyTorch uses it.

Images and filters keep the layout of their strides: PyTorch takes its channels-last path when one
of both lies so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....graph_api.dtypes import DataType
from ....graph_api.enums import ConvMode
from ....graph_api.errors import Problem
from ....graph_api.layout import channels_last_strides, same_strides
from ....graph_api.ops.conv_fprop import ConvOp
from ....graph_api.tensor import TensorSpec
from .torch_op import Around, Kernel, TorchOp, dtype

__all__ = ["DGRAD", "FPROP", "WGRAD", "product_type"]


def product_type(n: Around, torch: Any) -> Any:
    """Return the dtype of the operands of a product.

    bfloat16 stays as it is where the result is bfloat16 as well and oneDNN multiplies it: sums
    are FLOAT inside, and rounded once.  Half operands are widened, which is slower and right
    everywhere.
    """
    bf16 = n.shared() is DataType.BFLOAT16 and n.internal is DataType.FLOAT
    if bf16 and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return torch.bfloat16
    return dtype(torch, n.internal)


def _problems(n: Around) -> Iterator[Problem]:
    yield from n.only_floats()


def _flipped(op: ConvOp, torch: Any, w: Any) -> Any:
    return torch.flip(w, tuple(range(2, w.ndim))) if op.conv_mode is ConvMode.CONVOLUTION else w


def _frame(op: ConvOp) -> list[int]:
    """Return both paddings as ``torch.nn.functional.pad`` takes them: last dim first."""
    pairs = zip(reversed(op.pre_padding), reversed(op.post_padding), strict=True)
    return [side for pair in pairs for side in pair]


def _fprop(n: Around, torch: Any) -> Kernel:
    op, x, w = n.op, n.inputs["x"], n.inputs["w"]
    convolve = {3: torch.conv1d, 4: torch.conv2d, 5: torch.conv3d}[len(x.dims)]
    groups = x.dims[1] // w.dims[1]
    even = op.pre_padding == op.post_padding
    padding, frame = (op.pre_padding, []) if even else ((0,) * len(op.stride), _frame(op))
    pad = torch.nn.functional.pad

    def run(x: Any, w: Any, bias: Any = None) -> Any:
        x = pad(x, frame) if frame else x
        bias = bias if bias is None else bias.reshape(-1)
        w = _flipped(op, torch, w)
        return convolve(x, w, bias, op.stride, padding, op.dilation, groups)

    kind = product_type(n, torch)
    return Kernel(run=run, loads=(kind,) * len(n.inputs))


def _like(torch: Any, spec: TensorSpec, dims: tuple[int, ...], kind: Any) -> Any:
    """Return a tensor that stands for an operand of which only dims and layout are looked at."""
    last = len(dims) > 3 and same_strides(spec.dims, spec.strides, channels_last_strides(spec.dims))
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    form = formats[len(dims)] if last else torch.contiguous_format
    return torch.empty(dims, dtype=kind, memory_format=form)


def _gradient(n: Around, torch: Any, image: tuple[int, ...], filters: int) -> Any:
    """Return a function (dy, x, w, mask) of the forward convolution's gradients."""
    op, rank = n.op, len(image) - 2
    even = op.pre_padding == op.post_padding
    padding = list(op.pre_padding) if even else [0] * rank
    groups, zero = image[1] // filters, [0] * rank
    backward = torch.ops.aten.convolution_backward.default

    def gradient(dy: Any, x: Any, w: Any, mask: list[bool]) -> Any:
        stride, dilation = list(op.stride), list(op.dilation)
        return backward(dy, x, w, None, stride, padding, dilation, False, zero, groups, mask)

    return gradient


def _dgrad(n: Around, torch: Any) -> Kernel:
    op, dx, w = n.op, n.outputs["dx"], n.inputs["w"]
    kind = product_type(n, torch)
    even = op.pre_padding == op.post_padding
    # With uneven padding, the gradient of the padded image is cut.
    frame = [(0, 0)] * 2 + list(zip(op.pre_padding, op.post_padding, strict=True))
    dims = tuple(
        extent + (0 if even else pre + post)
        for extent, (pre, post) in zip(dx.dims, frame, strict=True)
    )
    cut = tuple(slice(pre, pre + d) for d, (pre, _) in zip(dx.dims, frame, strict=True))
    image = _like(torch, dx, dims, kind)
    gradient = _gradient(n, torch, dims, w.dims[1])

    def run(dy: Any, w: Any) -> Any:
        found = gradient(dy, image, _flipped(op, torch, w), [True, False, False])[0]
        return found if even else found[cut]

    return Kernel(run=run, loads=(kind, kind))


def _wgrad(n: Around, torch: Any) -> Kernel:
    op, dw, x = n.op, n.outputs["dw"], n.inputs["x"]
    kind = product_type(n, torch)
    frame = [] if op.pre_padding == op.post_padding else _frame(op)
    filters = _like(torch, dw, dw.dims, kind)
    gradient = _gradient(n, torch, x.dims, dw.dims[1])
    pad = torch.nn.functional.pad
    ports = list(n.inputs)

    def run(*operands: Any) -> Any:
        given = dict(zip(ports, operands, strict=True))
        x = pad(given["x"], frame) if frame else given["x"]
        found = gradient(given["dy"], x, filters, [False, True, False])[1]
        return _flipped(op, torch, found)

    return Kernel(run=run, loads=(kind, kind))


FPROP = TorchOp(problems=_problems, kernel=_fprop)
DGRAD = TorchOp(problems=_problems, kernel=_dgrad)
WGRAD = TorchOp(problems=_problems, kernel=_wgrad)
