# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layout algebra, with real strided NumPy views as the oracle."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
import pytest
from hipdnn_iree.graph_api.layout import (
    Layout,
    LayoutError,
    analyse,
    broadcast_dims,
    channels_last_strides,
    contiguous_strides,
    is_broadcast,
    same_strides,
    strides_in_order,
    strides_like,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st

Ints = tuple[int, ...]
DIMS = st.lists(st.integers(1, 5), min_size=1, max_size=5).map(tuple)
ORDERED = DIMS.flatmap(lambda d: st.tuples(st.just(d), st.permutations(range(len(d)))))


def addresses(dims: Ints, strides: Ints) -> list[int]:
    """Where each element lies, counted in elements from the first one."""
    return [
        sum(i * s for i, s in zip(index, strides, strict=True))
        for index in itertools.product(*map(range, dims))
    ]


def element_strides(view: np.ndarray) -> Ints:
    return tuple(s // view.itemsize for s in view.strides)


def rebuild(layout: Layout, dims: Ints) -> Ints:
    """The strides that order and strides stand for (0 for dims without influence)."""
    strides = [0] * len(dims)
    for axis, stride in zip(layout.order, layout.strides, strict=True):
        strides[axis] = stride
    return tuple(strides)


@given(ORDERED)
def test_a_permutation_is_dense(case: tuple[Ints, list[int]]) -> None:
    dims, order = case
    packed = np.zeros([dims[a] for a in order])
    view = packed.transpose(np.argsort(order))
    assert view.shape == dims
    strides = element_strides(view)
    assert same_strides(dims, strides, strides_in_order(dims, order))

    layout = analyse(dims, strides)
    assert layout.dense
    assert not layout.padded
    assert layout.broadcast == ()
    assert layout.span == prod(dims)
    assert sorted(layout.order) == list(range(len(dims)))
    assert layout.shape == tuple(dims[a] for a in layout.order)
    assert sorted(addresses(dims, strides)) == list(range(prod(dims)))
    # Seen in memory order, it is contiguous; steps of dims with influence are their strides.
    assert same_strides(
        layout.shape, contiguous_strides(layout.shape), [strides[a] for a in layout.order]
    )
    assert same_strides(dims, rebuild(layout, dims), strides)


@given(ORDERED, st.data())
def test_a_slice_of_something_bigger_is_padded(
    case: tuple[Ints, list[int]], data: st.DataObject
) -> None:
    dims, order = case
    outer = [dims[a] + data.draw(st.integers(0, 3)) for a in order]
    base = np.zeros(outer)
    start = [data.draw(st.integers(0, o - dims[a])) for a, o in zip(order, outer, strict=True)]
    window = base[tuple(slice(s, s + dims[a]) for a, s in zip(order, start, strict=True))]
    view = window.transpose(np.argsort(order))
    strides = element_strides(view)

    layout = analyse(dims, strides)
    places = addresses(dims, strides)
    assert len(set(places)) == prod(dims)
    assert layout.span == max(places) + 1
    assert layout.broadcast == ()
    assert layout.padded == (layout.span != prod(dims))
    assert layout.dense != layout.padded
    assert same_strides(dims, rebuild(layout, dims), strides)
    # The steps go down in memory order: it is a slice of a bigger dense tensor.
    live = [s for s, d in zip(layout.strides, layout.shape, strict=True) if d > 1]
    assert live == sorted(live, reverse=True)


@given(ORDERED, st.data())
def test_a_broadcast_view(case: tuple[Ints, list[int]], data: st.DataObject) -> None:
    dims, order = case
    spread = data.draw(st.sets(st.integers(0, len(dims) - 1)))
    own = [1 if a in spread else dims[a] for a in order]
    view = np.broadcast_to(np.zeros(own).transpose(np.argsort(order)), dims)
    strides = element_strides(view)

    layout = analyse(dims, strides)
    assert layout.broadcast == tuple(a for a in sorted(spread) if dims[a] > 1)
    assert is_broadcast(dims, strides) == bool(layout.broadcast)
    assert layout.span == max(addresses(dims, strides)) + 1 == len(set(addresses(dims, strides)))
    assert layout.dense == (not layout.broadcast)
    assert not layout.padded
    assert [layout.shape[layout.order.index(a)] for a in layout.broadcast] == [1] * len(
        layout.broadcast
    )
    assert same_strides(dims, rebuild(layout, dims), strides)


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(-3, 14)), min_size=1, max_size=4),
)
def test_any_strides_are_described_right_or_rejected(case: list[tuple[int, int]]) -> None:
    dims, strides = tuple(d for d, _ in case), tuple(s for _, s in case)
    places = addresses(dims, strides)
    distinct = prod(d for d, s in case if s != 0)
    try:
        layout = analyse(dims, strides)
    except LayoutError:
        # No tensor that is a permutation of a contiguous one is ever turned away.
        assert sorted(places) != list(range(prod(dims)))
        return
    assert min(places) == 0
    assert len(set(places)) == distinct
    assert layout.span == max(places) + 1
    assert layout.padded == (layout.span != distinct)
    assert layout.dense == (sorted(places) == list(range(prod(dims))))


