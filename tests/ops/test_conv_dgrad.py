# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data gradient: proof of its reference, IR per target, inference, faults that must be seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_rows import check_emulated
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import GraphError
from hipdnn_iree.graph_api.formats.json.json_form import dumps
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.reference import execute, expect, reference

Run = Callable[..., Any]
GEOMETRIES: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((1, 2, 5, 6), (3, 2, 3, 2), {"padding": 1}),
    ((2, 4, 6, 7), (4, 2, 3, 3), {"stride": (2, 3), "pre_padding": (1, 0), "post_padding": (0, 2)}),
    ((1, 3, 9), (6, 1, 2), {"stride": 2, "dilation": 3, "conv_mode": "convolution"}),
    ((1, 2, 4, 3, 4), (2, 2, 2, 1, 3), {"stride": (2, 1, 2), "padding": 1}),
)


def backward(x: Any, w: Any, dtype: str = "double", **options: Any) -> tuple[Graph, Graph]:
    """Return the forward graph and the graph of its data gradient."""
    forward = Graph(io_data_type=dtype)
    y = forward.conv_fprop(forward.tensor(dims=x), forward.tensor(dims=w), **options).set_output()
    forward.freeze()
    g = Graph(io_data_type=dtype)
    g.conv_dgrad(g.tensor(dims=y.dims), g.tensor(dims=w), dx_dims=x, **options).set_output()
    return forward, g


@pytest.mark.parametrize(("x", "w", "options"), GEOMETRIES)
def test_reference_is_the_finite_difference_of_the_forward_reference(
    x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any], slopes: Callable[..., Any]
) -> None:
    rng = np.random.default_rng(0)
    forward, gradient = (g.freeze() for g in backward(x, w, **options))
    image, filter_ = rng.standard_normal(x), rng.standard_normal(w)

    def result(at: Any) -> Any:
        (y,) = execute(forward, dict(zip(forward.inputs, (at, filter_), strict=True))).values()
        return y

    dy = rng.standard_normal(result(image).shape)
    (dx,) = execute(gradient, dict(zip(gradient.inputs, (dy, filter_), strict=True))).values()
    # The map is linear: central differences are exact but for rounding.
    assert dx == pytest.approx(slopes(result, image, dy, 1e-3), abs=1e-9)


@pytest.mark.parametrize("dtype", ["float", "half"])
def test_faults_are_outside_the_bounds(dtype: str) -> None:
    _, g = backward((2, 8, 9, 9), (16, 8, 3, 3), dtype, stride=2, padding=1)
    frozen = g.freeze()
    inputs = verify.random_inputs(frozen, seed=3)
    expected = expect(frozen, inputs)
    (uid,) = frozen.outputs
    right = expected.values[uid]
    kind = np.float32 if dtype == "float" else np.float16
    dy, w = (np.asarray(inputs[u], dtype=np.float64) for u in frozen.inputs)

    def wrong(result: Any) -> bool:
        return not verify.compare(frozen, {uid: result.astype(kind)}, expected).ok

    assert not wrong(right)
    assert wrong(np.roll(right, 1, axis=3))
    assert wrong(right * (1 + 4e-3))
    # One tap left out of the sum, and sums in half precision.
    dropped = w.copy()
    dropped[:, :, 2, 2] = 0
    assert wrong(_gradient(frozen, dy, dropped))
    flipped = w[:, :, ::-1, ::-1]
    assert wrong(_gradient(frozen, dy, flipped))
    if dtype == "float":
        assert wrong(_gradient(frozen, dy.astype(np.float16).astype(np.float64), w))


def _gradient(frozen: Any, dy: Any, w: Any) -> Any:
    (found,) = execute(frozen, dict(zip(frozen.inputs, (dy, w), strict=True))).values()
    return found


