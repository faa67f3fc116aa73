# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Defects in formed dispatches that multiply: matmuls and convolutions."""

from __future__ import annotations

import pytest
from hipdnn_iree.jit.compiler.dispatch_checks import CHECKS, checks_for
from hipdnn_iree.jit.compiler.flags import merge_flags
from hipdnn_iree.jit.workarounds.planned.w050_gpu_mixed_conv_layouts import DIRECT
from kernel_texts import FLAGS, LOOP, SUM, struck

PRODUCT = """\
        %4 = linalg.generic {{indexing_maps = [affine_map<(d0) -> ({left})>, affine_map<(d0) -> ({right})>, affine_map<(d0) -> ({result})>], iterator_types = ["parallel", "reduction"]}} ins(%0, %1 : tensor<{x}>, tensor<{y}>) outs(%2 : tensor<{z}>) {{
        ^bb0(%in: f16, %in_0: f16, %out: f32):
          %8 = arith.mulf %in, %in_0 : f32
          %9 = arith.{op} %out, %8 : f32
          linalg.yield %9 : f32
        }} -> tensor<{z}>
"""  # noqa: E501


def product(left: str, x: str, right: str, y: str, result: str, z: str, op: str = "addf") -> bytes:
    """Return a kernel that multiplies x with y, each along some of the dims of its loop."""
    along = {"left": left, "right": right, "result": result}
    return PRODUCT.format(**along, x=x, y=y, z=z, op=op).encode()


def batch(m: int, k: int, n: int, left: str = "bkm", right: str = "bkn", op: str = "addf") -> bytes:
    extents = {"b": 3, "m": m, "n": n, "k": k}

    def read(dims: str, kind: str = "f16") -> tuple[str, str]:
        shape = (str(extents[dim]) for dim in dims)
        return ", ".join(f"d{'bmnk'.index(dim)}" for dim in dims), "x".join((*shape, kind))

    return product(*read(left), *read(right), *read("bmn", "f32"), op)


@pytest.mark.parametrize(
    ("kernel", "reads_on"),
    [
        (batch(2, 2, 2), True),
        (batch(33, 7, 5), True),
        (batch(2, 2, 2, left="bmk"), False),
        (batch(2, 2, 2, right="bnk"), False),
        (batch(8, 2, 2), False),
        (batch(2, 2, 16), False),
        (batch(2, 16, 2), False),
        (batch(2, 2, 2, left="km", right="kn"), False),
        (batch(33, 7, 5, left="bk"), False),  # a row for each matrix
        (batch(2, 2, 2, op="maximumf"), False),
        (product("", "f16", "d0", "9xf16", "", "f32"), False),  # times a number
    ],
)
def test_a_kernel_that_reads_rows_of_the_next_matrices(kernel: bytes, reads_on: bool) -> None:
    assert struck([SUM, kernel], "gfx942") == ("W-071" if reads_on else "")
    assert not struck([SUM, kernel], "cpu")


def widened(kernel: bytes, of: str, to: str, name: str = "1") -> bytes:
    """Return a kernel that makes an operand of its product, and reshapes it."""
    loop = LOOP.format(name="7", kind="parallel", of="5", op="mulf")
    maps = "indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator"
    loop = loop.replace("iterator", maps).replace("ins(%5)", f"ins(%5 : tensor<9x{of}>)")
    loop = loop.replace("outs(%1)", f"outs(%6 : tensor<9x{to}>)")
    move = f"        %{name} = tensor.expand_shape %7 : tensor<9x{to}>\n"
    return (loop + move).encode() + kernel


@pytest.mark.parametrize(
    ("kernel", "stale"),
    [
        (widened(batch(16, 3, 16, left="bmk"), "f16", "f32"), True),
        (widened(batch(16, 6, 20, left="bmk"), "f8E4M3FNUZ", "f16"), True),
        (widened(batch(16, 3, 16, right="bnk"), "f16", "f32", name="0"), True),
        (widened(batch(16, 3, 16, left="bmk"), "f32", "f32"), False),
        (widened(batch(16, 32, 16, left="bmk"), "f16", "f32"), False),
        (widened(batch(16, 3, 16, left="bmk", right="bnk"), "f16", "f32"), False),
        (widened(batch(16, 3, 16, left="mk", right="kn"), "f16", "f32"), False),
        (widened(batch(16, 3, 16, left="bk"), "f16", "f32"), False),  # a row for each matrix
        (widened(batch(16, 3, 16, left="bmk"), "f16", "f32", name="3"), False),
    ],
)
def test_a_kernel_that_widens_rows_of_a_product(kernel: bytes, stale: bool) -> None:
    assert struck([SUM, kernel], "gfx942") == ("W-071" if stale else "")
    assert not struck([SUM, kernel], "cpu")


