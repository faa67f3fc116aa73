# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The convolution's gradient of its input."""

from __future__ import annotations

from typing import Any

from .convolution import flipped, gradients, like, product_type
from .torch_op import Kernel, NodeContext, TorchOp


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    op, dx, w = n.op, n.outputs["dx"], n.inputs["w"]
    kind = product_type(n, torch)
    even = op.pre_padding == op.post_padding
    # With uneven padding, the gradient of the padded input is cut.
    frame = [(0, 0)] * 2 + list(zip(op.pre_padding, op.post_padding, strict=True))
    dims = tuple(
        extent + (0 if even else pre + post)
        for extent, (pre, post) in zip(dx.dims, frame, strict=True)
    )
    cut = tuple(slice(pre, pre + d) for d, (pre, _) in zip(dx.dims, frame, strict=True))
    stand_in = like(torch, dx, dims, kind)
    gradient = gradients(n, torch, dims, w.dims[1])

    def run(dy: Any, w: Any) -> Any:
        found = gradient(dy, stand_in, flipped(op, torch, w), [True, False, False])[0]
        return found if even else found[cut]

    return Kernel(run=run, loads=(kind, kind))


TORCH = TorchOp(problems=NodeContext.only_floats, kernel=_kernel, efficiency=1.7)
