# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which values are parts of larger tensors, in whose memory they are read."""

from __future__ import annotations

from typing import Any

from torch_mlir import ir

__all__ = ["is_part"]

_SLICE, _PERMUTE = "torch.aten.slice.Tensor", "torch.aten.permute"
# A conversion is moved behind the access, so that it reads the part.
_SEEN_THROUGH = frozenset(
    {_PERMUTE, "torch.aten.view", "torch.aten.expand", "torch.prims.convert_element_type"}
)


def is_part(value: Any) -> bool:
    """Return whether a value is cut out of another one so that its rows lie apart.

    Seen through changes of its shape and type.  A prefix of the outermost dim lies as before.
    """
    prefix = False
    while not isinstance(value.owner, ir.Block):
        made_by = value.owner.operation
        if made_by.name == _SLICE:
            _, axis, start, _, step = made_by.operands
            if [_constant(v) for v in (axis, start, step)] != [0, 0, 1]:
                return True
            prefix = True
        elif made_by.name not in _SEEN_THROUGH:
            return False
        elif prefix and made_by.name == _PERMUTE:
            return True  # of a dim that is another one in memory
        value = made_by.operands[0]
    return False


def _constant(value: Any) -> int | None:
    """Return a number that the IR has as a constant."""
    if isinstance(value.owner, ir.Block) or value.owner.name != "torch.constant.int":
        return None
    return int(value.owner.attributes["value"].value)
