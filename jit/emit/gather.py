# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reading parts of a tensor by a list of indices."""

from __future__ import annotations

from typing import Any

from torch_mlir import ir

from .builder import Builder, T, Value

__all__ = ["gather", "standing_alone"]

_VIEWS = frozenset({"torch.aten.view", "torch.aten.permute", "torch.aten.expand"})


def gather(b: Builder, x: Value, axis: int, index: Value) -> Value:
    """Return the parts of x along an axis that a list of indices names, none of them outside."""
    x = standing_alone(b, x)
    shape = (*x.shape[:axis], index.shape[0], *x.shape[axis + 1 :])
    return b.call(T.AtenIndexSelectOp, shape, x.dtype, x, axis, index)


def standing_alone(b: Builder, x: Value) -> Value:
    """Return x as it may be read by a list of indices.

    A part of a larger tensor, such as an operand with gaps, is copied first (W-080).
    """
    if b.strikes("W-080") and _is_part(x.ssa):
        # An outermost dim of one entry is in the way of the copy.
        entries = x.shape[1:] if x.rank > 1 and x.shape[0] == 1 else x.shape
        return b.reshape(b.materialise(b.reshape(x, entries)), x.shape)
    return x


def _is_part(value: Any) -> bool:
    """Whether a value is cut out of another one, seen through changes of its shape."""
    while not isinstance(value.owner, ir.Block):
        made_by = value.owner.operation
        if made_by.name == "torch.aten.slice.Tensor":
            _, axis, start, _, step = made_by.operands
            # A prefix of the outermost dim keeps its layout.
            if [_constant(v) for v in (axis, start, step)] != [0, 0, 1]:
                return True
        elif made_by.name not in _VIEWS:
            return False
        value = made_by.operands[0]
    return False


def _constant(value: Any) -> int | None:
    """Return a number that the IR has as a constant."""
    if isinstance(value.owner, ir.Block) or value.owner.name != "torch.constant.int":
        return None
    return int(value.owner.attributes["value"].value)
