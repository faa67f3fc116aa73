# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors one after the other along a dim."""

from __future__ import annotations

from typing import Any

from .torch_op import Kernel, NodeContext, TorchOp, dtype


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    axis = n.op.axis
    # Parts may still be wider than the tensors they stand for.
    kinds = {spec.data_type for spec in n.inputs.values()}
    kind = dtype(torch, kinds.pop()) if len(kinds) == 1 else None

    def run(*parts: Any, out: Any = None) -> Any:
        return torch.cat(parts, axis, out=out)

    return Kernel(run=run, loads=(kind,) * len(n.inputs), takes_out=True)


TORCH = TorchOp(kernel=_kernel, views=True)
