# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weight gradient: proof of its reference, IR per target, rules, faults that must be seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_rows import check_emulated
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import GraphError
from hipdnn_iree.graph_api.formats.json.json_form import dumps
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.reference import execute, expect

GEOMETRIES: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 2, 5, 6), (3, 2, 3, 2), {"padding": 1}),
    ((2, 4, 6, 7), (4, 2, 3, 3), {"stride": (2, 3), "pre_padding": (1, 0), "post_padding": (0, 2)}),
    ((1, 3, 9), (6, 1, 2), {"stride": 2, "dilation": 3, "conv_mode": "convolution"}),
    ((1, 2, 4, 3, 4), (2, 2, 2, 1, 3), {"stride": (2, 1, 2), "padding": 1}),
)


def backward(x: Any, w: Any, dtype: str = "double", **options: Any) -> tuple[Graph, Graph]:
    """Return the forward graph and the graph of its weight gradient (inputs: dy, x)."""
    forward = Graph(io_data_type=dtype)
    y = forward.conv_fprop(forward.tensor(dims=x), forward.tensor(dims=w), **options).set_output()
    forward.freeze()
    g = Graph(io_data_type=dtype)
    dy, image = g.tensor(dims=y.dims, uid=1), g.tensor(dims=x, uid=2)
    g.conv_wgrad(dy, image, dw_dims=w, **options).set_output()
    return forward, g


@pytest.mark.parametrize(("x", "w", "options"), GEOMETRIES)
def test_reference_is_the_finite_difference_of_the_forward_reference(
    x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any], slopes: Callable[..., Any]
) -> None:
    rng = np.random.default_rng(0)
    forward, gradient = (g.freeze() for g in backward(x, w, **options))
    image, filter_ = rng.standard_normal(x), rng.standard_normal(w)

    def result(at: Any) -> Any:
        (y,) = execute(forward, dict(zip(forward.inputs, (image, at), strict=True))).values()
        return y

    dy = rng.standard_normal(result(filter_).shape)
    (dw,) = execute(gradient, {1: dy, 2: image}).values()
    # The map is linear: central differences are exact but for rounding.
    assert dw == pytest.approx(slopes(result, filter_, dy, 1e-3), abs=1e-9)


@pytest.mark.parametrize("dtype", ["float", "half"])
def test_faults_are_outside_the_bounds(dtype: str) -> None:
    _, g = backward((2, 8, 9, 9), (16, 8, 3, 3), dtype, stride=2, padding=1)
    frozen = g.freeze()
    inputs = verify.random_inputs(frozen, seed=3)
    expected = expect(frozen, inputs)
    (uid,) = frozen.outputs
    right = expected.values[uid]
    kind = np.float32 if dtype == "float" else np.float16
    dy, x = (np.asarray(inputs[u], dtype=np.float64) for u in (1, 2))

    def wrong(result: Any) -> bool:
        return not verify.compare(frozen, {uid: result.astype(kind)}, expected).ok

    def gradient(dy: Any, x: Any) -> Any:
        (found,) = execute(frozen, {1: dy, 2: x}).values()
        return found

    assert not wrong(right)
    assert wrong(right[:, :, ::-1, ::-1])
    assert wrong(right * (1 + 4e-3))
    # One position, one image and one border left out of the sum.
    dropped = dy.copy()
    dropped[0, :, 2, 2] = 0
    assert wrong(gradient(dropped, x))
    assert wrong(gradient(np.concatenate([dy[:1], 0 * dy[1:]]), x))
    cropped = x.copy()
    cropped[..., -1] = 0
    assert wrong(gradient(dy, cropped))
    if dtype == "float":
        assert wrong(gradient(dy.astype(np.float16).astype(np.float64), x))


