# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of the experts' weights: the outer product of each row is added to its expert's."""

from __future__ import annotations

import numpy as np

from ...graph_api.ops.moe_grouped_matmul_bwd import MoeGroupedMatmulBwd
from .analysis import bilinear_bound, scaled_domain
from .base import Arrays, Context, Domain, Reference
from .convert import Array
from .moe_grouped_matmul import expert_of

__all__ = ["REFERENCE"]


def _add_up(owners: list[int], token: Array, doutput: Array, experts: int) -> Array:
    result = np.zeros((experts, token.shape[2], doutput.shape[2]), dtype=token.dtype)
    for row, expert in enumerate(owners):
        if expert >= 0:
            result[expert] += np.outer(token[0, row], doutput[0, row])
    return result


def _owners(inputs: Arrays, experts: int) -> list[int]:
    offsets = inputs["first_token_offset"]
    return [expert_of(row, offsets, experts) for row in range(inputs["token"].shape[1])]


def evaluate(op: MoeGroupedMatmulBwd, inputs: Arrays, ctx: Context) -> Arrays:
    experts = ctx.outputs["dweight"].dims[0]
    owners = _owners(inputs, experts)
    return {"dweight": ctx.finish(_add_up(owners, inputs["token"], inputs["doutput"], experts))}


def bound(
    op: MoeGroupedMatmulBwd, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context
) -> Arrays:
    experts = ctx.outputs["dweight"].dims[0]
    owners = _owners(inputs, experts)
    token, doutput = ((inputs[port], errors[port]) for port in ("token", "doutput"))
    # All rows are summed, those of other experts as zeros.
    n = inputs["token"].shape[1]
    found = bilinear_bound(lambda x, dy: _add_up(owners, x, dy, experts), token, doutput, n, ctx)
    return {"dweight": found}


def domain(op: MoeGroupedMatmulBwd, port: str, ctx: Context) -> Domain:
    rows = ctx.inputs["token"].dims[1]
    if port == "first_token_offset":
        return Domain(ints=(0, rows // 2))
    return scaled_domain(rows, port, "token", ctx)


def exact_ports(op: MoeGroupedMatmulBwd, ctx: Context) -> frozenset[str]:
    return frozenset({"first_token_offset"})


REFERENCE = Reference(
    evaluate=evaluate,
    bound=bound,
    domain=domain,
    exact_ports=exact_ports,
    multiplied=("token", "doutput"),
)
