# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Aten pooling and resizing: what the graphs compute, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from aten_ops import run, x
from hipdnn_iree.provider.offload import offload, outline
from torch_text import Module


@pytest.mark.parametrize("engine", ["reference", "iree"])
def test_maximum_pooling_with_its_gradient(engine: str) -> None:
    """Windows that overlap, padding, and equal elements, of which the first one counts."""
    a = np.round(x(2, 3, 7, 9) * 2)
    dy = x(2, 3, 4, 5)
    padded = np.pad(a, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-np.inf)
    where = np.pad(np.arange(63).reshape(7, 9), 1, constant_values=-1)
    y, index, dx = np.zeros(dy.shape), np.zeros(dy.shape, np.int64), np.zeros((2, 3, 63))
    for n, c, i, j in np.ndindex(*dy.shape):
        at = slice(2 * i, 2 * i + 3), slice(2 * j, 2 * j + 3)
        best = int(padded[n, c][at].argmax())
        y[n, c, i, j], index[n, c, i, j] = padded[n, c][at].flat[best], where[at].flat[best]
        dx[n, c, index[n, c, i, j]] += dy[n, c, i, j]
    big, small = "!torch.vtensor<[2,3,7,9],f32>", "!torch.vtensor<[2,3,4,5],f32>"
    places, pair = "!torch.vtensor<[2,3,4,5],si64>", "!torch.list<int>"
    window = ", ".join(["%size", "%two", "%one", "%one", "%false"])
    kinds = f"{pair}, {pair}, {pair}, {pair}, !torch.bool"
    name = "torch.aten.max_pool2d_with_indices"
    lists = "".join(
        f"""%int{k} = torch.constant.int {k}
        %{word} = torch.prim.ListConstruct %int{k}, %int{k} : (!torch.int, !torch.int) -> {pair}
        """
        for k, word in ((1, "one"), (2, "two"), (3, "size"))
    )
    text = f"""func.func @main(%x: {big}, %dy: {small}) -> ({small}, {places}, {big}) {{
        %false = torch.constant.bool false
        {lists}
        %y, %index = {name} %x, {window} : {big}, {kinds} -> {small}, {places}
        %dx = {name}_backward %dy, %x, {window}, %index :
          {small}, {big}, {kinds}, {places} -> {big}
        return %y, %index, %dx : {small}, {places}, {big}
    }}"""
    module = offload(text, engine=engine)
    assert not module.remarks, [str(one) for one in module.remarks]
    got = module.executor().run(a, dy)
    assert np.array_equal(got[0], y)
    assert np.array_equal(got[1], index)
    assert np.allclose(got[2], dx.reshape(a.shape), atol=1e-5)


def test_results_that_are_not_read() -> None:
    a = x(1, 2, 4, 6)
    pooled = a.reshape(1, 2, 2, 2, 3, 2).max((3, 5))
    m = Module()
    window = ([2, 2], [2, 2], [0, 0], [1, 1], False)
    y, index = m.results(
        "aten.max_pool2d_with_indices", [m.argument(*a.shape), *window], pooled.shape, pooled.shape
    )
    module = offload(m.text(y), engine="reference")
    assert np.array_equal(module.executor().run(a)[0], pooled)
    assert outline(m.text(y, index)).declined