def grouped(groups: int, filters: int, width: int = 8, *, first: bool = False) -> bytes:
    """Return a convolution of (width, group) to (width, group, filter), or with groups first."""
    image, result = ("d0 + d3", "d1"), ("d0", "d1", "d2")
    x, y = (width + 1, groups), (width, groups, filters)
    if first:
        image, result, x, y = image[::-1], ("d1", "d2", "d0"), x[::-1], (groups, filters, width)

    def shape(extents: tuple[int, ...], kind: str) -> str:
        return "x".join((*map(str, extents), kind))

    read = (", ".join(image), shape(x, "f16"), "d1, d2, d3", shape((groups, filters, 2), "f16"))
    return product(*read, ", ".join(result), shape(y, "f32"))


@pytest.mark.parametrize(
    ("kernel", "mixed"),
    [
        (grouped(4, 8), True),
        (grouped(12, 5), True),
        (grouped(32, 8, 17), True),
        (grouped(16, 7, 20), True),
        (grouped(4, 8, first=True), False),
        (grouped(4, 9), False),
        (grouped(6, 8), False),
        (grouped(32, 4, 17), False),
        (grouped(32, 8, 56), False),
        (batch(8, 7, 8), False),
    ],
)
def test_a_kernel_with_groups_of_few_filters(kernel: bytes, mixed: bool) -> None:
    assert struck([SUM, kernel], "gfx942") == ("W-140" if mixed else "")
    assert not struck([SUM, kernel], "cpu")


def test_groups_of_few_filters_that_other_flags_leave_are_no_code() -> None:
    """W-140: the flags help where the op came with channels first."""
    (one,) = (c for c in CHECKS if c.id == "W-140" and not c.instead)
    again = [c for c in CHECKS if c.id == "W-140" and c.instead]
    flags = merge_flags(FLAGS["gfx942"], again[0].instead)
    assert [c for c in checks_for(flags) if c.id == "W-140"] == [one]
    assert one.strikes(grouped(4, 8))


TWO_ORDERS = """\
        %6:2 = linalg.generic {{indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> ({first})>, affine_map<(d0, d1, d2) -> ({second})>], iterator_types = ["parallel", "parallel", "parallel"]}} ins({of} : tensor<3x16x16xf32>) outs(%1, %1 : tensor<3x16x16xf32>, tensor<3x16x16xf32>) {{
        ^bb0(%in: f32, %out: f32, %out_0: f32):
          linalg.yield %in, %in : f32, f32
        }} -> (tensor<3x16x16xf32>, tensor<3x16x16xf32>)
        iree_tensor_ext.dispatch.tensor.store {stored}, %arg3, offsets = [0]
        iree_tensor_ext.dispatch.tensor.store %6#0, %arg4, offsets = [0]
        iree_tensor_ext.dispatch.tensor.store %6#1, %arg5, offsets = [0]
"""  # noqa: E501


def in_orders(first: str, second: str, of: str = "%4", stored: str = "%4") -> bytes:
    return TWO_ORDERS.format(first=first, second=second, of=of, stored=stored).encode()


ANOTHER_ORDER = """\
        %6 = linalg.generic {{indexing_maps = [affine_map<({dims}) -> ({dims})>, affine_map<({dims}) -> ({order})>], iterator_types = ["parallel", "parallel"]}} ins({of} : tensor<{shape}>) outs(%1 : tensor<{shape}>) {{
        ^bb0(%in: f32, %out: f32):
          linalg.yield %in : f32
        }} -> tensor<{shape}>
        iree_tensor_ext.dispatch.tensor.store {stored}, %arg3, offsets = [0]
        iree_tensor_ext.dispatch.tensor.store {last}, %arg4, offsets = [0]
"""  # noqa: E501


