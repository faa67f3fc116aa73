# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Buffers that are parts of one, between one another: accepted where they share no byte."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import BindError
from hipdnn_iree.jit.runtime.interleaved import Places, apart

Steps = tuple[tuple[int, int], ...]


def taken(first: int, of: Places) -> set[int]:
    corners = itertools.product(*(range(0, d * s, s) for d, s in of.steps))
    return {first + sum(at) + byte for at in corners for byte in range(of.size)}


def test_what_counts_as_apart_shares_no_byte() -> None:
    random, seen = Random(3), set()

    def some() -> Places:
        size, steps, stride = random.choice((1, 2, 4)), [], 0
        stride = size * random.choice((1, 1, 2, 3))
        for _ in range(random.randint(0, 3)):
            extent = random.randint(2, 4)
            steps.append((extent, stride))
            stride *= extent + random.choice((0, 0, 1, 3))
        return Places(size, tuple(steps))

    for _ in range(5000):
        one, other = some(), some()
        first, second = random.randrange(40), random.randrange(40)
        said = apart(first, one, second, other)
        shared = not taken(first, one).isdisjoint(taken(second, other))
        assert not (said and shared)
        assert said == apart(second, other, first, one)
        seen.add((said, shared))
    assert seen == {(True, False), (False, True), (False, False)}


WHOLE = (2, 5, 6, 8)  # NHWC
PARTS = {
    "channels": ((..., slice(0, 3)), (..., slice(3, 8))),
    "columns": ((slice(None), slice(None), slice(0, 2)), (slice(None), slice(None), slice(2, 6))),
    "rows": ((slice(None), slice(0, 2)), (slice(None), slice(2, 5))),
    "every other": ((..., slice(0, 8, 2)), (..., slice(1, 8, 2))),
}


def memory(shape: tuple[int, ...] = WHOLE) -> np.ndarray[Any, Any]:
    raw = np.zeros(int(np.prod(shape)) + 16, np.float32)
    return raw[-raw.ctypes.data % 64 // 4 :][: int(np.prod(shape))].reshape(shape)


def strides(array: np.ndarray[Any, Any]) -> list[int]:
    return [s // 4 for s in array.strides]


@pytest.mark.parametrize("how", PARTS)
def test_two_outputs_of_a_plan_fill_one_buffer(how: str) -> None:
    whole = memory()
    parts = [whole[part] for part in PARTS[how]]
    g = Graph(io_data_type="float")
    buffers: dict[Any, Any] = {}
    for k, part in enumerate(parts):
        x = g.tensor(dims=part.shape, name=f"x{k}")
        y = g.mul(x, g.scalar(k + 2.0)).set_output().set_name(f"y{k}")
        y.set_stride(strides(part))
        buffers |= {x: np.full(part.shape, 5, np.float32), y: part}
    plan = g.build("cpu")

    def check() -> None:
        assert (parts[0] == 10).all()
        assert (parts[1] == 15).all()
        whole[...] = 0

    for _ in range(3):  # described, recognised, remembered
        plan.execute(buffers)
        check()
    plan.bind(buffers)()
    check()
    shared = np.lib.stride_tricks.as_strided(whole, y.dims, parts[1].strides)
    with pytest.raises(BindError, match="BIND-10"):
        plan.execute({**buffers, y: shared})


def test_a_layer_adds_channels_to_those_that_it_reads() -> None:
    """As in a DenseNet: nothing is concatenated."""
    whole = memory((1, 4, 4, 48))
    channels = whole.transpose(0, 3, 1, 2)
    read, made = channels[:, :16], channels[:, 16:32]
    g = Graph(io_data_type="float")
    x = g.tensor(dims=read.shape, strides=strides(read), name="x")
    y = g.relu(x).set_output().set_name("y")
    y.set_stride(strides(made))
    plan = g.build("cpu")
    read[...] = np.random.default_rng(0).standard_normal(read.shape)
    for _ in range(3):
        plan.execute({x: read, y: made})
    assert np.array_equal(made, np.maximum(read, 0))
    assert not channels[:, 32:].any()
    for start in (1, 12, 15):
        with pytest.raises(BindError, match="BIND-10"):
            plan.execute({x: read, y: channels[:, start : start + 16]})
