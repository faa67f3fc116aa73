# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One aten op as a module, offloaded, run and compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hipdnn_iree.provider.offload import offload
from torch_text import Module, Val

A = np.ndarray[Any, Any]
X = np.random.default_rng(7)


def run(
    name: str,
    arrays: list[A],
    rest: tuple[Any, ...],
    expected: A,
    *,
    order: Callable[[list[Val], tuple[Any, ...]], list[Any]] | None = None,
    engine: str = "reference",
    element: str = "",
) -> list[str]:
    """Check the op's result, and return the names of the graph's ops."""
    m = Module()
    kinds = {"float32": "f32", "float16": "f16", "int8": "si8", "int64": "si64", "bool": "i1"}
    kinds |= {"int32": "si32", "float64": "f64", "uint8": "ui8"}
    values = [m.argument(*a.shape, element=kinds[str(a.dtype)]) for a in arrays]
    operands = order(values, rest) if order else [*values, *rest]
    out = element or kinds[str(arrays[0].dtype)]
    y = m.op(name, operands, *expected.shape, element=out)
    text = m.text(y)
    module = offload(text, engine=engine)
    assert not module.remarks, [str(one) for one in module.remarks]
    (got,) = module.executor().run(*arrays)
    assert got.shape == expected.shape
    if out == "i1" or out.startswith(("s", "u")):
        assert np.array_equal(got, expected.astype(got.dtype))
    else:
        bound = 2e-3 if out == "f16" else 2e-6
        assert np.allclose(got.astype(np.float64), expected, rtol=bound, atol=bound), name
    (graph,) = (one.plan.graph for one in module.graphs.values())
    return [one.op.NAME for one in graph.nodes]


def x(*dims: int, kind: Any = np.float32, low: float = -3, high: float = 3) -> A:
    return X.uniform(low, high, dims).astype(kind)
