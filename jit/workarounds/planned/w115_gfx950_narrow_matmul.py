# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-115: Products with 32 columns, whose operands go straight to LDS, break the compiler.

The pass that pipelines the loop writes beyond its memory; the process ends by SIGABRT or SIGSEGV.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...node_context import GraphContext, NodeContext
from ..rule import Workaround

if TYPE_CHECKING:
    from ....graph_api.tensor import TensorSpec

__all__ = ["WORKAROUND"]

_COLUMNS = 32
_STEP = 32  # elements of a row of a that a matrix instruction takes


def _flags(around: GraphContext, nodes: Sequence[NodeContext]) -> Iterator[str]:
    if any(_narrow(node) for node in nodes):
        yield "--iree-llvmgpu-use-direct-load=false"


def _narrow(context: NodeContext) -> bool:
    if not context.named("matmul"):
        return False
    a, b = context.spec("a"), context.spec("b")
    return b.dims[-1] == _COLUMNS and a.dims[-1] > 2 * _STEP and all(map(_is_16_bits, (a, b)))


def _is_16_bits(spec: TensorSpec) -> bool:
    return spec.data_type.is_float and spec.data_type.bits == 16


WORKAROUND = Workaround(
    id="W-115",
    title="Products with 32 columns, whose operands go straight to LDS, break the compiler",
    symptom="crash",
    targets=("gfx950",),
    instead="operands are not copied straight to LDS",
    flags=_flags,
)
