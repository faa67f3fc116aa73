# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether strided memory that shares a range of addresses shares a byte.

Parts of one buffer, such as the channels of an NHWC image, lie between one another.
"""

from __future__ import annotations

from typing import NamedTuple

from ...graph_api.layout import byte_runs, layout_of
from ..signature import ArgSpec
from .caller_memory import CallerMemory
from .elements import is_packed

__all__ = ["Places", "apart", "places"]


class Places(NamedTuple):
    """Where elements lie, relative to the first one.

    Attributes
    ----------
    size : int
        Bytes of an element, or of all where nothing lies between.
    steps : tuple of (int, int)
        Extent and stride in bytes of each dim with more than one element; strides are positive.
    """

    size: int
    steps: tuple[tuple[int, int], ...] = ()


def places(spec: ArgSpec, given: CallerMemory | None = None) -> Places:
    """Return where the elements of an argument lie, in a caller's strides if there are such."""
    bits = spec.data_type.bits
    if is_packed(spec.data_type) and (given is None or given.type is not spec.data_type):
        runs = byte_runs(layout_of(spec.dims, spec.strides), bits)
        return Places(spec.nbytes) if runs is None else Places(1, runs)
    dims, strides, size = spec.dims, spec.strides, bits // 8
    unit = size
    if given is not None and given.dims is not None and given.strides is not None:
        dims, strides, size = given.dims, given.strides, given.itemsize
        unit = 1 if given.uneven else given.itemsize
    steps = ((d, abs(s) * unit) for d, s in zip(dims, strides, strict=True))
    return Places(size, tuple((d, s) for d, s in steps if d > 1 and s))


def apart(first: int, one: Places, second: int, other: Places) -> bool:
    """Return whether no byte is shared; True is certain, False may be wrong for odd strides.

    Looked for is a period (a row, a pixel) in which both lie side by side.

    Parameters
    ----------
    first, second : int
        The lowest addresses.
    one, other : Places
    """
    for period in {step for _, step in (*one.steps, *other.steps)}:
        a, b = _width(one, period), _width(other, period)
        ahead = (second - first) % period
        if a is not None and b is not None and a <= ahead and b <= (first - second) % period:
            return True
    return False


def _width(of: Places, period: int) -> int | None:
    """Return the bytes of a period that are taken, first to last; None if it is no period."""
    if any(step > period and step % period for _, step in of.steps):
        return None
    return of.size + sum((extent - 1) * step for extent, step in of.steps if step < period)
