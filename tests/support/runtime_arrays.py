# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays for the tests of the runtime: random, at any address, or poisoned."""

from __future__ import annotations

from typing import Any

import numpy as np
from hipdnn_iree.jit.runtime.arrays import aligned_bytes

POISON = np.float32(-77.0)
RNG = np.random.default_rng(1234)


def floats(*dims: int) -> Any:
    return RNG.standard_normal(dims, np.float32)


def at_offset(array: Any, offset: int) -> Any:
    """Return a copy that starts ``offset`` bytes past a 64-byte boundary."""
    memory = aligned_bytes(array.nbytes + 64)[offset : offset + array.nbytes]
    copy = np.ndarray(array.shape, array.dtype, memory)
    copy[...] = array
    assert copy.ctypes.data % 64 == offset
    return copy
