# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Aten matmuls, with what is added to them."""

from __future__ import annotations

from collections.abc import Callable

from ....graph_api.tensor import Tensor
from .call import AtenOp, Call, Family, compute_type

__all__ = ["OPS"]

Dims = tuple[int, ...]


def _matmul(c: Call, a: str, b: str) -> Tensor:
    """Return the product of two operands of any ranks, by NumPy's rules."""
    return _product(c, c.tensor(a), c.type(a).dims, c.tensor(b), c.type(b).dims)


def _product(c: Call, a: Tensor, a_dims: Dims, b: Tensor, b_dims: Dims) -> Tensor:
    if not a_dims or not b_dims:
        raise c.refuse("self", "a tensor without dims", "vectors, or matrices")
    left = (1, *a_dims) if len(a_dims) == 1 else a_dims
    right = (*b_dims, 1) if len(b_dims) == 1 else b_dims
    m, k, n = left[-2], left[-1], right[-1]
    if right[-2] != k:
        raise c.refuse("other", list(b_dims), f"{k} rows")
    batches = (left[:-2], right[:-2])
    rank = max(map(len, batches))
    batch_a, batch_b = ((1,) * (rank - len(d)) + d for d in batches)
    wanted = tuple(max(i, j) for i, j in zip(batch_a, batch_b, strict=True))
    if any({i, j} - {1, w} for i, j, w in zip(batch_a, batch_b, wanted, strict=True)):
        raise c.refuse("other", list(b_dims), f"batch dims that broadcast to {list(batch_a)}")
    compute = compute_type(c.result().data_type)
    plain = rank <= 3 and not (rank and all(n == 1 for n in batch_b))
    if not plain:
        # One matrix on the right: rows of all batches are rows of one matrix on the left.
        if any(n != 1 for n in batch_b):
            raise c.refuse("self", f"{rank} batch dims", "at most 3")
        rows = m
        for extent in batch_a:
            rows *= extent
        y = c.graph.matmul(c.shaped(a, (rows, k)), c.shaped(b, (k, n)), compute_data_type=compute)
    else:
        y = c.graph.matmul(
            c.shaped(a, (*batch_a, m, k)), c.shaped(b, (*batch_b, k, n)), compute_data_type=compute
        )
    dims = (*wanted, *((m,) if len(a_dims) > 1 else ()), *((n,) if len(b_dims) > 1 else ()))
    return y if plain and dims == (*wanted, m, n) else c.shaped(y, dims or (1,))


def _plain(c: Call) -> Tensor:
    return _matmul(c, *c.names[:2])


def _plus(c: Call) -> Tensor:
    """Return ``beta · self + alpha · (a @ b)``."""
    y = _times(c, _matmul(c, *c.names[1:3]), c.number("alpha"), "alpha")
    beta = c.number("beta")
    if beta == 0:  # self is not read then, whatever it holds
        return y
    return c.pointwise("add", y, _times(c, c.tensor("self"), beta, "beta"))


def _times(c: Call, x: Tensor, factor: float, name: str) -> Tensor:
    if isinstance(factor, float) and not factor.is_integer() and not c.compute.is_float:
        raise c.refuse(name, factor, "an integer, as the result is of integers")
    return x if factor == 1 else c.pointwise("mul", x, factor)


def _linear(c: Call) -> Tensor:
    """Return ``input @ weightᵀ + bias``."""
    w = c.type("weight").dims
    if len(w) != 2:
        raise c.refuse("weight", f"rank {len(w)}", "rank 2")
    turned = c.graph.transpose(c.tensor("weight"), permutation=(1, 0))
    y = _product(c, c.tensor("input"), c.type("input").dims, turned, (w[1], w[0]))
    return c.pointwise("add", y, c.tensor("bias")) if c.has("bias") else y


def _row(operands: str, build: Callable[[Call], Tensor] = _plain) -> AtenOp:
    return AtenOp(tuple(operands.split()), build, Family.MATMUL)


OPS: dict[str, AtenOp] = {
    "aten.mm": _row("self mat2"),
    "aten.bmm": _row("self mat2"),
    "aten.mv": _row("self vec"),
    "aten.matmul": _row("self other"),
    "aten.addmm": _row("self mat1 mat2 beta alpha", _plus),
    "aten.baddbmm": _row("self batch1 batch2 beta alpha", _plus),
    "aten.linear": _row("input weight bias", _linear),
}
