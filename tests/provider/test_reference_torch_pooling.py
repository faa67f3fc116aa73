# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pooling, resizing and their gradients in the float64 references, against PyTorch in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.provider.reference import execute

torch = pytest.importorskip("torch")
F = torch.nn.functional

# Image, window, stride, padding.
CASES: dict[str, tuple[tuple[int, ...], Any, Any, Any]] = {
    "plain": ((2, 3, 6, 8), (2, 2), (2, 2), (0, 0)),
    "overlapping": ((2, 3, 7, 9), (3, 3), (1, 2), (0, 0)),
    "padded": ((1, 2, 7, 6), (3, 2), (2, 1), (1, 1)),
    "with_gaps": ((1, 2, 11, 9), (2, 3), (5, 3), (0, 1)),
    "1d": ((2, 3, 13), (4,), (3,), (2,)),
    "3d": ((1, 2, 5, 6, 4), (2, 3, 2), (2, 2, 1), (1, 0, 1)),
}


def options(case: tuple[tuple[int, ...], Any, Any, Any]) -> dict[str, Any]:
    _, window, stride, padding = case
    return {"window": window, "stride": stride, "pre_padding": padding, "post_padding": padding}


def floats(*dims: int, seed: int = 3) -> np.ndarray[Any, Any]:
    return np.random.default_rng([seed, *dims]).standard_normal(dims)


def graph_and(array: np.ndarray[Any, Any]) -> tuple[Graph, Any]:
    graph = Graph(io_data_type="double", compute_data_type="double")
    return graph, graph.tensor(dims=array.shape)


def equal(got: np.ndarray[Any, Any], expected: Any) -> None:
    np.testing.assert_allclose(got, expected.detach().numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_max_pooling(case: tuple[tuple[int, ...], Any, Any, Any]) -> None:
    image, window, stride, padding = case
    x = floats(*image)
    tx = torch.from_numpy(x.copy()).requires_grad_()
    pool = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[len(window)]
    # torch, too, counts the chosen element in the image's spatial dims.
    y, chosen = pool(tx, window, stride, padding, return_indices=True)
    dy = floats(*y.shape, seed=4)
    y.backward(torch.from_numpy(dy))
    graph, tensor = graph_and(x)
    modes = {"resample_mode": "maxpool", "padding_mode": "neg_inf_pad"}
    pooled = graph.resample_fwd(tensor, generate_index=True, **modes, **options(case))
    pooled.y.set_output()
    pooled.index.set_output()
    found = execute(graph.freeze(), {tensor.uid: x})
    equal(found[pooled.y.uid], y)
    np.testing.assert_array_equal(found[pooled.index.uid], chosen.numpy())
    graph, tensor = graph_and(dy)
    index = graph.tensor(dims=dy.shape, data_type="int32")
    dx = graph.resample_bwd(tensor, index=index, dx_dims=image, **modes, **options(case))
    dx.set_output()
    given = {tensor.uid: dy, index.uid: chosen.numpy().astype(np.int32)}
    equal(execute(graph.freeze(), given)[dx.uid], tx.grad)


@pytest.mark.parametrize("padding_counts", [True, False])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_average_pooling(case: tuple[tuple[int, ...], Any, Any, Any], padding_counts: bool) -> None:
    image, window, stride, padding = case
    x = floats(*image)
    tx = torch.from_numpy(x.copy()).requires_grad_()
    pool = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[len(window)]
    y = pool(tx, window, stride, padding, count_include_pad=padding_counts)
    dy = floats(*y.shape, seed=4)
    y.backward(torch.from_numpy(dy))
    kind = "avgpool_include_padding" if padding_counts else "avgpool_exclude_padding"
    modes = {"resample_mode": kind, "padding_mode": "zero_pad"}
    graph, tensor = graph_and(x)
    pooled = graph.resample_fwd(tensor, **modes, **options(case)).y.set_output()
    equal(execute(graph.freeze(), {tensor.uid: x})[pooled.uid], y)
    graph, tensor = graph_and(dy)
    dx = graph.resample_bwd(tensor, dx_dims=image, **modes, **options(case)).set_output()
    equal(execute(graph.freeze(), {tensor.uid: dy})[dx.uid], tx.grad)


# Our mode and coordinates, and PyTorch's mode and align_corners.
RESIZES: dict[str, tuple[str, str, str, bool | None]] = {
    "linear": ("bilinear", "half_pixel", "linear", False),
    "linear_corners": ("bilinear", "align_corners", "linear", True),
    "nearest_exact": ("nearest", "half_pixel", "nearest-exact", None),
    "nearest": ("nearest", "asymmetric", "nearest", None),
}
SIZES = {
    "1d": ((2, 3, 7), (11,)),
    "up": ((1, 2, 5, 6), (13, 12)),
    "down": ((1, 2, 13, 11), (5, 1)),
    "3d": ((1, 2, 4, 3, 5), (2, 7, 5)),
}


@pytest.mark.parametrize("how", RESIZES.values(), ids=RESIZES)
@pytest.mark.parametrize("dims", SIZES.values(), ids=SIZES)
def test_resizing(
    dims: tuple[tuple[int, ...], tuple[int, ...]], how: tuple[str, str, str, bool | None]
) -> None:
    (image, size), (mode, coordinates, kind, corners) = dims, how
    if kind == "linear":
        kind = {1: "linear", 2: "bilinear", 3: "trilinear"}[len(size)]
    x = floats(*image)
    tx = torch.from_numpy(x.copy()).requires_grad_()
    y = F.interpolate(tx, size, mode=kind, align_corners=corners)
    dy = floats(*y.shape, seed=4)
    y.backward(torch.from_numpy(dy))
    options = {"resample_mode": mode, "coordinates": coordinates}
    graph, tensor = graph_and(x)
    found = graph.resample_fwd(tensor, size=size, **options).y.set_output()
    equal(execute(graph.freeze(), {tensor.uid: x})[found.uid], y)
    graph, tensor = graph_and(dy)
    dx = graph.resample_bwd(tensor, dx_dims=image, **options).set_output()
    equal(execute(graph.freeze(), {tensor.uid: dy})[dx.uid], tx.grad)