BROKEN: tuple[tuple[str, str, Any, Any, Any, dict[str, Any]], ...] = (
    ("WGRAD-01", "dw", (1, 2, 6, 6), (1, 4, 4, 4), None, {}),
    ("CONV-01", "x", (1, 2), (1, 4), (4, 2), {}),
    ("CONV-02", "dw", (1, 2, 6, 6), (1, 4, 4, 4), (4, 2, 3), {}),
    ("CONV-02", "dy", (1, 2, 6, 6), (1, 4, 4), (4, 2, 3, 3), {}),
    ("CONV-05", "dilation", (1, 2, 6, 6), (1, 4, 4, 4), (4, 2, 3, 3), {"dilation": 0}),
    ("CONV-06", "dw", (1, 3, 6, 6), (1, 4, 4, 4), (4, 2, 3, 3), {}),
    ("CONV-07", "dw", (1, 4, 6, 6), (1, 3, 4, 4), (3, 2, 3, 3), {}),
    ("CONV-08", "dw", (1, 2, 6, 6), (1, 4, 4, 4), (4, 2, 7, 3), {}),
    ("CONV-11", "dy", (1, 2, 6, 6), (1, 4, 4, 4), (4, 2, 3, 2), {}),
    ("CONV-11", "dy", (2, 2, 6, 6), (1, 4, 4, 4), (4, 2, 3, 3), {}),
)


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(("rule", "port", "x", "dy", "dw", "options"), BROKEN)
def test_broken_rules(
    rule: str, port: str, x: Any, dy: Any, dw: Any, options: dict[str, Any]
) -> None:
    g = Graph(io_data_type="float")
    g.conv_wgrad(g.tensor(dims=dy), g.tensor(dims=x), dw_dims=dw, **options).set_output()
    assert (rule, port) in {(p.rule, p.port) for p in g.problems()}


def test_contradicting_paddings() -> None:
    g = Graph(io_data_type="float")
    t = g.tensor(dims=(1, 1, 3))
    with pytest.raises(GraphError, match="CONV-10"):
        g.conv_wgrad(t, t, dw_dims=(1, 1, 1), padding=1, post_padding=1)


def test_dims_may_be_set_on_the_result() -> None:
    g = Graph(io_data_type="float")
    dy, x = g.tensor(dims=(1, 4, 4, 4)), g.tensor(dims=(1, 6, 6, 6))
    dw = g.conv_wgrad(dy, x).set_output()
    dw.set_dim((4, 3, 3, 3))
    assert g.freeze().tensors[dw.uid].dims == (4, 3, 3, 3)


def test_json_round_trip() -> None:
    _, g = backward((2, 4, 6, 7), (4, 2, 3, 3), stride=2, pre_padding=1, post_padding=0)
    text = dumps(g.freeze())
    assert '"ConvolutionWrwAttributes"' in text
    assert Graph.from_json(text).freeze().digest == g.freeze().digest


def test_cpu_has_a_matrix_product_per_tap_and_gfx9_one_convolution(
    torch_ir: Callable[..., str],
) -> None:
    _, g = backward((1, 8, 9, 9), (16, 8, 3, 3), "double", padding=1)
    assert torch_ir(g, "cpu").count("aten.mm ") == 9
    _, g = backward((1, 8, 9, 9), (16, 8, 3, 3), "float", padding=1)
    ir = torch_ir(g, "gfx942")
    assert ir.count("aten.convolution ") == 1
    assert "aten.mm" not in ir


def test_gfx9_never_sums_over_one_image_with_strides(torch_ir: Callable[..., str]) -> None:
    # The stride becomes a dilation, which IREE 3.13 leaves out of such a sum (emulation).
    for options, joined in (({"stride": 2}, True), ({}, False)):
        _, g = backward((1, 64, 9, 9), (64, 64, 3, 3), "float", padding=1, **options)
        assert ("aten.cat" in torch_ir(g, "gfx942")) == joined


