# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch normalisation with statistics that are given."""

from __future__ import annotations

from typing import Any

from .channel_norms import KNOB, folded, problems
from .torch_op import Kernel, NodeContext, TorchOp, loads


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    if n.knobs.get(KNOB.name) == "folded":

        def one(x: Any, mean: Any, inverse: Any, scale: Any, bias: Any) -> Any:
            return folded(torch, x, mean, inverse.pow(-2), scale, bias, 0.0)

        return Kernel(run=one, loads=loads(n, torch))

    def run(x: Any, mean: Any, inverse: Any, scale: Any, bias: Any, *, out: Any = None) -> Any:
        return torch.addcmul(bias, x - mean, inverse * scale, out=out)

    return Kernel(run=run, loads=loads(n, torch), takes_out=True)


TORCH = TorchOp(problems=problems, kernel=_kernel, knobs=(KNOB,))
