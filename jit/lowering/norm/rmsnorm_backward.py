# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of the normalisation by the root mean square, in the compute type."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph_api.frozen import FrozenNode
from ...emit.builder import Builder, Value
from .row_norms import Rows, gradients, whole

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit dx, dscale and, where asked for, dbias."""
    rows = Rows.of(b, inputs["x"], inputs["scale"])
    x = rows.load(whole(b, inputs["x"]), node.compute_data_type)
    inverse = rows.load_statistic(inputs["inv_rms"], x.dtype)
    return gradients(b, node, inputs, rows, b.mul(x, inverse), inverse, centred=False)
