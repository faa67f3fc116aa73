# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A permutation of the dims."""

from __future__ import annotations

from typing import Any

from .torch_op import Kernel, NodeContext, TorchOp


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    order = n.op.permutation
    return Kernel(run=lambda x: x.permute(order), loads=(None,))


TORCH = TorchOp(kernel=_kernel, views=True)