def test_windows() -> None:
    a = x(2, 3, 7)
    v = np.pad(a.astype(np.float64), ((0, 0), (0, 0), (1, 1)), constant_values=-np.inf)
    w = np.pad(a.astype(np.float64), ((0, 0), (0, 0), (1, 1)))
    counts = np.pad(np.ones(7), 1)
    at = [slice(i, i + 3) for i in (0, 2, 4, 6)]
    largest = np.stack([v[..., s].max(-1) for s in at], -1)
    run("aten.max_pool1d", [a], ([3], [2], [1], [1], False), largest)
    mean = np.stack([w[..., s].mean(-1) for s in at], -1)
    run("aten.avg_pool1d", [a], ([3], [2], [1], False, True), mean)
    without = np.stack([w[..., s].sum(-1) / counts[s].sum() for s in at], -1)
    run("aten.avg_pool1d", [a], ([3], [2], [1], False, False), without)
    ceiled = np.stack([a[..., 0:3].max(-1), a[..., 3:6].max(-1), a[..., 6:].max(-1)], -1)
    run("aten.max_pool1d", [a], ([3], [3], [0], [1], True), ceiled.astype(np.float64))
    b = x(2, 3, 4, 6)
    u = b.astype(np.float64)
    halves = u.reshape(2, 3, 2, 2, 3, 2).mean((3, 5))
    # A stride that is left out is the size of the windows; torch-mlir reads past the empty list.
    run("aten.avg_pool2d", [b], ([2, 2], [], [0], False, True, None), halves)
    largest = u.reshape(2, 3, 2, 2, 3, 2).max((3, 5))
    run("aten.max_pool2d", [b], ([2, 2], [], [0], [1], False), largest)
    run("aten.adaptive_avg_pool2d", [b], ([2, 3],), halves)
    run("aten.upsample_nearest2d", [b], ([8, 12], None, None), u.repeat(2, 2).repeat(2, 3))


def test_windows_over_whole_planes_are_reductions() -> None:
    """As of these engines have one code for all sizes; padding, and integers, are pooled."""
    a = x(2, 3, 4, 6)
    u = a.astype(np.float64)
    plane, mean, largest = [4, 6], u.mean((2, 3), keepdims=True), u.max((2, 3), keepdims=True)
    reduced, pooled = ["reduction"], ["resample_fwd"]
    assert run("aten.adaptive_avg_pool2d", [a], ([1, 1],), mean) == reduced
    assert run("aten.max_pool2d", [a], (plane, [], [0], [1], False), largest) == reduced
    assert run("aten.avg_pool2d", [a], (plane, [], [0], False, True, None), mean) == reduced
    wide = ([6, 8], [], [1], False, True, None)
    assert run("aten.avg_pool2d", [a], wide, mean * 24 / 48) == pooled
    half = u.max(2, keepdims=True)
    assert run("aten.max_pool2d", [a], ([4, 1], [], [0], [1], False), half) == pooled
    n = (a * 9).astype(np.int32)
    largest = n.max((2, 3), keepdims=True).astype(np.float64)
    assert run("aten.max_pool2d", [n], (plane, [], [0], [1], False), largest) == pooled


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("ceil", [True, False])
@pytest.mark.parametrize("stride", [[2, 3], []])
def test_the_gradient_of_average_pooling(stride: list[int], ceil: bool, counted: bool) -> None:
    """Each window gives its elements equal parts; what is outside of the input gets none."""
    size, step, pad = (3, 2), stride or [3, 2], 0 if ceil and counted else 1
    extents = (7, 8)
    counts = [
        -(-(n + 2 * pad - k) // s) + 1 if ceil else (n + 2 * pad - k) // s + 1
        for n, k, s in zip(extents, size, step, strict=True)
    ]
    # A window that begins behind the input and its padding in front is left out.
    counts = [c - ((c - 1) * s >= n + pad) for c, s, n in zip(counts, step, extents, strict=True)]
    dy = x(2, 3, *counts)
    dx = np.zeros((2, 3, *extents))
    for i, j in np.ndindex(*counts):
        rows, columns = (
            slice(max(at * s - pad, 0), min(at * s - pad + k, n))
            for at, s, k, n in zip((i, j), step, size, extents, strict=True)
        )
        inside = dx[:, :, rows, columns]
        whole = counted and not ceil
        inside += dy[..., i, j, None, None] / (6 if whole else inside[0, 0].size)
    operands = (list(size), stride, [pad], ceil, counted, None)
    made = run("aten.avg_pool2d_backward", [dy, x(2, 3, *extents)], operands, dx)
    assert made == ["resample_bwd"]
