# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What convolutions and their gradients share; oneDNN computes them where PyTorch uses it.

Inputs and filters keep the layout of their strides: PyTorch takes its channels-last path when one
of both is laid out so.
"""

from __future__ import annotations

from typing import Any

from ....graph_api.dtypes import DataType
from ....graph_api.enums import ConvMode
from ....graph_api.layout import channels_last_strides, same_strides
from ....graph_api.ops.conv_fprop import ConvOp
from ....graph_api.tensor import TensorSpec
from .torch_op import NodeContext, dtype

__all__ = ["flipped", "frame_of", "gradients", "like", "product_type"]


def product_type(n: NodeContext, torch: Any) -> Any:
    """Return the dtype of the operands of a product.

    bfloat16 stays as it is where the result is bfloat16 as well and oneDNN multiplies it: sums
    are FLOAT inside, and rounded once.  Half operands are widened, which is slower and right
    everywhere.
    """
    bf16 = n.shared() is DataType.BFLOAT16 and n.internal is DataType.FLOAT
    if bf16 and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return torch.bfloat16
    return dtype(torch, n.internal)


def flipped(op: ConvOp, torch: Any, w: Any) -> Any:
    return torch.flip(w, tuple(range(2, w.ndim))) if op.conv_mode is ConvMode.CONVOLUTION else w


def frame_of(op: ConvOp) -> list[int]:
    """Return both paddings as ``torch.nn.functional.pad`` takes them: last dim first."""
    pairs = zip(reversed(op.pre_padding), reversed(op.post_padding), strict=True)
    return [side for pair in pairs for side in pair]


def like(torch: Any, spec: TensorSpec, dims: tuple[int, ...], kind: Any) -> Any:
    """Return a tensor that stands for an operand of which only dims and layout are looked at."""
    last = len(dims) > 3 and same_strides(spec.dims, spec.strides, channels_last_strides(spec.dims))
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    form = formats[len(dims)] if last else torch.contiguous_format
    return torch.empty(dims, dtype=kind, memory_format=form)


def gradients(n: NodeContext, torch: Any, input_dims: tuple[int, ...], filters: int) -> Any:
    """Return a function (dy, x, w, mask) of the forward convolution's gradients."""
    op, rank = n.op, len(input_dims) - 2
    even = op.pre_padding == op.post_padding
    padding = list(op.pre_padding) if even else [0] * rank
    groups, zero = input_dims[1] // filters, [0] * rank
    backward = torch.ops.aten.convolution_backward.default

    def gradient(dy: Any, x: Any, w: Any, mask: list[bool]) -> Any:
        stride, dilation = list(op.stride), list(op.dilation)
        return backward(dy, x, w, None, stride, padding, dilation, False, zero, groups, mask)

    return gradient
