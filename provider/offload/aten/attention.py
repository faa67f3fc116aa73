# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Aten attention."""

from __future__ import annotations

from ....graph_api.tensor import Tensor
from .call import AtenOp, Call, Family

__all__ = ["OPS"]


def _attention(c: Call) -> Tensor:
    return _forward(c)[0]


def _forward(c: Call, *, stats: bool = False) -> tuple[Tensor, Tensor | None]:
    """Return the result, and the logarithms of the sums where they are asked for."""
    c.must_be("dropout_p", 0.0, 0)
    q, k, v = (c.type(p).dims for p in ("query", "key", "value"))
    if len({len(q), len(k), len(v)}) != 1 or not 3 <= len(q) <= 4:
        got = f"ranks {len(q)}, {len(k)} and {len(v)}"
        raise c.refuse("query", got, "one rank, 3 or 4")
    grouped = c.takes("enable_gqa") and c.flag("enable_gqa")
    if len(q) == 4 and not grouped and not q[1] == k[1] == v[1]:
        raise c.refuse("enable_gqa", "false", f"true, as there are {q[1]} and {k[1]} heads")
    if q[0] != k[0] or k[0] != v[0]:
        raise c.refuse("key", list(k), f"a batch of {q[0]}")
    operands = [c.tensor(p) for p in ("query", "key", "value")]
    if len(q) == 3:  # (batch, length, head dim): one head
        operands = [
            c.shaped(t, (d[0], 1, *d[1:])) for t, d in zip(operands, (q, k, v), strict=True)
        ]
    mask = None
    if c.has("attn_mask"):
        dims = c.type("attn_mask").graph_dims
        mask = c.tensor("attn_mask")
        if len(q) == 3 and len(dims) == 3:
            mask = c.shaped(mask, (dims[0], 1, *dims[1:]))
        elif len(dims) < 4:
            mask = c.shaped(mask, (*(1,) * (4 - len(dims)), *dims))
    found = c.graph.sdpa(
        *operands,
        attn_mask=mask,
        attn_scale_value=float(c.number("scale")) if c.has("scale") else None,
        right_bound=0 if c.flag("is_causal") else None,
        generate_stats=stats,
        compute_data_type=c.compute,
    )
    y = found.o
    return c.shaped(y, c.result().dims) if len(q) == 3 else y, found.stats


def _for_cpu(c: Call) -> tuple[Tensor, Tensor | None]:
    """Return what PyTorch's own op for CPUs gives; its sums are wanted by gradients only."""
    sums = c.op.results[1]
    read = {value for op in c.function.ops for value in op.reads} | set(c.function.returned)
    y, stats = _forward(c, stats=sums in read)
    return y, None if stats is None else c.shaped(stats, c.result(1).dims)


OPS: dict[str, AtenOp] = {
    "aten.scaled_dot_product_attention": AtenOp(
        (
            *("query", "key", "value", "attn_mask"),
            *("dropout_p", "is_causal", "scale", "enable_gqa"),
        ),
        _attention,
        Family.MATMUL,
    ),
    "aten._scaled_dot_product_flash_attention_for_cpu": AtenOp(
        ("query", "key", "value", "dropout_p", "is_causal", "attn_mask", "scale"),
        _for_cpu,
        Family.MATMUL,
    ),
}
