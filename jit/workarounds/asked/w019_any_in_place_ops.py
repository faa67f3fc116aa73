# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-019: sort, topk, index_put and scatter work in the buffer of a program input."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..rule import ALL, Workaround

__all__ = ["WORKAROUND"]


_IN_PLACE = re.compile(
    r"torch\.aten\.(\w*sort|topk|kthvalue|\w*index_put\w*|\w*scatter\w*"
    r"|index_(add|copy|fill|reduce)\w*)(\..*)?"
)


def _in_place(names: Iterable[str]) -> bool:
    """Whether one of the ops of a function works in the buffer of an operand."""
    return any(_IN_PLACE.fullmatch(name) for name in names)


WORKAROUND = Workaround(
    id="W-019",
    title="sort, topk, index_put and scatter work in the buffer of a program input",
    symptom="wrong numbers",
    targets=ALL,
    instead="the operands of a custom op with such an op are materialised",
    applies=_in_place,
)
