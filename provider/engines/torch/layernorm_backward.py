# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The gradients of layer normalisation."""

from __future__ import annotations

from typing import Any

from .channel_norms import named
from .row_norms import axes_of, gradients, mean_over, statistics, wide
from .torch_op import Kernel, NodeContext, TorchOp


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    axes, saved = axes_of(n), "mean" in n.inputs

    def formula(v: dict[str, Any]) -> dict[str, Any]:
        x = v["x"]
        if saved:
            mean, inverse = v["mean"], v["inv_variance"]
        else:
            variance, mean = statistics(torch, x, axes)
            inverse = torch.rsqrt(variance + v["epsilon"].reshape(-1))
        normal = (x - mean) * inverse
        g = v["dy"] * wide(n, v["scale"])
        along = mean_over(torch, g * normal, axes)
        dx = (g - mean_over(torch, g, axes) - normal * along) * inverse
        return {"dx": dx, **gradients(n, torch, v, normal)}

    return named(n, torch, formula)


TORCH = TorchOp(problems=NodeContext.only_floats, kernel=_kernel)