@given(ORDERED, st.data())
def test_strides_of_extent_one_dims_never_matter(
    case: tuple[Ints, list[int]], data: st.DataObject
) -> None:
    dims, order = case
    strides = strides_in_order(dims, order)
    wild = tuple(
        data.draw(st.integers(-50, 50)) if d == 1 else s for d, s in zip(dims, strides, strict=True)
    )
    assert analyse(dims, wild) == analyse(dims, strides)
    assert same_strides(dims, wild, strides)


@pytest.mark.parametrize(
    ("dims", "strides", "says"),
    [
        ((2, 3), (-3, 1), "negative"),
        ((2, 3), (3, -1), "negative"),
        ((2, 3), (2, 1), "overlap"),
        ((2, 3), (1, 1), "overlap"),
        ((3, 2), (2, 3), "interleave"),  # all places differ, but no slice looks like this
        ((2, 3), (4, 2), "overlap or interleave"),
        ((2, 2, 2), (1, 0, 1), "overlap"),
    ],
)
def test_rejected(dims: Ints, strides: Ints, says: str) -> None:
    with pytest.raises(LayoutError, match=says):
        analyse(dims, strides)


@pytest.mark.parametrize(
    ("dims", "strides", "order", "shape", "padded", "span"),
    [
        ((2, 3), (3, 1), (0, 1), (2, 3), False, 6),
        ((2, 3), (1, 2), (1, 0), (3, 2), False, 6),
        ((2, 3, 4, 5), (60, 1, 15, 3), (0, 2, 3, 1), (2, 4, 5, 3), False, 120),
        ((2, 3), (8, 1), (0, 1), (2, 3), True, 11),
        ((2, 3), (6, 2), (0, 1), (2, 3), True, 11),
        ((2, 3), (0, 1), (0, 1), (1, 3), False, 3),
        ((1, 1), (0, 0), (0, 1), (1, 1), False, 1),
        ((1, 4, 1), (-9, 1, 100), (0, 1, 2), (1, 4, 1), False, 4),
        ((4,), (3,), (0,), (4,), True, 10),
        # Dims without influence keep their own place.
        ((3, 1, 2), (1, 77, 3), (2, 1, 0), (2, 1, 3), False, 6),
    ],
)
def test_described(
    dims: Ints, strides: Ints, order: Ints, shape: Ints, padded: bool, span: int
) -> None:
    layout = analyse(dims, strides)
    assert (layout.order, layout.shape, layout.padded, layout.span) == (order, shape, padded, span)


@given(DIMS)
def test_contiguous_strides_are_numpys(dims: Ints) -> None:
    assert contiguous_strides(dims) == element_strides(np.zeros(dims))


@given(DIMS)
def test_channels_last(dims: Ints) -> None:
    strides = channels_last_strides(dims)
    if len(dims) < 3:
        assert strides == contiguous_strides(dims)
        return
    packed = np.zeros((dims[0], *dims[2:], dims[1]))
    assert strides == element_strides(np.moveaxis(packed, -1, 1))


@given(ORDERED, st.data())
def test_strides_like_keeps_the_order(case: tuple[Ints, list[int]], data: st.DataObject) -> None:
    like_dims, order = case
    # An extent-1 dim has the stride of its outer neighbour, so of several in a row the order
    # cannot be told; of a single one it can.
    assume(sum(d == 1 for d in like_dims) <= 1)
    dims = tuple(data.draw(st.integers(1, 5)) for _ in like_dims)
    strides = strides_like(dims, like_dims, strides_in_order(like_dims, order))
    assert strides == strides_in_order(dims, order)
    padded = tuple(3 * s for s in strides_in_order(like_dims, order))
    assert strides_like(dims, like_dims, padded) == strides


@given(ORDERED)
def test_strides_like_of_itself(case: tuple[Ints, list[int]]) -> None:
    dims, order = case
    strides = strides_in_order(dims, order)
    assert same_strides(dims, strides_like(dims, dims, strides), strides)


def test_strides_like_without_an_order_to_take() -> None:
    assert strides_like((2, 3), (2, 3, 4), (1, 2, 6)) == (3, 1)
    assert strides_like((2, 3, 4), (2, 3, 4), (0, 1, 3)) == (12, 4, 1)
    # An NHWC tensor with one channel stays NHWC, whatever the stride of the batch of one.
    assert strides_like((1, 8, 4, 4), (1, 1, 4, 4), (16, 1, 4, 1)) == (128, 1, 32, 8)
    assert strides_like((1, 8, 4, 4), (1, 3, 4, 4), (48, 1, 12, 3)) == (128, 1, 32, 8)
    # A stride of 0 for a single element is no broadcast.
    assert strides_like((2, 5), (4, 1), (1, 0)) == (5, 1)
    assert strides_like((2, 5, 3), (4, 1, 3), (1, 0, 4)) != contiguous_strides((2, 5, 3))


@given(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=4), min_size=1, max_size=3))
def test_broadcast_dims_is_numpys(shapes: list[list[int]]) -> None:
    try:
        expected = np.broadcast_shapes(*map(tuple, shapes))
    except ValueError:
        assert broadcast_dims(shapes) is None
    else:
        assert broadcast_dims(shapes) == expected
