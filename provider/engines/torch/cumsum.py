# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Running sums."""

from __future__ import annotations

from typing import Any

from .torch_op import Kernel, NodeContext, TorchOp, dtype

__all__ = ["TORCH"]


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    op, extent = n.op, n.inputs["x"].dims[n.op.axis]

    def run(x: Any) -> Any:
        x = torch.flip(x, (op.axis,)) if op.reverse else x
        if op.exclusive:
            none = torch.zeros_like(x.narrow(op.axis, 0, 1))
            x = torch.cat([none, x.narrow(op.axis, 0, extent - 1)], op.axis)
        y = torch.cumsum(x, op.axis, dtype=x.dtype)
        return torch.flip(y, (op.axis,)) if op.reverse else y

    return Kernel(run=run, loads=(dtype(torch, n.internal),))


TORCH = TorchOp(kernel=_kernel)
