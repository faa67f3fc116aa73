# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows times the weights of their experts: the source of each row, then one matmul per row."""

from __future__ import annotations

import numpy as np

from ...graph_api.enums import MoeGroupedMatmulMode as Mode
from ...graph_api.ops.moe_grouped_matmul import MoeGroupedMatmul
from .analysis import bilinear_bound, exact_matmul, scaled_domain
from .base import Arrays, Context, Domain, Reference
from .convert import Array

__all__ = ["REFERENCE", "expert_of"]

INDICES = ("first_token_offset", "token_index", "token_ks")


def expert_of(row: int, offsets: Array, experts: int) -> int:
    """Return the expert of a row, or -1: as many groups as start at or before it come before."""
    begun = sum(1 for start in offsets.ravel() if start <= row)
    return (begun - 1) % experts if begun else -1


def _routes(op: MoeGroupedMatmul, inputs: Arrays, rows: int) -> list[tuple[int, int]]:
    """Return (source, expert) of each row of the output; expert -1 where nothing is written."""
    offsets, experts = inputs["first_token_offset"], inputs["weight"].shape[0]
    tokens = inputs["token"].shape[1]
    found = [(0, -1)] * rows
    index = inputs["token_index"].ravel() if "token_index" in inputs else np.arange(tokens)
    for r in reversed(range(min(rows, len(index)))):  # of two for one row the first stays
        expert = expert_of(r, offsets, experts)
        if op.mode is not Mode.SCATTER:
            found[r] = (int(np.clip(index[r], 0, tokens - 1)), expert)
        elif expert >= 0:
            target = int(index[r]) * op.top_k + int(inputs["token_ks"].ravel()[r])
            if 0 <= target < rows:
                found[target] = (r, expert)
    return found


def _apply(routes: list[tuple[int, int]], token: Array, weight: Array) -> Array:
    result = np.zeros((1, len(routes), weight.shape[2]), dtype=token.dtype)
    sources, experts = np.array(routes, dtype=np.intp).reshape(-1, 2).T
    for expert in np.unique(experts[experts >= 0]):
        rows = np.flatnonzero(experts == expert)
        result[0, rows] = exact_matmul(token[0, sources[rows]], weight[expert])
    return result


def evaluate(op: MoeGroupedMatmul, inputs: Arrays, ctx: Context) -> Arrays:
    routes = _routes(op, inputs, ctx.outputs["output"].dims[1])
    return {"output": ctx.finish(_apply(routes, inputs["token"], inputs["weight"]))}


def bound(
    op: MoeGroupedMatmul, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context
) -> Arrays:
    routes = _routes(op, inputs, ctx.outputs["output"].dims[1])
    token, weight = ((inputs[port], errors[port]) for port in ("token", "weight"))
    k = inputs["weight"].shape[1]
    found = bilinear_bound(lambda x, w: _apply(routes, x, w), token, weight, k, ctx)
    return {"output": found}


def domain(op: MoeGroupedMatmul, port: str, ctx: Context) -> Domain:
    if port in INDICES:
        rows = ctx.outputs["output"].dims[1]
        most = {"token_index": ctx.inputs["token"].dims[1] - 1, "token_ks": max(op.top_k - 1, 0)}
        if op.mode is Mode.SCATTER:
            most["token_index"] = (rows - 1) // op.top_k
        # The later half of the rows has an expert, whatever is drawn.
        return Domain(ints=(0, most.get(port, rows // 2)))
    return scaled_domain(ctx.inputs["weight"].dims[1], port, "token", ctx)


def exact_ports(op: MoeGroupedMatmul, ctx: Context) -> frozenset[str]:
    return frozenset(INDICES)


REFERENCE = Reference(
    evaluate=evaluate,
    bound=bound,
    domain=domain,
    exact_ports=exact_ports,
    multiplied=("token", "weight"),
)
