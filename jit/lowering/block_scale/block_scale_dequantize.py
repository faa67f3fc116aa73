# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Block-scaled numbers: one multiplication, in which the compiler broadcasts the scales."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.block_scale_dequantize import BlockScaleDequantize
from ...emit.builder import Builder, Value

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y = x · scale."""
    op = node.op
    assert isinstance(op, BlockScaleDequantize)
    assert op.block_size is not None
    x, scale = (b.convert(inputs[port], node.compute_data_type) for port in ("x", "scale"))
    split: list[int] = []  # (blocks, elements) for dims with blocks
    kept: list[int] = []
    for blocks, size in zip(scale.shape, op.block_size, strict=True):
        split += [blocks, size] if size > 1 else [blocks]
        kept += [blocks, 1] if size > 1 else [blocks]
    scaled = b.mul(b.reshape(x, split), b.reshape(scale, kept))
    return {"y": b.reshape(scaled, x.shape)}
