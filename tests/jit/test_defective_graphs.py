# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs whose kernels would have a defect as they are planned: right, compiled in another way.

`test_dispatch_checks` has the checks that see them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from graph_rows import check_emulated
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.layout import channels_last_strides


def count_of_equal_numbers(columns: int = 13) -> Graph:
    g = Graph(io_data_type="int32", compute_data_type="int64", intermediate_data_type="int32")
    x, m = g.tensor(dims=(1, columns)), g.tensor(dims=(5, 1), data_type="boolean")
    same = g.cmp_eq(x, x)
    other = g.logical_not(g.logical_or(same, m).set_data_type("boolean")).set_data_type("boolean")
    g.reduction(g.binary_select(x, same, other), mode="add", axes=(1,)).set_output()
    return g


@pytest.mark.parametrize("columns", [2, 13, 64, 100])
def test_equal_numbers_are_all_added_up(columns: int) -> None:
    """W-146 (random graph 330113): one of them was, on the CPU as well."""
    plan = count_of_equal_numbers(columns).build("cpu", engine="iree")
    assert plan.verify(seed=1).ok


def test_a_padded_convolution_of_products_on_gfx9() -> None:
    """Emulated (random graph 91372): two waves stored to the same bytes of what was padded."""
    g = Graph(io_data_type="half", compute_data_type="float", intermediate_data_type="half")
    dy, w = g.tensor(dims=(1, 1, 4, 1)), g.tensor(dims=(1, 16, 1, 1))
    x = g.conv_dgrad(dy, w, dx_dims=(1, 16, 4, 1))
    g.conv_fprop(x, g.tensor(dims=(32, 16, 1, 2)), padding=(0, 1)).set_output()
    check_emulated(g)


def rows_of_attention_repeated() -> Graph:
    g = Graph(io_data_type="float")
    sizes = ((1, 2, 1, 1), (1, 2, 2, 1), (1, 2, 2, 1))
    rows = g.sdpa(*(g.tensor(dims=dims) for dims in sizes)).o
    g.mul(rows, g.tensor(dims=(1, 2, 1, 3))).set_output()
    return g


def groups_of_few_filters() -> Graph:
    g = Graph(io_data_type="half", compute_data_type="float")
    x = g.tensor(dims=(1, 4, 2, 5), strides=(40, 1, 20, 4))
    g.conv_fprop(x, g.tensor(dims=(32, 1, 1, 2))).set_output()
    return g


def last(*dims: int) -> dict[str, tuple[int, ...]]:
    """Return an image or filter, channels-last."""
    return {"dims": dims, "strides": channels_last_strides(dims)}


def padded_line_of_one_image() -> Graph:
    g = Graph(io_data_type="half", compute_data_type="half")
    y = g.conv_fprop(g.tensor(**last(1, 8, 9)), g.tensor(**last(4, 8, 3)), padding=(1,))
    y.set_output().strides = channels_last_strides((1, 4, 9))
    return g


def groups_of_a_filter_as_wide_as_the_image(*, gradient: bool) -> Graph:
    g = Graph(io_data_type="half", compute_data_type="float")
    if gradient:
        y = g.conv_dgrad(
            g.tensor(**last(2, 8, 8, 1)),
            g.tensor(**last(8, 2, 3, 3)),
            dx_dims=(2, 4, 8, 1),
            padding=1,
        )
    else:
        x, w = g.tensor(**last(2, 8, 8, 3)), g.tensor(**last(16, 4, 3, 3))
        y = g.conv_fprop(x, w, padding=(1, 0))
    y.set_output()
    return g


def norm_of_rows_with_gaps() -> Graph:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(1, 1, 8, 8, 7), strides=(576, 576, 72, 9, 1))
    g.batchnorm(x, *(g.tensor(dims=(1, 1, 1, 1, 1)) for _ in range(2))).y.set_output()
    return g


def product_and_its_relu_in_two_orders() -> Graph:
    g = Graph(io_data_type="float")
    product = g.matmul(g.tensor(dims=(6, 7)), g.tensor(dims=(7, 5)))
    positive = g.relu(product)
    for result in (product, positive, g.transpose(positive, (1, 0))):
        result.set_output()
    return g


