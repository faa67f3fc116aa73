# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layout algebra: pure functions on logical dims and strides, both counted in elements.

Dims are always logical (N, C, spatial...); the strides alone give the memory layout.  The stride
of an extent of 1 is meaningless, so it is never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

__all__ = [
    "Layout",
    "LayoutError",
    "analyse",
    "broadcast_dims",
    "byte_runs",
    "channels_last_strides",
    "contiguous_strides",
    "is_broadcast",
    "layout_of",
    "runs",
    "same_strides",
    "strides_in_order",
    "strides_like",
]

Ints = tuple[int, ...]


class LayoutError(ValueError):
    """Strides that no tensor can have here; ``str()`` gives the reason."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor is laid out in memory.

    Attributes
    ----------
    order : tuple of int
        Logical dims, outermost in memory first.  Dims without influence on addresses (extent 1
        or stride 0) keep their own index, so that none is transposed needlessly.
    shape : tuple of int
        Extents in memory order; 1 where the tensor is broadcast.
    broadcast : tuple of int
        Logical dims with stride 0 and extent above 1.
    padded : bool
        Whether there are gaps between the elements.
    span : int
        Elements from the first to the last one, both included.
    strides : tuple of int
        Stride of each dim in memory order (0 for the dims without influence).
    """

    order: Ints
    shape: Ints
    broadcast: Ints
    padded: bool
    span: int
    strides: Ints

    @property
    def dense(self) -> bool:
        """Whether the tensor is a permutation of a contiguous one."""
        return not self.padded and not self.broadcast


def contiguous_strides(dims: Sequence[int]) -> Ints:
    """Return the strides of a packed tensor whose last dim is innermost."""
    return strides_in_order(dims, range(len(dims)))


def channels_last_strides(dims: Sequence[int]) -> Ints:
    """Return NHWC-like strides for dims (N, C, spatial...); below rank 3, contiguous ones."""
    rank = len(dims)
    if rank < 3:
        return contiguous_strides(dims)
    return strides_in_order(dims, (0, *range(2, rank), 1))


def strides_in_order(dims: Sequence[int], order: Sequence[int]) -> Ints:
    """Return packed strides for ``dims`` when ``order`` lists dims from outermost to innermost."""
    strides = [0] * len(dims)
    stride = 1
    for axis in reversed(order):
        strides[axis] = stride
        stride *= dims[axis]
    return tuple(strides)


def strides_like(
    dims: Sequence[int], like_dims: Sequence[int], like_strides: Sequence[int]
) -> Ints:
    """Return packed strides for ``dims`` in the memory order of another tensor.

    Contiguous ones for a tensor of another rank, or one that is broadcast and so has no order.
    """
    if len(dims) != len(like_dims) or is_broadcast(like_dims, like_strides):
        return contiguous_strides(dims)
    # Sorting on the strides themselves, not on `analyse().order`, keeps the intent of an NHWC
    # tensor whose channel count happens to be 1.  Where two strides are equal, the dim of extent
    # 1 is the inner one.
    order = sorted(
        range(len(dims)), key=lambda axis: (-like_strides[axis], like_dims[axis] == 1, axis)
    )
    return strides_in_order(dims, order)


def is_broadcast(dims: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether a dim with more than one element has stride 0."""
    return any(d > 1 and s == 0 for d, s in zip(dims, strides, strict=True))


def same_strides(dims: Sequence[int], a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two stride vectors address the same elements of a tensor with these dims."""
    return all(d == 1 or s == t for d, s, t in zip(dims, a, b, strict=True))


def analyse(dims: Sequence[int], strides: Sequence[int]) -> Layout:
    """Describe how a tensor is laid out in memory.

    Raises
    ------
    LayoutError
        For negative strides, and for elements that overlap or interleave.
    """
    if any(s < 0 for s, d in zip(strides, dims, strict=True) if d > 1):
        raise LayoutError(f"strides {tuple(strides)} are negative")
    broadcast = tuple(
        a for a, (d, s) in enumerate(zip(dims, strides, strict=True)) if d > 1 and s == 0
    )
    live = [a for a, (d, s) in enumerate(zip(dims, strides, strict=True)) if d > 1 and s != 0]
    by_stride = sorted(live, key=lambda a: (-strides[a], a))
    order = list(range(len(dims)))
    for index, axis in zip(live, by_stride, strict=True):
        order[index] = axis

    # `reach` counts the elements spanned so far, `packed` is the stride that leaves no gap.
    padded, reach, packed = False, 1, 1
    for axis in reversed(by_stride):
        stride = strides[axis]
        if stride < reach:
            raise LayoutError(
                f"strides {tuple(strides)} let elements of dims {tuple(dims)} "
                f"overlap or interleave (dim {axis})"
            )
        padded |= stride != packed
        reach += (dims[axis] - 1) * stride
        packed = stride * dims[axis]
    return Layout(
        order=tuple(order),
        shape=tuple(1 if a in broadcast else dims[a] for a in order),
        broadcast=broadcast,
        padded=padded,
        span=reach,
        strides=tuple(strides[a] if a in live else 0 for a in order),
    )


@lru_cache(maxsize=4096)
def layout_of(dims: Ints, strides: Ints) -> Layout:
    """Return what `analyse` does; graphs have many tensors of few shapes."""
    return analyse(dims, strides)


def runs(layout: Layout) -> tuple[tuple[int, int], ...]:
    """Return extent and stride of each dim in memory order; dims without a gap between are one."""
    found: list[tuple[int, int]] = []
    for extent, stride in zip(layout.shape, layout.strides, strict=True):
        if not stride:
            continue
        whole = bool(found) and found[-1][1] == extent * stride
        found.append((extent * found.pop()[0] if whole else extent, stride))
    return tuple(found)


def byte_runs(layout: Layout, bits: int) -> tuple[tuple[int, int], ...] | None:
    """Return what `runs` does in bytes for elements of less, or None where one is shared.

    A byte is shared by an element and a gap, or by two elements with a gap between.
    """
    *outer, (extent, stride) = runs(layout) or ((1, 1),)
    numbers = [extent * bits, *(s * bits for _, s in outer)]
    if stride != 1 or any(n % 8 for n in numbers):
        return None
    return (*((d, s * bits // 8) for d, s in outer), (extent * bits // 8, 1))


def broadcast_dims(shapes: Sequence[Sequence[int]]) -> Ints | None:
    """Return the right-aligned (NumPy) broadcast of the shapes, or None when they do not fit."""
    rank = max(map(len, shapes))
    aligned = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    result = []
    for column in zip(*aligned, strict=True):
        extents = {d for d in column if d != 1}
        if len(extents) > 1:
            return None
        result.append(extents.pop() if extents else 1)
    return tuple(result)
