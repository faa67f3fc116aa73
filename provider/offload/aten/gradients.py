# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Aten gradients that are hipDNN ops of their own; others are written by elementwise ones."""

from __future__ import annotations

from typing import Any

from ....graph_api.tensor import Tensor
from .call import AtenOp, Call, Family, compute_type

__all__ = ["OPS"]


def _convolution(c: Call) -> tuple[Tensor | None, ...]:
    dy, x, w = (c.type(name).dims for name in ("grad_output", "input", "weight"))
    spatial = len(x) - 2
    if not 1 <= spatial <= 3:
        raise c.refuse("input", f"rank {len(x)}", "a rank from 3 to 5: (N, C, spatial...)")
    c.must_be("transposed", False)
    wanted = c.constant("output_mask")
    groups = c.integer("groups")
    if x[1] != w[1] * groups:
        raise c.refuse("groups", groups, f"a number that fits x's {x[1]} channels")
    compute = compute_type(c.type("grad_output").data_type)
    given: dict[str, Any] = {
        **{name: c.integers(name, spatial) for name in ("padding", "stride", "dilation")},
        "compute_data_type": compute,
    }
    dx = dw = db = None
    if wanted[0]:
        dx = c.graph.conv_dgrad(c.tensor("grad_output"), c.tensor("weight"), dx_dims=x, **given)
    if wanted[1]:
        dw = c.graph.conv_wgrad(c.tensor("grad_output"), c.tensor("input"), dw_dims=w, **given)
    if wanted[2]:
        sums = c.graph.reduction(
            c.tensor("grad_output"),
            mode="add",
            axes=(0, *range(2, len(dy))),
            compute_data_type=compute,
        )
        db = c.shaped(sums, (dy[1],))
    return dx, dw, db


OPS: dict[str, AtenOp] = {
    "aten.convolution_backward": AtenOp(
        (
            *("grad_output", "input", "weight", "bias_sizes", "stride", "padding", "dilation"),
            *("transposed", "output_padding", "groups", "output_mask"),
        ),
        _convolution,
        Family.MATMUL,
    ),
}
