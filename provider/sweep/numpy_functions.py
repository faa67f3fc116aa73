# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What custom ops in suites mean: the functions that ``reference`` names there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["NUMPY_FUNCTIONS"]

NUMPY_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "swish": lambda x: x / (1 + np.exp(-x)),
    "matmul_and_relu": lambda x, w: (x @ w, np.maximum(x @ w, 0)),
    "max_over_channels": lambda x: x.max(1, keepdims=True),
}
"""Each takes float64 or int64 arrays with logical dims and returns an array, or a tuple of them."""
