# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An extent that is only known at execution, as it is described."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index

from .arguments import shown
from .errors import GraphError
from .script_line import refused

__all__ = ["DERIVED", "LARGEST", "RULES", "DynamicDim", "make", "probes", "split_dims"]

Ints = tuple[int, ...]
Names = tuple[str, ...]

DERIVED = "*"
"""Mark of an extent that varies with a dynamic one without being it."""

RULES: dict[str, str] = {
    "DYN-01": "a dynamic dim has a name of its own, a range of sizes from 1 on, and an example",
    "DYN-02": "a tensor with dynamic dims is dense, and no scalar",
    "DYN-03": "there is a size for each dynamic dim, within its range",
    "DYN-04": "tensors agree on the size of a dynamic dim",
    "DYN-05": "the dynamic dims given for a result are those that follow",
    "DYN-06": "the graph is valid at both ends of each range",
}

LARGEST = 2**31 - 1
"""Size that a dynamic dim can have at most."""


@dataclass(frozen=True, slots=True)
class DynamicDim:
    """An extent that is given at execution; made by ``Graph.dynamic``.

    Attributes
    ----------
    name : str
        What it is called in messages, files and ``Plan.with_sizes``.
    low : int
        Smallest size that it may have.
    high : int
        Largest size that it may have.
    example : int
        The size that stands for it wherever a number is needed.
    """

    name: str
    low: int
    high: int
    example: int

    def __str__(self) -> str:
        return self.name


def make(
    name: object, bounds: object, example: object, taken: Mapping[str, DynamicDim]
) -> DynamicDim:
    """Return the dim, or raise `GraphError` (DYN-01)."""

    def refuse(got: object, wanted: str) -> GraphError:
        told = {"port": str(name), "got": shown(got), "wanted": wanted}
        return refused("a dynamic dim is not well described", rule="DYN-01", **told)

    if not isinstance(name, str) or not name.isidentifier():
        raise refuse(name, "a name of letters, digits and underscores")
    if name in taken:
        raise refuse(name, "a name that no other dynamic dim has")
    try:
        low, high = (index(b) for b in bounds)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise refuse(bounds, "a range (low, high), both included") from None
    if not 1 <= low < high <= LARGEST:
        raise refuse((low, high), f"1 <= low < high <= {LARGEST}")
    if example is None:
        example = min(max(low, 8), high)
    try:
        size = index(example)  # type: ignore[arg-type]
    except TypeError:
        raise refuse(example, "an integer as the example") from None
    # An extent of 1 hides the layout of its tensor and stands for broadcasting.
    if not max(low, 2) <= size <= high:
        raise refuse(size, f"an example from {max(low, 2)} to {high}")
    return DynamicDim(name, low, high, size)


def split_dims(dims: object) -> tuple[object, Names]:
    """Return dims with examples instead of dynamic ones, and the names; () without any."""
    if not isinstance(dims, Sequence) or DynamicDim not in set(map(type, dims)):
        return dims, ()
    names = tuple(d.name if isinstance(d, DynamicDim) else "" for d in dims)
    return [d.example if isinstance(d, DynamicDim) else d for d in dims], names


def probes(dim: DynamicDim, shift: int = 0) -> Ints:
    """Return two sizes other than the example and, where the range allows, other than 1."""
    near = (dim.example + 3 + shift, dim.example + 7 + shift, *range(2, 6))
    found = [size for size in near if dim.low <= size <= dim.high]
    found += [dim.high, dim.low]
    return tuple(dict.fromkeys(s for s in found if s != dim.example))[:2]