def test_the_bound_counts_only_taps_that_meet() -> None:
    _, g = backward((1, 4, 9, 9), (6, 4, 3, 3), "float", stride=2)
    node = g.freeze().nodes[0]
    module = pytest.importorskip("hipdnn_iree.provider.reference.conv_dgrad")
    from hipdnn_iree.provider.reference import context

    assert reference("conv_dgrad") is module.REFERENCE
    # 3 taps at stride 2: at most 2 meet in each dim; 6 filters.
    assert module._terms(node.op, context(g.freeze(), node)) == 6 * 2 * 2


def test_dims_are_inferred_for_unit_strides_and_one_group() -> None:
    g = Graph(io_data_type="float")
    dy, w = g.tensor(dims=(2, 8, 7, 9)), g.tensor(dims=(8, 3, 3, 2))
    dx = g.conv_dgrad(dy, w, pre_padding=(1, 0), post_padding=(0, 1), dilation=(2, 1)).set_output()
    g.freeze()
    assert dx.dims == (2, 3, 10, 9)


def test_channels_last_is_kept() -> None:
    g = Graph(io_data_type="float")
    dims = (2, 8, 7, 9)
    dy = g.tensor(dims=dims, strides=channels_last_strides(dims))
    dx = g.conv_dgrad(dy, g.tensor(dims=(8, 3, 3, 3))).set_output()
    g.freeze()
    assert dx.dims is not None
    assert dx.strides == channels_last_strides(dx.dims)


BROKEN: tuple[tuple[str, str, Any, Any, dict[str, Any]], ...] = (
    ("DGRAD-01", "dx", (1, 4, 4, 4), (4, 2, 3, 3), {"stride": 2}),
    ("CONV-02", "w", (1, 4, 4, 4), (4, 2, 3), {}),
    ("CONV-02", "dy", (1, 4, 4), (4, 2, 3, 3), {"dx_dims": (1, 2, 6, 6)}),
    ("CONV-03", "pre_padding", (1, 4, 4, 4), (4, 2, 3, 3), {"padding": -1}),
    ("CONV-04", "stride", (1, 4, 4, 4), (4, 2, 3, 3), {"stride": 0}),
    ("CONV-06", "w", (1, 4, 4, 4), (4, 2, 3, 3), {"dx_dims": (1, 3, 6, 6)}),
    ("CONV-07", "w", (1, 3, 4, 4), (3, 2, 3, 3), {"dx_dims": (1, 4, 6, 6)}),
    ("CONV-08", "w", (1, 4, 4, 4), (4, 2, 3, 3), {"dx_dims": (1, 2, 2, 2)}),
    ("CONV-11", "dy", (1, 4, 4, 4), (4, 2, 3, 3), {"dx_dims": (1, 2, 7, 6)}),
    ("CONV-11", "dy", (1, 4, 4, 4), (8, 2, 3, 3), {}),
    ("CONV-01", "dx", (1, 4), (4, 2), {}),
    ("TENSOR-05", "dx", (1, 4, 1, 4), (4, 2, 3, 3), {"padding": 2}),
)


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(("rule", "port", "dy", "w", "options"), BROKEN)
def test_broken_rules(rule: str, port: str, dy: Any, w: Any, options: dict[str, Any]) -> None:
    g = Graph(io_data_type="float")
    g.conv_dgrad(g.tensor(dims=dy), g.tensor(dims=w), **options).set_output()
    assert (rule, port) in {(p.rule, p.port) for p in g.problems()}


def test_contradicting_paddings() -> None:
    g = Graph(io_data_type="float")
    t = g.tensor(dims=(1, 1, 3))
    with pytest.raises(GraphError, match="CONV-10"):
        g.conv_dgrad(t, t, padding=1, pre_padding=1)


def test_json_round_trip() -> None:
    _, g = backward((2, 4, 6, 7), (4, 2, 3, 3), stride=2, pre_padding=1, post_padding=0)
    text = dumps(g.freeze())
    assert '"ConvolutionBwdAttributes"' in text
    assert Graph.from_json(text).freeze().digest == g.freeze().digest


