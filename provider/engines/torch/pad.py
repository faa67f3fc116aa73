# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A tensor with elements added at, or cut from, its ends."""

from __future__ import annotations

from typing import Any

from .torch_op import Kernel, NodeContext, TorchOp, dtype


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    op = n.op
    frame = [
        side
        for pair in zip(reversed(op.pre_padding), reversed(op.post_padding), strict=True)
        for side in pair
    ]
    kind, integer = n.inputs["x"].data_type, not n.inputs["x"].data_type.is_float
    fill = int(op.value) if integer else op.value
    pad = torch.nn.functional.pad
    loads = (dtype(torch, kind),)
    if kind.is_bool:
        return Kernel(
            run=lambda x: pad(x.view(torch.uint8), frame, value=fill).view(torch.bool), loads=loads
        )
    return Kernel(run=lambda x: pad(x, frame, value=fill), loads=loads)


TORCH = TorchOp(kernel=_kernel, views=True)
