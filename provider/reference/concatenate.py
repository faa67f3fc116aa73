# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Concatenate: NumPy's."""

from __future__ import annotations

import numpy as np

from ...graph_api.ops.concatenate import Concatenate
from .base import Arrays, Context
from .convert import Array
from .movement import moving

__all__ = ["REFERENCE"]


def _move(op: Concatenate, inputs: Arrays, ctx: Context, errors: bool) -> Array:
    return np.concatenate([inputs[port] for port in op.INPUTS[0].connected(inputs)], op.axis)


REFERENCE = moving(_move)
