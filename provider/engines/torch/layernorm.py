# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layer normalisation: PyTorch's kernel where the last dims are normalised."""

from __future__ import annotations

from typing import Any

from .channel_norms import named
from .row_norms import axes_of, statistics, trailing, wide
from .torch_op import Kernel, NodeContext, TorchOp, loads, number


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    axes, rows, epsilon = axes_of(n), trailing(n), number(n, "epsilon")
    if rows and epsilon is not None:
        return _native(n, torch, rows, epsilon)

    def formula(v: dict[str, Any]) -> dict[str, Any]:
        x = v["x"]
        variance, mean = statistics(torch, x, axes)
        inverse = torch.rsqrt(variance + v["epsilon"].reshape(-1))
        normal = (x - mean) * inverse
        y = normal * wide(n, v["scale"]) + wide(n, v["bias"])
        return {"y": y, "mean": mean, "inv_variance": inverse}

    return named(n, torch, formula)


def _native(n: NodeContext, torch: Any, rows: tuple[int, ...], epsilon: float) -> Kernel:
    if len(n.outputs) == 1:
        norm = torch.nn.functional.layer_norm

        def one(x: Any, scale: Any, bias: Any, _: Any) -> Any:
            return norm(x, rows, scale.reshape(rows), bias.reshape(rows), epsilon)

        return Kernel(run=one, loads=loads(n, torch))

    def formula(v: dict[str, Any]) -> dict[str, Any]:
        scale, bias = v["scale"].reshape(rows), v["bias"].reshape(rows)
        y, mean, inverse = torch.native_layer_norm(v["x"], rows, scale, bias, epsilon)
        return {"y": y, "mean": mean, "inv_variance": inverse}

    return named(n, torch, formula)


TORCH = TorchOp(problems=NodeContext.only_floats, kernel=_kernel)
