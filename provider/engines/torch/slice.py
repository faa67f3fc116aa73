# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A part of a tensor."""

from __future__ import annotations

from typing import Any

from .torch_op import Kernel, NodeContext, TorchOp


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    op = n.op
    parts = tuple(map(slice, op.starts, op.limits, op.strides))
    return Kernel(run=lambda x: x[parts], loads=(None,))


TORCH = TorchOp(kernel=_kernel, views=True)