def in_another(order: str, of: str = "%4", stored: str = "%4", last: str = "%6") -> bytes:
    dims = ", ".join(sorted(order.split(", ")))
    shape = "16x" * len(order.split(", ")) + "f32"
    kernel = ANOTHER_ORDER.format(
        dims=dims, order=order, shape=shape, of=of, stored=stored, last=last
    )
    return kernel.encode()


BATCH = batch(16, 16, 16)
MATRIX = product("d0, d2", "16x16xf16", "d2, d1", "16x16xf16", "d0, d1", "16x16xf32")


@pytest.mark.parametrize(
    ("kernel", "mixed"),
    [
        (BATCH + in_another("d1, d2, d0"), True),  # random graph 370840
        (BATCH + in_another("d0, d1, d2"), False),
        (MATRIX + in_another("d1, d0"), False),
        (BATCH + in_another("d1, d2, d0", of="%0"), False),
        (BATCH + in_another("d1, d2, d0", stored="%0"), False),
        (BATCH + in_another("d1, d2, d0", last="%0"), False),
        (BATCH + in_orders("d0, d1, d2", "d0, d2, d1"), True),
        (BATCH + in_orders("d0, d1, d2", "d0, d1, d2"), False),
        (BATCH + in_orders("d0, d1, d2", "d0, d2, d1", of="%0"), False),
        (BATCH + in_orders("d0, d1, d2", "d0, d2, d1", stored="%0"), False),
    ],
)
def test_a_product_that_is_stored_beside_two_orders(kernel: bytes, mixed: bool) -> None:
    assert struck([SUM, kernel], "gfx942") == ("W-148" if mixed else "")
    assert not struck([SUM, kernel], "cpu")


def shape(read: str) -> str:
    """Return the type of what is read along some dims, each of extent 3."""
    return "3x" * len(read.split(", ")) + "f16"


@pytest.mark.parametrize(
    ("x", "filters", "mixed"),
    [
        ("d3, d0 + d2", "d1, d2, d3", True),
        ("d3, d0 * 2 + d2", "d2, d3, d1", True),
        ("d0 + d2, d3", "d1, d2, d3", False),
        ("d3, d0 + d2", "d1, d3, d2", False),
        ("d0 + d2, d3", "d1, d3, d2", False),
        ("d3, d0", "d1, d2, d3", False),
        ("d3, d0 + d2", "d2, d3", False),  # one filter
    ],
)
def test_a_channels_first_image_and_a_channels_last_filter(
    x: str, filters: str, mixed: bool
) -> None:
    kernel = product(x, shape(x), filters, shape(filters), "d0, d1", "3x3xf32")
    for target in ("gfx942", "cuda:sm_80"):
        assert struck([SUM, kernel], target) == ("W-050" if mixed else "")
    assert not struck([SUM, kernel], "cpu")
    direct = merge_flags(FLAGS["gfx942"], (DIRECT,))
    assert "W-050" not in {one.id for one in checks_for(direct)}


@pytest.mark.parametrize(
    ("image", "filters", "parted"),
    [
        # d0 places, d1 groups, d2 filters; d3 of the filter's size, d4 too but a single window
        ("d0 + d3, d4, d1, d5", "d1, d2, d3, d4, d5", True),
        ("d0 + d3, d4, d1, d5", "d1, d2, d5, d3, d4", True),
        ("d1, d0 + d3, d4, d5", "d1, d2, d3, d4, d5", False),
        ("d1, d5, d0 + d3, d4", "d1, d2, d5, d3, d4", False),
        ("d0 + d3, d4, d5, d1", "d1, d2, d3, d4, d5", False),
        ("d0, d4, d1, d5", "d1, d2, d4, d5", False),  # a batch of matmuls
        ("d0 + d3, d1, d5", "d1, d2, d3, d5", False),
        ("d0 + d3, d4, d1, d5", "d1, d3, d4, d5", False),  # one filter for each group
    ],
)
def test_groups_between_what_is_added_up(image: str, filters: str, parted: bool) -> None:
    kernel = product(image, shape(image), filters, shape(filters), "d0, d1, d2", "3x3x3xf32")
    assert struck([SUM, kernel], "gfx942") == ("W-150" if parted else "")
    assert not struck([SUM, kernel], "cpu")
