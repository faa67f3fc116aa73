# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-152: A concatenation along an inner dim transposes all parts, and the result back.

On CPUs that takes 2.3 times as long as storing each part in its place (two of 8192x64).  On GPUs
each part that is stored would be one more kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....graph_api.dtypes import DataType
from ...emit.dims import Dim
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]


def _inner(dtype: DataType, extents: Sequence[int], axis: int) -> bool:
    """Whether floats are concatenated along that dim, and dims outside of it are larger than 1."""
    wide = dtype.is_float and dtype.bits >= 16
    return wide and not any(isinstance(n, Dim) for n in extents) and prod(extents[:axis]) > 1


WORKAROUND = Workaround(
    id="W-152",
    title="A concatenation along an inner dim transposes all parts, and the result back",
    symptom="slow",
    targets=CPU,
    instead="each part is stored in its place",
    applies=_inner,
)
