# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The convolution's gradient of its filter."""

from __future__ import annotations

from typing import Any

from .convolution import flipped, frame_of, gradients, like, product_type
from .torch_op import Kernel, NodeContext, TorchOp


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    op, dw, x = n.op, n.outputs["dw"], n.inputs["x"]
    kind = product_type(n, torch)
    frame = [] if op.pre_padding == op.post_padding else frame_of(op)
    filters = like(torch, dw, dw.dims, kind)
    gradient = gradients(n, torch, x.dims, dw.dims[1])
    pad = torch.nn.functional.pad
    ports = list(n.inputs)

    def run(*operands: Any) -> Any:
        given = dict(zip(ports, operands, strict=True))
        x = pad(given["x"], frame) if frame else given["x"]
        found = gradient(given["dy"], x, filters, [False, True, False])[1]
        return flipped(op, torch, found)

    return Kernel(run=run, loads=(kind, kind))


TORCH = TorchOp(problems=NodeContext.only_floats, kernel=_kernel, efficiency=1.9)
