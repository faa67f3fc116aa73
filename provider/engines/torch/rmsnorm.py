# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Normalisation by the root mean square: PyTorch's kernel where the last dims are normalised."""

from __future__ import annotations

from typing import Any

from .channel_norms import named
from .row_norms import axes_of, mean_over, trailing, wide
from .torch_op import Kernel, NodeContext, TorchOp, loads, number


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    axes, rows, epsilon = axes_of(n), trailing(n), number(n, "epsilon")
    biased = "bias" in n.inputs
    if rows and epsilon is not None and len(n.outputs) == 1:
        norm = torch.nn.functional.rms_norm

        def one(x: Any, scale: Any, _: Any, bias: Any = None) -> Any:
            y = norm(x, rows, scale.reshape(rows), epsilon)
            return y.add_(bias.reshape(rows)) if biased else y

        return Kernel(run=one, loads=loads(n, torch))

    def formula(v: dict[str, Any]) -> dict[str, Any]:
        x = v["x"]
        square = mean_over(torch, x * x, axes)
        inverse = torch.rsqrt(square + v["epsilon"].reshape(-1))
        y = x * inverse * wide(n, v["scale"])
        y = y + wide(n, v["bias"]) if biased else y
        return {"y": y, "inv_rms": inverse}

    return named(n, torch, formula)


TORCH = TorchOp(problems=NodeContext.only_floats, kernel=_kernel)
