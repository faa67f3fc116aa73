# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Block-scaled dequantisation."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph_api.errors import Problem
from ...graph_api.ops.block_scale_dequantize import BlockScaleDequantize
from ..node_context import NodeContext
from .counts import per_element
from .op_info import OpInfo, problem

__all__ = ["INFO", "RULES"]

RULES: dict[str, str] = {
    "IREE-BLOCK-01": "scales are not negative, which hipDNN leaves undefined",
}


def _declines(context: NodeContext) -> Iterator[Problem]:
    op = context.op
    if isinstance(op, BlockScaleDequantize) and op.is_negative_scale:
        hint = "negate y instead"
        yield problem(context.node, "IREE-BLOCK-01", "is_negative_scale", "true", "false", hint)


INFO = OpInfo(work=per_element("y", 1), fuses=True, declines=_declines)
