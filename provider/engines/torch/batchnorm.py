# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch normalisation in training: PyTorch's kernel where epsilon and momentum are known."""

from __future__ import annotations

from math import prod
from typing import Any

from .channel_norms import Results, affine, named, problems
from .torch_op import Kernel, NodeContext, TorchOp, number

_RUNNING = ("next_running_mean", "next_running_variance")


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    x = n.inputs["x"].dims
    shape, count = (1, x[1], *(1,) * (len(x) - 2)), prod(x) // x[1]
    epsilon = number(n, "epsilon")
    momentum = number(n, "momentum") if "momentum" in n.inputs else None
    kept = [port for port in _RUNNING if port in n.outputs]
    # PyTorch's kernel keeps both or none, by a known momentum, of more than one element.
    native = epsilon is not None and (
        not kept or (len(kept) == 2 and momentum is not None and count > 1)
    )
    over = [i for i in range(len(x)) if i != 1]

    def whole(v: dict[str, Any]) -> Results:
        running = [v[port.replace("next", "prev")].reshape(-1).clone() for port in kept]
        scale, bias = v["scale"].reshape(-1), v["bias"].reshape(-1)
        y, mean, inverse = torch.native_batch_norm(
            v["x"], scale, bias, *(running or (None, None)), True, momentum or 0.0, epsilon
        )
        rows = dict(zip(kept, running, strict=True), mean=mean, inv_variance=inverse)
        return {"y": y, **{port: row.reshape(shape) for port, row in rows.items()}}

    def formula(v: dict[str, Any]) -> Results:
        variance, mean = torch.var_mean(v["x"], over, correction=0, keepdim=True)
        inverse = torch.rsqrt(variance + v["epsilon"].reshape(-1))
        y = affine(torch, v["x"], mean, inverse, v["scale"], v["bias"])
        found = {"y": y, "mean": mean, "inv_variance": inverse}
        unbiased = variance * (count / max(count - 1, 1))
        for port in kept:
            before = v[port.replace("next", "prev")]
            value = mean if port == _RUNNING[0] else unbiased
            found[port] = before + v["momentum"].reshape(-1) * (value - before)
        return found

    return named(n, torch, whole if native else formula)


TORCH = TorchOp(problems=problems, kernel=_kernel)
