# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Normalisation by the root mean square, in the compute type."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph_api.frozen import FrozenNode
from ...emit.builder import Builder, Value
from .row_norms import Rows, aligned_operand, inverse_root

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y and inv_rms."""
    rows = Rows.of(b, inputs["x"], inputs["scale"])
    x = rows.gather(inputs["x"], node.compute_data_type)
    inverse = inverse_root(b, rows.average(b.mul(x, x)), inputs["epsilon"], node)
    y = rows.store(b.mul(x, inverse))
    y = b.mul(y, aligned_operand(b, inputs["scale"], y.rank, node))
    if "bias" in inputs:
        y = b.add(y, aligned_operand(b, inputs["bias"], y.rank, node))
    return {"y": y, "inv_rms": rows.store_statistic(inverse)}
