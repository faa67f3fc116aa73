# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Integers that become bfloat16, for CPUs with and without instructions for it (W-147)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from graph_rows import apart
from hipdnn_iree import Graph, Target, Tensor
from hipdnn_iree.jit.lowering.module import lower_graph
from hipdnn_iree.provider.emulated import emulated

# An old one, one with AVX2, and one with AVX512-BF16, which may compile what others do not.
CPUS = ("x86-64", "x86-64-v3", "znver4")
Moves = Callable[[Graph, Tensor], Tensor]


def _joined(graph: Graph, x: Tensor) -> Tensor:
    return graph.concatenate([graph.slice(x, starts=(0, 1), limits=(6, 5)), x], axis=1)


def _framed(graph: Graph, x: Tensor) -> Tensor:
    x = graph.pad(x, pre_padding=(1, 0), post_padding=(0, 2), value=3)
    return graph.reshape(graph.transpose(x, (1, 0)), (7, 1, 9))


MOVES: dict[str, Moves] = {
    "nothing": lambda graph, x: x,
    "joined": _joined,
    "framed": _framed,
}


def _graph(given: str, moves: Moves) -> Graph:
    graph = Graph()
    x = graph.tensor(dims=(6, 7), data_type=given)
    wide = moves(graph, graph.cast(x, "float"))
    graph.cast(wide, "bfloat16").set_output()
    graph.cast(x, "bfloat16").set_output()
    return graph


@pytest.mark.parametrize("moves", MOVES)
@pytest.mark.parametrize("given", ["boolean", "int8", "int32"])
def test_they_compile_as_planned_for_every_cpu(given: str, moves: str) -> None:
    for cpu in CPUS:
        assert _graph(given, MOVES[moves]).build(f"cpu:{cpu}").attempt == "", cpu


@pytest.mark.parametrize("mode", ["CMP_LT", "LOGICAL_AND"])
def test_truth_values_compile_as_planned_for_every_cpu(mode: str) -> None:
    for cpu in CPUS:
        graph = Graph(io_data_type="bfloat16", compute_data_type="float")
        x, y = graph.tensor(dims=(37,)), graph.tensor(dims=(37,))
        graph.pointwise(x, y, mode=mode).set_output()
        assert graph.build(f"cpu:{cpu}").attempt == "", cpu


def _values(dtype: Any) -> Any:
    """Return integers at, just below and just above the middle of two bfloat16 numbers."""
    most = np.iinfo(dtype).bits - 1
    ties = [2**n + m * 2 ** (n - 8) for n in range(8, most) for m in (1, 3)]
    near = [sign * (tie + d) for tie in ties for d in (-1, 0, 1) for sign in (1, -1)]
    edge = np.iinfo(dtype)
    return np.array([*near, 0, 1, -1, edge.min, edge.max, edge.max - 1], dtype)


def _nearest(values: Any) -> Any:
    """Return what they round to, by Python's integers."""
    step = [1 << max(abs(int(v)).bit_length() - 8, 0) for v in values]
    found = []
    for v, s in zip(values.tolist(), step, strict=True):
        low, rest = divmod(abs(v), s)
        up = 2 * rest > s or (2 * rest == s and low % 2)
        found.append((low + up) * s * (1 if v > 0 else -1))
    return np.array(found, np.float64)


@pytest.mark.parametrize("given", ["int32", "int64"])
@pytest.mark.parametrize("target", ["cpu", "gfx942"])
def test_large_ones_are_rounded_once(given: str, target: str) -> None:
    values = _values(np.dtype(given))
    convert = _converted if target == "cpu" else partial(apart, _emulated)
    found = convert(given, target)
    wrong = found != _nearest(values)
    assert list(zip(values[wrong], found[wrong], strict=True)) == []


def _emulated(given: str, target: str) -> Any:
    with emulated(target):
        return _converted(given, target)


def _converted(given: str, target: str) -> Any:
    values = _values(np.dtype(given))
    graph = Graph()
    x = graph.tensor(dims=values.shape, data_type=given)
    y = graph.cast(x, "bfloat16").set_output()
    return graph.build(target).run({x: values})[y].astype(np.float64)


def test_what_is_moved_in_two_ways_again_and_again_is_lowered_at_once() -> None:
    """Each way to the source was followed: 40 nodes were not lowered in a minute."""
    graph = Graph(io_data_type="float")
    x = graph.tensor(dims=(2, 3))
    for _ in range(60):
        ends = ((1, 0), (2, 3)), ((0, 0), (1, 3))
        x = graph.concatenate([graph.slice(x, starts=a, limits=b) for a, b in ends], axis=0)
    graph.cast(x, "bfloat16").set_output()
    assert "torch.aten.cat" in str(lower_graph(graph.freeze(), Target.parse("cpu")))
