# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of the layer normalisation, in the compute type."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.layernorm_backward import LayernormBackward
from ...emit.builder import Builder, Value
from .row_norms import Rows, gradients, inverse_root, whole

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit dx, dscale and dbias, from saved statistics or from new ones."""
    op = node.op
    assert isinstance(op, LayernormBackward)
    rows = Rows.of(b, inputs["x"], inputs["scale"], op.normalized_dim_count)
    x = rows.load(whole(b, inputs["x"]), node.compute_data_type)
    if "mean" in inputs:
        mean, inverse = (
            rows.load_statistic(inputs[port], x.dtype) for port in ("mean", "inv_variance")
        )
        centred = rows.centre(x, mean)
    else:
        centred = rows.centre(x, rows.average(x))
        square = rows.average(b.mul(centred, centred))
        inverse = inverse_root(b, square, inputs["epsilon"], node)
    normalised = b.mul(centred, inverse)
    return gradients(b, node, inputs, rows, normalised, inverse, centred=True)