def gradient_and_its_copy_in_another_order() -> Graph:
    g = Graph(io_data_type="float")
    dy = g.tensor(**last(1, 8, 5, 5))
    dx = g.conv_dgrad(dy, g.tensor(dims=(8, 8, 1, 3)), dx_dims=(1, 8, 5, 7)).set_output()
    y = g.pad(dx, pre_padding=(0,) * 4, post_padding=(0,) * 4).set_output()
    dx.strides = y.strides = channels_last_strides((1, 8, 5, 7))
    return g


def convolution_in_few_places() -> Graph:
    g = Graph(io_data_type="float")
    g.conv_fprop(g.tensor(dims=(2, 64, 4, 4)), g.tensor(dims=(8, 64, 3, 3))).set_output()
    return g


def product_of_what_is_computed() -> Graph:
    g = Graph(io_data_type="half", compute_data_type="float", intermediate_data_type="half")
    x = g.tensor(dims=(3, 2, 2), strides=(4, 1, 2), data_type="float")
    y, *statistics = g.batchnorm(x, *(g.tensor(dims=(1, 2, 1)) for _ in range(2)))
    for one in statistics[:2]:
        one.set_output()
    g.matmul(g.transpose(y, permutation=(0, 2, 1)), y).set_output()
    return g


def product_of_what_is_widened(transposed: bool, dtype: str, wide: str) -> Graph:
    g = Graph(io_data_type="float", intermediate_data_type=wide)
    narrow = g.tensor(dims=(2, 3, 16 if transposed else 4), data_type=dtype)
    made = g.mul(g.cast(narrow, wide), 1.5)
    if transposed:
        made = g.transpose(made, (0, 2, 1))
    other = g.tensor(dims=(2, 3, 4) if transposed else (2, 16, 3), data_type=wide)
    g.matmul(*((made, other) if transposed else (other, made))).set_output()
    return g


def sum_of_products_in_two_orders(dtype: str) -> Graph:
    g = Graph(io_data_type=dtype, compute_data_type="float")
    x = g.tensor(dims=(32, 16, 3, 2), strides=(102, 6, 2, 1))
    product = g.mul(x, g.tensor(dims=(1, 1, 3, 2), strides=(6, 6, 1, 3)))
    g.reduction(product, mode="add", axes=(2, 3)).set_output()
    return g


def two_batch_norms() -> Graph:
    g = Graph(io_data_type="float")
    dims, channels = (2, 2, 3, 3), (1, 2, 1, 1)
    dy, x = g.tensor(dims=dims, strides=(1, 2, 12, 4)), g.tensor(dims=dims)
    back = g.batchnorm_backward(dy, x, g.tensor(dims=channels))
    forth = g.batchnorm(back[0], *(g.tensor(dims=channels) for _ in range(2)), epsilon=1e-5)
    for result in (*back[1:3], *forth[:3]):
        result.set_output()
    return g


def norm_of_what_was_divided_by_its_sums() -> Graph:
    g = Graph(io_data_type="bfloat16", compute_data_type="float", intermediate_data_type="float")
    x = g.tensor(dims=(1, 8, 4, 4), data_type="float")
    sums = g.reduction(x, mode="add", axes=(2,))
    y = g.transpose(g.div(x, sums), permutation=(0, 2, 3, 1))
    scale, bias = g.tensor(dims=(1, 4, 4, 8), strides=(128, 1, 32, 4)), g.tensor(dims=(1, 1, 4, 8))
    g.layernorm(y, scale, bias, epsilon=1e-5).y.set_output()
    return g


def sums_over_dims_apart(mode: str, *dims: int, axes: tuple[int, ...]) -> Graph:
    """Return a reduction whose rows have several dims, the last one with an odd factor."""
    g = Graph(io_data_type="float", compute_data_type="float")
    g.reduction(g.tensor(dims=dims), mode=mode, axes=axes).set_output()
    return g


def statistics_of_small_images() -> Graph:
    g = Graph(io_data_type="half", compute_data_type="float")
    scale, bias = (g.tensor(dims=(1, 2, 1)) for _ in range(2))
    g.batchnorm(g.tensor(dims=(128, 2, 3)), scale, bias, epsilon=1e-5)[0].set_output()
    return g


