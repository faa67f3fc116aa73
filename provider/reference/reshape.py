# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reshape: NumPy's, in row-major order of the logical dims."""

from __future__ import annotations

from ...graph_api.ops.reshape import Reshape
from .base import Arrays, Context
from .convert import Array
from .movement import moving

__all__ = ["REFERENCE"]


def _move(op: Reshape, inputs: Arrays, ctx: Context, errors: bool) -> Array:
    return inputs["x"].reshape(ctx.outputs["y"].dims)


REFERENCE = moving(_move)
