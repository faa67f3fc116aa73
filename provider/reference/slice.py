# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Slice: NumPy's."""

from __future__ import annotations

from ...graph_api.ops.slice import Slice
from .base import Arrays, Context
from .convert import Array
from .movement import moving

__all__ = ["REFERENCE"]


def _move(op: Slice, inputs: Arrays, ctx: Context, errors: bool) -> Array:
    parts = zip(op.starts, op.limits, op.strides, strict=True)
    return inputs["x"][tuple(slice(*part) for part in parts)]


REFERENCE = moving(_move)