def average_of_most_of_an_image() -> Graph:
    g = Graph(io_data_type="float", compute_data_type="float")
    x = g.tensor(dims=(1, 5, 33, 7))  # rows have a gap once it is cut to the window
    average = {"resample_mode": "avgpool_include_padding", "padding_mode": "zero_pad"}
    g.resample_fwd(x, window=(32, 6), stride=(32, 6), **average).y.set_output()
    return g


def gradient_of_single_weights() -> Graph:
    g = Graph(io_data_type="half", compute_data_type="float")
    dy, x = (g.tensor(dims=(64, 8, 3, 3)) for _ in range(2))
    g.conv_wgrad(dy, x, dw_dims=(8, 1, 1, 1)).set_output()
    return g


def gradient_of_repeated_elements() -> Graph:
    g = Graph(io_data_type="float", compute_data_type="float")
    dy = g.tensor(dims=(1, 5, 64, 12))
    g.resample_bwd(dy, dx_dims=(1, 5, 2, 2), resample_mode="nearest").set_output()
    return g


OVER_DIMS_APART = {
    "sum": partial(sums_over_dims_apart, "add", 4, 32, 7, 6, axes=(1, 3)),  # 463546
    "norm": partial(sums_over_dims_apart, "norm2", 64, 2, 3, 3, axes=(0, 2, 3)),
    "channels": statistics_of_small_images,
    "pool": average_of_most_of_an_image,
    "wgrad": gradient_of_single_weights,
    "nearest": gradient_of_repeated_elements,
}


@pytest.mark.parametrize("made", OVER_DIMS_APART.values(), ids=OVER_DIMS_APART)
def test_sums_over_dims_apart_from_each_other(made: Callable[[], Graph]) -> None:
    """W-128: as planned they were wrong; one dim after the other they are right."""
    graph = made()
    check_emulated(graph)
    assert graph.build("gfx942").attempt == "sums dim by dim"
    assert not graph.build("cpu").attempt


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda: sum_of_products_in_two_orders("float"), id="W-145"),  # 328083
        pytest.param(lambda: sum_of_products_in_two_orders("half"), id="W-145-half"),
        pytest.param(two_batch_norms, id="W-145-again"),  # 336374
        pytest.param(norm_of_what_was_divided_by_its_sums, id="W-144"),  # 325916
        pytest.param(count_of_equal_numbers, id="W-146"),  # 330113
        pytest.param(rows_of_attention_repeated, id="W-139"),  # random graph 131656
        pytest.param(groups_of_few_filters, id="W-140"),  # 131835
        pytest.param(convolution_in_few_places, id="W-128"),  # 332547
        pytest.param(product_and_its_relu_in_two_orders, id="W-148"),  # 340630
        pytest.param(gradient_and_its_copy_in_another_order, id="W-148-copy"),  # 370840
        pytest.param(padded_line_of_one_image, id="W-050"),  # 403767
        *(
            pytest.param(
                partial(groups_of_a_filter_as_wide_as_the_image, gradient=gradient),
                id=f"W-150-{gradient}",
            )
            for gradient in (False, True)
        ),
        pytest.param(norm_of_rows_with_gaps, id="W-128-gaps"),  # 370169
        pytest.param(product_of_what_is_computed, id="W-071"),  # 131503
        *(
            pytest.param(partial(product_of_what_is_widened, *case), id=f"W-071-{case}")  # 340291
            for case in (
                (False, "half", "float"),
                (True, "half", "float"),
                (False, "fp8_e4m3", "half"),
            )
        ),
    ],
)
def test_what_a_check_finds_is_right_in_another_way(made: Callable[[], Graph]) -> None:
    check_emulated(made())


def test_what_looks_like_a_defect_and_is_none() -> None:
    """The weight gradient of one filter a group is no matmul: checks for those leave it alone."""
    g = Graph(io_data_type="half", compute_data_type="float")
    dy, x = g.tensor(**last(2, 3, 9, 6)), g.tensor(**last(2, 6, 9, 8))
    dw = g.conv_wgrad(dy, x, dw_dims=(3, 2, 1, 3)).set_output()
    dw.strides = channels_last_strides((3, 2, 1, 3))
    check_emulated(g, "gfx90a")
    assert not g.build("gfx90a").attempt
