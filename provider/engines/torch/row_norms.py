# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What layer normalisation, its relative by the root mean square, and their gradients share."""

from __future__ import annotations

from math import prod
from typing import Any

from ....graph_api.ops.row_norms import aligned, normalised_dims
from .torch_op import NodeContext

__all__ = ["axes_of", "gradients", "mean_over", "statistics", "trailing", "wide"]


def axes_of(n: NodeContext) -> list[int]:
    count = getattr(n.op, "normalized_dim_count", 0)
    return list(normalised_dims(n.inputs["x"].dims, n.inputs["scale"].dims, count))


def trailing(n: NodeContext) -> tuple[int, ...]:
    """Return the normalised dims where these are the last ones and scale spans them, else ()."""
    x, axes = n.inputs["x"].dims, axes_of(n)
    first = len(x) - len(axes)
    if axes != list(range(first, len(x))):
        return ()
    same = prod(n.inputs["scale"].dims) == prod(x[first:])
    return tuple(x[first:]) if same else ()


def wide(n: NodeContext, operand: Any) -> Any:
    """Return an operand with leading ones up to x's rank."""
    return operand.reshape(aligned(tuple(operand.shape), len(n.inputs["x"].dims)))


def mean_over(torch: Any, x: Any, axes: list[int]) -> Any:
    # No dims mean all of them to PyTorch.
    return torch.mean(x, axes, keepdim=True) if axes else x


def statistics(torch: Any, x: Any, axes: list[int]) -> tuple[Any, Any]:
    """Return the biased variance and the mean."""
    if not axes:
        return torch.zeros_like(x), x
    variance, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
    return variance, mean


def _columns(n: NodeContext) -> list[int]:
    """Return the dims over which dscale and dbias are summed."""
    wide = aligned(n.inputs["scale"].dims, len(n.inputs["x"].dims))
    return [i for i, extent in enumerate(wide) if extent == 1]


def gradients(n: NodeContext, torch: Any, v: dict[str, Any], normal: Any) -> dict[str, Any]:
    dims, over = n.inputs["scale"].dims, _columns(n)
    summands = {"dscale": v["dy"] * normal, "dbias": v["dy"]}
    return {
        port: (torch.sum(x, over) if over else x).reshape(dims)
        for port, x in summands.items()
        if port in n.outputs
    }
