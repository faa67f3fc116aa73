# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Transpose: NumPy's."""

from __future__ import annotations

import numpy as np

from ...graph_api.ops.transpose import Transpose
from .base import Arrays, Context
from .convert import Array
from .movement import moving

__all__ = ["REFERENCE"]


def _move(op: Transpose, inputs: Arrays, ctx: Context, errors: bool) -> Array:
    return np.transpose(inputs["x"], op.permutation)


REFERENCE = moving(_move)
