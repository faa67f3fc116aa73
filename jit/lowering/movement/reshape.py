# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reshape: a view, which costs nothing unless the element order in memory changes."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph_api.frozen import FrozenNode
from ...emit.builder import Builder, Value

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y = x's elements with other dims."""
    return {"y": b.reshape(inputs["x"], b.results["y"])}
