# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolution."""

from __future__ import annotations

from typing import Any

from .convolution import flipped, frame_of, product_type
from .torch_op import Kernel, NodeContext, TorchOp


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    op, x, w = n.op, n.inputs["x"], n.inputs["w"]
    convolve = {3: torch.conv1d, 4: torch.conv2d, 5: torch.conv3d}[len(x.dims)]
    groups = x.dims[1] // w.dims[1]
    even = op.pre_padding == op.post_padding
    padding, frame = (op.pre_padding, []) if even else ((0,) * len(op.stride), frame_of(op))
    pad = torch.nn.functional.pad

    def run(x: Any, w: Any, bias: Any = None) -> Any:
        x = pad(x, frame) if frame else x
        bias = bias if bias is None else bias.reshape(-1)
        w = flipped(op, torch, w)
        return convolve(x, w, bias, op.stride, padding, op.dilation, groups)

    kind = product_type(n, torch)
    return Kernel(run=run, loads=(kind,) * len(n.inputs))


TORCH = TorchOp(
    problems=NodeContext.only_floats, kernel=_kernel, bias_axis=lambda dims: 1, efficiency=2.2
)
