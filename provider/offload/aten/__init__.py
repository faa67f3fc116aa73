# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the offload pipeline knows of aten ops: one table, by the op's name in the torch dialect.

The same table says which ops are outlined and how a region becomes a hipDNN graph, so that what
is claimed can be built.  An entry's ``build`` reads every operand of the op: it is honoured, or
the op is refused with a rule (`call.RULES`).
"""

from __future__ import annotations

from . import (
    attention,
    conv,
    elementwise,
    gradients,
    matmuls,
    movement,
    quantised,
    rows,
    windows,
)
from .call import AtenOp

__all__ = ["ATEN"]

_FAMILIES = (
    *(elementwise, matmuls, conv, rows, attention, windows, movement, quantised),
    gradients,
)

ATEN: dict[str, AtenOp] = {name: entry for one in _FAMILIES for name, entry in one.OPS.items()}
