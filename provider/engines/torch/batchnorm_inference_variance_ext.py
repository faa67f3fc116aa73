# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch normalisation with a mean and a variance that are given."""

from __future__ import annotations

from typing import Any

from .channel_norms import KNOB, Results, affine, folded, named, problems
from .torch_op import Kernel, NodeContext, TorchOp, number


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    epsilon = number(n, "epsilon")

    def formula(v: dict[str, Any]) -> Results:
        if n.knobs.get(KNOB.name) == "folded" and epsilon is not None:
            scale, bias, variance = v["scale"], v["bias"], v["variance"]
            return {"y": folded(torch, v["x"], v["mean"], variance, scale, bias, epsilon)}
        inverse = torch.rsqrt(v["variance"] + v["epsilon"].reshape(-1))
        return {"y": affine(torch, v["x"], v["mean"], inverse, v["scale"], v["bias"])}

    return named(n, torch, formula)


TORCH = TorchOp(problems=problems, kernel=_kernel, knobs=(KNOB,))
