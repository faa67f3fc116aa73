# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Transpose: a permute, which the compiler fuses into the consumers."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.transpose import Transpose
from ...emit.builder import Builder, Value

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y with y's dim i being x's dim ``permutation[i]``."""
    op, x = node.op, inputs["x"]
    assert isinstance(op, Transpose)
    return {"y": b.permute(x, op.permutation)}
