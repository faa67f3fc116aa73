# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Atomic updates of LDS and device memory: one table, applied lane by lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .floats import fmax, fmin
from .formats import Array, bf16_bits, from_bf16
from .memory import Region

__all__ = ["OPERATIONS", "Update", "apply"]

# old value, operand(s) -> new value; arrays of the type named beside it.
Update = Callable[..., Array]


def _halves(convert: Callable[[Array], Array], back: Callable[[Array], Array]) -> Update:
    def add(old: Array, x: Array) -> Array:
        a, b = (np.ascontiguousarray(v)[..., None].view(np.uint16) for v in (old, x))
        total = back(convert(a).astype(np.float32) + convert(b).astype(np.float32)).view(np.uint16)
        words: Array = np.ascontiguousarray(total).view(np.uint32)[..., 0]
        return words

    return add


def _rounded(x: Array) -> Array:
    half: Array = x.astype(np.float16)
    return half


OPERATIONS: dict[str, tuple[str, Update]] = {
    "swap": ("u", lambda old, x: x),
    "add": ("u", lambda old, x: old + x),
    "sub": ("u", lambda old, x: old - x),
    "rsub": ("u", lambda old, x: x - old),
    "smin": ("i", np.minimum),
    "smax": ("i", np.maximum),
    "umin": ("u", np.minimum),
    "umax": ("u", np.maximum),
    "and": ("u", np.bitwise_and),
    "or": ("u", np.bitwise_or),
    "xor": ("u", np.bitwise_xor),
    "inc": ("u", lambda old, x: np.where(old >= x, old.dtype.type(0), old + old.dtype.type(1))),
    "dec": ("u", lambda old, x: np.where((old == 0) | (old > x), x, old - old.dtype.type(1))),
    "cmpswap": ("u", lambda old, x, wanted: np.where(old == wanted, x, old)),
    "add_f": ("f", lambda old, x: old + x),
    "min_f": ("f", fmin),
    "max_f": ("f", fmax),
    "pk_add_f16": ("u", _halves(lambda x: x.view(np.float16), _rounded)),
    "pk_add_bf16": ("u", _halves(from_bf16, bf16_bits)),
}


def apply(region: Region, at: Array, size: int, name: str, operands: list[Array]) -> Array:
    """Update each offset in turn.

    Parameters
    ----------
    region : Region
    at : numpy.ndarray of int64, shape (lanes,)
        Multiples of `size`.
    size : int
        4 or 8 bytes.
    name : str
        Key of `OPERATIONS`.
    operands : list of numpy.ndarray, each of shape (lanes,)
        uint32 or uint64.

    Returns
    -------
    numpy.ndarray of the same type, shape (lanes,)
        What was there before.
    """
    kind, update = OPERATIONS[name]
    dtype: Any = np.dtype(f"{kind}{size}")
    cells = region.u32 if size == 4 else region.u64
    index = at >> (2 if size == 4 else 3)
    before = np.empty(len(index), cells.dtype)
    left = np.arange(len(index))
    while left.size:  # of equal addresses one at a time, in the order of lanes
        _, first = np.unique(index[left], return_index=True)
        now = left[first]
        old = cells[index[now]]
        before[now] = old
        values = [x[now].view(dtype) for x in operands]
        cells[index[now]] = np.asarray(update(old.view(dtype), *values)).view(cells.dtype)
        left = np.delete(left, first)
    return before
