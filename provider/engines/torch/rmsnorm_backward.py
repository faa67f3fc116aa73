# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The gradients of normalisation by the root mean square."""

from __future__ import annotations

from typing import Any

from .channel_norms import named
from .row_norms import axes_of, gradients, mean_over, wide
from .torch_op import Kernel, NodeContext, TorchOp


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    axes = axes_of(n)

    def formula(v: dict[str, Any]) -> dict[str, Any]:
        inverse = v["inv_rms"]
        normal = v["x"] * inverse
        g = v["dy"] * wide(n, v["scale"])
        along = mean_over(torch, g * normal, axes)
        return {"dx": (g - normal * along) * inverse, **gradients(n, torch, v, normal)}

    return named(n, torch, formula)


TORCH = TorchOp(problems=NodeContext.only_floats, kernel=_kernel)
