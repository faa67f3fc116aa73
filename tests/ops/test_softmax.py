# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Softmax as a chain of max, sub, exp, sum and div: its numbers, and one kernel for all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph


def softmax(rows: int, columns: int, data_type: str) -> tuple[Graph, Any]:
    g = Graph(io_data_type=data_type, compute_data_type="float")
    x = g.tensor(dims=(rows, columns))
    e = g.exp(g.sub(x, g.reduction(x, mode="max", axes=1)))
    g.div(e, g.reduction(e, mode="add", axes=1)).set_output()
    return g, x


@pytest.mark.parametrize("data_type", ["half", "float"])
@pytest.mark.parametrize("columns", [1000, 4096])
def test_numbers_and_dispatches_on_the_cpu(
    columns: int, data_type: str, check: Callable[..., Any]
) -> None:
    g, x = softmax(16, columns, data_type)
    check(g.freeze())
    plan = g.build("cpu")
    assert plan.statistics["dispatches"] == 1
    # Logits far beyond what exp takes: only their differences count.
    kind = np.float16 if data_type == "half" else np.float32
    a = (1000 + 4 * np.random.default_rng(0).standard_normal((16, columns))).astype(kind)
    (y,) = plan.run({x: a}).values()
    wide = a.astype(np.float64)
    e = np.exp(wide - wide.max(1, keepdims=True))
    assert np.abs(y - e / e.sum(1, keepdims=True)).max() < (1e-3 if kind is np.float16 else 1e-5)


def test_one_dispatch_on_gfx942() -> None:
    assert softmax(16, 4096, "half")[0].build("gfx942").statistics["dispatches"] == 1
