# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layer normalisation, in two passes over x - mean, in the compute type."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.layernorm import Layernorm
from ...emit.builder import Builder, Value
from .row_norms import Rows, aligned_operand, inverse_root

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y and the statistics."""
    op = node.op
    assert isinstance(op, Layernorm)
    # W-085: Torch's own op sums the squares of bfloat16 in bfloat16.
    rows = Rows.of(b, inputs["x"], inputs["scale"], op.normalized_dim_count)
    x = rows.gather(inputs["x"], node.compute_data_type)
    if rows.n == 1:
        x = b.copy(x)  # the mean folds to x, which must not become an output
    mean = rows.average(x)
    centred = rows.centre(x, mean)
    square = rows.average(b.mul(centred, centred))
    inverse = inverse_root(b, square, inputs["epsilon"], node)
    if rows.ragged:
        # From x itself: cut from what was completed, it would not be fused.
        there = b.sub(b.convert(inputs["x"], x.dtype), rows.store_statistic(mean))
        y = b.mul(there, rows.store_statistic(inverse))
    else:
        y = rows.store(b.mul(centred, inverse))
    scale, bias = (aligned_operand(b, inputs[port], y.rank, node) for port in ("scale", "bias"))
    return {
        "y": b.add(b.mul(y, scale), bias),
        "mean": rows.store_statistic(mean),
        "inv_variance": rows.store_statistic(inverse),
    }
