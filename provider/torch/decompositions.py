# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How ops that Dynamo traces are written by others, before they are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..offload.aten import ATEN
from ..torch_import import decompositions, load_torch

__all__ = ["table"]


def _squeeze_dims(x: Any, dims: Sequence[int]) -> Any:
    gone = {dim % max(x.dim(), 1) for dim in dims}
    return x.reshape([n for dim, n in enumerate(x.shape) if n != 1 or dim not in gone])


def _var_mean(
    x: Any, dim: Sequence[int] | None = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Any, Any]:
    dims = list(range(x.dim())) if not dim else list(dim)
    return x.var(dims, correction=correction, keepdim=keepdim), x.mean(dims, keepdim=keepdim)


def table() -> dict[Any, Any]:
    """Return the decompositions: torch-mlir's but for ops that are served as they are, and ours."""
    aten = load_torch().ops.aten
    found = {
        op: by
        for op, by in decompositions().items()
        if str(op).removesuffix(".default") not in ATEN
    }
    return found | {
        aten.squeeze.dims: _squeeze_dims,
        aten.var_mean.correction: _var_mean,
    }
