# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Extents that the compiled code learns at run time, as lowerings see them.

A `Dim` is the number that stands for it (the graph's example), so that shapes can be compared and
multiplied as ever; in a type it is printed ``?``, as an operand it becomes the run-time value.
What is calculated from one in other ways is a plain number.  That such a number does not reach
the code is checked on the whole: the module must be the same text for other examples
(``pipeline``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from ...graph_api.dynamic_dim import DERIVED
from ...graph_api.tensor import TensorSpec

__all__ = ["Dim", "broadcast", "dynamic", "sizes"]


class Dim(int):
    """A product of dynamic dims and a number."""

    factors: tuple[str, ...]
    scale: int

    def __new__(cls, value: int, factors: tuple[str, ...], scale: int = 1) -> Self:
        dim = super().__new__(cls, value)
        dim.factors = factors
        dim.scale = scale
        return dim

    @property
    def key(self) -> object:
        """What distinguishes it from other extents, apart from its number."""
        return (self.factors, self.scale)

    def __mul__(self, other: int) -> int:
        if not isinstance(other, int):
            return NotImplemented
        if isinstance(other, Dim):
            factors = tuple(sorted((*self.factors, *other.factors)))
            return Dim(int(self) * int(other), factors, self.scale * other.scale)
        return Dim(int(self) * other, self.factors, self.scale * other) if other else 0

    __rmul__ = __mul__

    def __add__(self, other: int) -> int:
        return int(self) + int(other) if other else self

    __radd__ = __add__

    def __floordiv__(self, other: int) -> int:
        rest = list(self.factors)
        for name in other.factors if isinstance(other, Dim) else ():
            if name not in rest:
                return int(self) // int(other)
            rest.remove(name)
        scale = other.scale if isinstance(other, Dim) else other
        if self.scale % scale:
            return int(self) // int(other)
        if not rest:
            return self.scale // scale
        return Dim(int(self) // int(other), tuple(rest), self.scale // scale)

    def __mod__(self, other: int) -> int:
        if not isinstance(other, Dim) and other and self.scale % other == 0:
            return 0
        return int(self) % int(other)

    def __str__(self) -> str:
        return "?"

    __repr__ = __str__


def sizes(spec: TensorSpec) -> tuple[int, ...]:
    """Return a tensor's dims with a `Dim` for each dynamic one."""
    marks = spec.dynamic or ("",) * len(spec.dims)
    return tuple(
        Dim(d, (name,)) if name and name != DERIVED else d
        for d, name in zip(spec.dims, marks, strict=True)
    )


def broadcast(*shapes: Iterable[int]) -> tuple[int, ...]:
    """Return the right-aligned broadcast of shapes that fit, like NumPy's, and keep each `Dim`."""
    columns = [tuple(s)[::-1] for s in shapes]
    found = []
    for axis in range(max(map(len, columns))):
        extents = [c[axis] for c in columns if axis < len(c) and c[axis] != 1]
        dynamic = [d for d in extents if isinstance(d, Dim)]
        found.append((dynamic or extents or [1])[0])
    return tuple(found[::-1])


def dynamic(shape: Iterable[int]) -> bool:
    """Return whether some extent is given at run time."""
    return any(isinstance(extent, Dim) for extent in shape)