def test_unit_strides_are_one_convolution_of_a_copied_filter(torch_ir: Callable[..., str]) -> None:
    for target, kind in (("cpu:znver3", "double"), ("gfx942", "float")):
        _, g = backward((1, 8, 8, 8), (16, 8, 3, 3), kind, padding=1)
        ir = torch_ir(g, target)
        assert ir.count("aten.convolution ") == 1
        # Folded into the convolution, the exchange makes slow code for the CPU. On gfx9 a kernel
        # that reverses the taps keeps it out, and one form has no exchange to fold: a pair of
        # channels-first image and channels-last filter is compiled wrongly by IREE 3.13.
        assert ("aten.cat" in ir) is (target != "gfx942")
        if target == "gfx942":
            assert ir.index("aten.permute") < ir.index("aten.flip") < ir.index("aten.convolution")


def test_strides_are_one_convolution_too(torch_ir: Callable[..., str]) -> None:
    for target, kind in (("cpu:znver3", "double"), ("gfx942", "float")):
        _, g = backward((1, 8, 8, 8), (16, 8, 3, 3), kind, stride=2, padding=1)
        assert torch_ir(g, target).count("aten.convolution ") == 1


def test_numbers_of_gradients_on_gfx9() -> None:
    """Padding beyond the filter (W-122), patches outside dx, unit dims (W-123); emulated."""
    g = Graph(io_data_type="float")
    for dy, w, dx, options in (
        (
            (1, 1, 13, 4),
            (1, 1, 3, 5),
            (1, 1, 14, 6),
            {"pre_padding": (1, 5), "post_padding": (0, 0), "stride": (1, 2)},
        ),
        ((1, 2, 1, 2), (2, 2, 1, 1), (1, 2, 1, 1), {"pre_padding": (0, 0), "post_padding": (0, 1)}),
        ((1, 4, 5, 4), (4, 2, 1, 1), (1, 4, 7, 5), {"padding": 1, "stride": 2}),
    ):
        g.conv_dgrad(g.tensor(dims=dy), g.tensor(dims=w), dx_dims=dx, **options).set_output()
    dy, x = g.tensor(dims=(2, 2, 2, 3)), g.tensor(dims=(2, 2, 1, 3))
    g.conv_wgrad(dy, x, dw_dims=(2, 2, 2, 1), padding=(1, 0)).set_output()
    check_emulated(g)


def test_patches_outside_dx_are_not_computed(torch_ir: Callable[..., str]) -> None:
    """A slice of the result does not compile for gfx9 (random graph 20314)."""
    g = Graph(io_data_type="float")
    dy, w = g.tensor(dims=(1, 2, 1, 9)), g.tensor(dims=(2, 2, 1, 1))
    g.conv_dgrad(dy, w, dx_dims=(1, 2, 1, 4), pre_padding=(0, 2), post_padding=(0, 3)).set_output()
    (line,) = (row for row in torch_ir(g, "gfx942").splitlines() if "aten.convolution " in row)
    assert "-> !torch.vtensor<[1,2,1,4]" in line


@pytest.mark.parametrize(
    ("samples", "filters", "size", "last"),
    [
        (1, 300, (3, 3), False),  # columns are padded and turned
        (8, 150, (5, 5), True),  # padded
        (1, 61, (7, 8), False),  # turned
        (2, 7, (5, 3), False),  # neither
    ],
)
@pytest.mark.parametrize("stride", [1, 2])
def test_columns_are_padded_and_turned_where_they_are_few(
    samples: int, filters: int, size: tuple[int, int], stride: int, check: Run, *, last: bool
) -> None:
    graph = Graph("dgrad", io_data_type="float", compute_data_type="float")
    dims = (samples, filters, *size)
    strides = channels_last_strides(dims) if last else None
    dy = graph.tensor(dims=dims, strides=strides, name="dy")
    w = graph.tensor(dims=(filters, 5, 3, 2), name="w")
    dx = (samples, 5, *((n - 1) * stride + k - 2 for n, k in zip(size, (3, 2), strict=True)))
    graph.conv_dgrad(dy, w, dx_dims=dx, stride=stride, padding=1).set_output()
    with scope(compiler_strategies="conv_dgrad=gemm_col2im"):
        check(graph.freeze())
