# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions over dims, which stay with extent 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ....graph_api.enums import ReductionMode
from ....graph_api.errors import Problem
from .torch_op import Kernel, NodeContext, TorchOp, dtype

__all__ = ["reduced_axes"]

_M = ReductionMode


def reduced_axes(n: NodeContext) -> list[int]:
    """Return the dims that are reduced."""
    x, y = n.inputs["x"].dims, n.outputs["y"].dims
    return [i for i, (m, k) in enumerate(zip(x, y, strict=True)) if k == 1 and m > 1]


# What sums and products of integers are computed in; it wraps as narrower types do.
_WHOLE = (_M.ADD, _M.MUL, _M.MIN, _M.MAX, _M.AMAX, _M.NORM1, _M.MUL_NO_ZEROS)


def _problems(n: NodeContext) -> Iterator[Problem]:
    mode = n.op.mode
    if not n.compute.is_float and (n.compute.is_bool or mode not in _WHOLE):
        wanted = f"a floating type for {mode.name}"
        yield n.problem("TORCH-ENG-06", "compute_data_type", n.compute.json, wanted)


def _product(torch: Any, x: Any, axes: list[int]) -> Any:
    for axis in axes:
        x = torch.prod(x, axis, keepdim=True)
    return x


def _function(torch: Any, mode: ReductionMode, axes: list[int], kind: Any) -> Callable[..., Any]:
    keep: dict[str, Any] = {"dim": axes, "keepdim": True}
    norm = torch.linalg.vector_norm
    table: dict[ReductionMode, Callable[[Any], Any]] = {
        # The type is that of the sum: operands of 16 bits are widened as they are read.
        _M.ADD: lambda x: torch.sum(x, dtype=kind, **keep),
        _M.AVG: lambda x: torch.mean(x, dtype=kind, **keep),
        _M.MIN: lambda x: torch.amin(x, **keep),
        _M.MAX: lambda x: torch.amax(x, **keep),
        _M.AMAX: lambda x: torch.amax(torch.abs(x), **keep),
        _M.NORM1: (
            (lambda x: norm(x, 1, **keep))
            if kind.is_floating_point
            else (lambda x: torch.sum(torch.abs(x), dtype=kind, **keep))
        ),
        _M.NORM2: lambda x: norm(x, 2, **keep),
        _M.MUL: lambda x: _product(torch, x, axes).to(kind),
        _M.MUL_NO_ZEROS: lambda x: _product(torch, torch.where(x == 0, 1, x), axes).to(kind),
    }
    return table[mode]


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    mode, axes = n.op.mode, reduced_axes(n)
    kind = dtype(torch, n.internal)
    given = n.inputs["x"].data_type
    sums = mode in (_M.ADD, _M.AVG) and given.is_float and n.internal.holds(given)
    run = _function(torch, mode, axes, kind)
    if not axes:  # PyTorch takes no dims for all of them
        run = torch.abs if mode in (_M.AMAX, _M.NORM1, _M.NORM2) else _same
        if mode is _M.MUL_NO_ZEROS:
            run = _ones_for_zeros(torch)
        sums = False
    return Kernel(run=run, loads=(None if sums else kind,))


def _same(x: Any) -> Any:
    return x


def _ones_for_zeros(torch: Any) -> Callable[[Any], Any]:
    return lambda x: torch.where(x == 0, 1, x)


TORCH = TorchOp(problems=_problems, kernel=_kernel, views=True)