@pytest.mark.parametrize(
    ("x", "other", "dw", "padding"),
    [
        ((8, 4, 1, 12), (8, 4, 5, 12), (6, 4, 1, 3), (0, 1)),
        ((2, 4, 1, 5, 6), (2, 4, 5, 5, 6), (6, 4, 1, 3, 3), (0, 1, 1)),
        ((3, 1, 7, 9), (3, 4, 7, 9), (2, 1, 2, 1), (1, 0)),
    ],
)
def test_gfx9_pads_flat_images_by_zeros(
    x: Any, other: Any, dw: Any, padding: Any, torch_ir: Callable[..., str]
) -> None:
    # W-093: emulation found two thirds of the gradient unwritten, and a race where a convolution
    # reads an image of one channel too.
    none = ", ".join(["%int0"] * len(padding))
    for image, struck in ((x, True), (other, False)):
        _, g = backward(image, (dw[0], image[1], *dw[2:]), "half", padding=padding)
        ir = torch_ir(g, "gfx942")
        (convolution,) = (line for line in ir.splitlines() if "aten.convolution " in line)
        (padded,) = (
            line
            for line in ir.splitlines()
            if line.split()[0] == convolution.split("aten.convolution ")[1].split(", ")[4]
        )
        assert (f"ListConstruct {none} :" in padded) is struck
        assert ("aten.cat" in ir) is struck


def test_windows_in_the_padding_add_nothing() -> None:
    """They did not compile (random graph 123182): the input was cut to no rows at all."""
    g = Graph(io_data_type="half", compute_data_type="float")
    x, options = (2, 3, 1, 3), {"pre_padding": (2, 0), "post_padding": (0, 1), "stride": (3, 2)}
    dy = g.tensor(dims=(2, 3, 1, 2))
    g.conv_wgrad(dy, g.tensor(dims=x), dw_dims=(3, 3, 2, 2), **options).set_output()
    # One of the three windows along the height holds what is there of the input.
    x, options = (2, 3, 4, 3), {"pre_padding": (6, 0), "post_padding": (4, 0), "stride": (5, 1)}
    dy = g.tensor(dims=(2, 3, 3, 2))
    g.conv_wgrad(dy, g.tensor(dims=x), dw_dims=(3, 3, 2, 2), **options).set_output()
    check_emulated(g)


@pytest.mark.parametrize(("pre", "post", "rows"), [(2, 1, 5), (1, 2, 5), (3, 3, 5), (1, 1, 5)])
def test_windows_in_the_padding_are_left_out(
    pre: int, post: int, rows: int, torch_ir: Callable[..., str]
) -> None:
    """Of dy what is multiplied with elements of the input remains, and only that."""
    _, g = backward((2, 3, 4, 9), (6, 3, 2, 2), pre_padding=(pre, 1), post_padding=(post, 0))
    ir = torch_ir(g, "gfx942")
    (convolution,) = (line for line in ir.splitlines() if "aten.convolution " in line)
    assert f"!torch.vtensor<[6,2,{rows},9],f64>" in convolution
    assert ("slice" in ir) == ((pre, post) != (1, 1))


def test_padded_images_of_one_row() -> None:
    """W-138, emulated: 36 of the 48 elements were wrong."""
    g = Graph(io_data_type="half", compute_data_type="float")
    dy, x = g.tensor(dims=(2, 4, 2, 2)), g.tensor(dims=(2, 3, 1, 2))
    padding = {"pre_padding": (1, 0), "post_padding": (1, 1)}
    g.conv_wgrad(dy, x, dw_dims=(4, 3, 2, 2), **padding).set_output()
    check_emulated(g)


@pytest.mark.parametrize(
    ("x", "w"),
    [
        ((1, 4, 5, 4), (6, 2, 3, 1)),
        ((2, 3, 9, 8), (4, 3, 1, 5)),
        ((1, 2, 5, 6, 5), (3, 2, 1, 2, 3)),
    ],
)
def test_strided_gradients_of_filters_of_one_row(x: tuple[int, ...], w: tuple[int, ...]) -> None:
    """W-064, emulated: part of what was padded was never written."""
    check_emulated(backward(x, w, stride=2, padding=1)[1])
