# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Buckets: the few sizes to which the sizes of a dynamic dim are rounded up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from operator import index

from .arguments import nearest, shown
from .dynamic_dim import DynamicDim
from .errors import GraphError, Problem

__all__ = [
    "MOST",
    "POWERS",
    "RULES",
    "Buckets",
    "BucketsLike",
    "as_buckets",
    "combinations",
    "in_words",
    "read_buckets",
]

MOST = 64
"""Buckets of a graph whose code is kept by a plan, and that are compiled ahead."""

RULES: dict[str, str] = {
    "BUCKET-01": "buckets are powers, a step, or rising sizes within a dynamic dim's range",
    "BUCKET-02": "a size is at most the largest bucket of its dim",
    "BUCKET-03": "where all buckets of a graph are compiled ahead, there are at most 64",
}

POWERS = "powers"
"""Rounding up to powers of two."""

BucketsLike = str | int | Sequence[int]
"""``"powers"``; a number, of which the buckets are multiples; or the buckets themselves."""

_WANTED = f"{POWERS!r}, a step from 2 on, or rising sizes"


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets of one dynamic dim.

    Attributes
    ----------
    dim : DynamicDim
        Buckets stay within its range; where rounding up would leave the range, its end is one.
    step : int
        Buckets are its multiples; 0 for powers of two.
    sizes : tuple of int
        The buckets, where they were listed.
    """

    dim: DynamicDim
    step: int = 0
    sizes: tuple[int, ...] = ()

    def holding(self, size: int) -> int:
        """Return the smallest bucket that holds a size, or raise `GraphError` (BUCKET-02)."""
        if self.sizes:
            found = next((n for n in self.sizes if n >= size), None)
            if found is None:
                wanted = f"at most {self.sizes[-1]}, the largest bucket"
                problem = Problem(
                    rule="BUCKET-02", port=self.dim.name, got=str(size), wanted=wanted
                )
                raise GraphError("no bucket holds the size", [problem])
            return found
        step = self.step
        rounded = -(-size // step) * step if step else 1 << (size - 1).bit_length()
        return min(max(rounded, self.dim.low), self.dim.high)

    def __iter__(self) -> Iterator[int]:
        """Yield every bucket that a size within the range can be rounded up to, rising."""
        if self.sizes:
            yield from self.sizes
            return
        size = self.dim.low
        while size <= self.dim.high:
            bucket = self.holding(size)
            yield bucket
            size = bucket + 1

    @property
    def spelled(self) -> str:
        """The buckets as `read_buckets` takes them."""
        if self.sizes:
            return ",".join(map(str, self.sizes)) + "," * (len(self.sizes) == 1)
        return str(self.step) if self.step else POWERS

    def __str__(self) -> str:
        if self.sizes:
            return ", ".join(map(str, self.sizes))
        return f"multiples of {self.step}" if self.step else "powers of two"


def as_buckets(
    symbols: Sequence[DynamicDim], given: BucketsLike | Mapping[str, BucketsLike]
) -> dict[str, Buckets]:
    """Return the buckets of each dynamic dim.

    Parameters
    ----------
    symbols : sequence of DynamicDim
        The dynamic dims of a graph.
    given : BucketsLike or mapping of name to BucketsLike
        Those of all dims, or of each one by name.

    Raises
    ------
    GraphError
        For a dim without buckets, an unknown one, and buckets that make no sense (BUCKET-01).
    """
    known = {dim.name: dim for dim in symbols}
    each = dict(given) if isinstance(given, Mapping) else dict.fromkeys(known, given)
    has = f"one of {', '.join(known)}" if known else "no name: the graph has no dynamic dims"
    problems = [
        Problem(
            rule="BUCKET-01",
            port=str(name),
            got="no dynamic dim of this name",
            wanted=has,
            hint=nearest(name, known),
        )
        for name in each
        if name not in known
    ]
    found = {}
    for name, dim in known.items():
        if name not in each:
            problems.append(Problem(rule="BUCKET-01", port=name, got="none", wanted=_WANTED))
            continue
        try:
            found[name] = _one(dim, each[name])
        except (TypeError, ValueError) as error:
            wanted = f"{_WANTED} from {dim.low} to {dim.high}"
            got = str(error) or shown(each[name])
            problems.append(Problem(rule="BUCKET-01", port=name, got=got, wanted=wanted))
    if problems:
        raise GraphError("the buckets do not fit the graph's dynamic dims", problems)
    return found


def _one(dim: DynamicDim, given: object) -> Buckets:
    """Return the buckets of a dim; raises ValueError or TypeError."""
    if given == POWERS:
        return Buckets(dim)
    if isinstance(given, str | bool) or given is None:
        raise ValueError(shown(given))
    if isinstance(given, Sequence):
        sizes = tuple(index(size) for size in given)
        rising = sizes == tuple(sorted(set(sizes)))
        if not sizes or not rising or not dim.low <= sizes[0] <= sizes[-1] <= dim.high:
            raise ValueError(shown(given))
        return Buckets(dim, sizes=sizes)
    step = index(given)  # type: ignore[arg-type]
    if step < 2:
        raise ValueError(shown(given))
    return Buckets(dim, step=step)


def combinations(buckets: Mapping[str, Buckets]) -> list[dict[str, int]]:
    """Return the sizes that there is a code for: each bucket of a dim with each of the others.

    Raises
    ------
    GraphError
        If there are more than `MOST` (BUCKET-03).
    """
    each = {name: list(islice(some, MOST + 1)) for name, some in buckets.items()}
    if prod(map(len, each.values())) > MOST:
        problems = [
            Problem(
                rule="BUCKET-03",
                port=name,
                got=f"{buckets[name]}: {'more than ' * (len(sizes) > MOST)}{min(len(sizes), MOST)}",
                wanted=f"at most {MOST} codes in all",
                hint="list the sizes that matter, take a larger step, or narrow the dim's range",
            )
            for name, sizes in each.items()
            if len(sizes) > 1
        ]
        raise GraphError("there are too many buckets to compile them all", problems)
    return [dict(zip(each, sizes, strict=True)) for sizes in product(*each.values())]


def in_words(bucket: Mapping[str, int]) -> str:
    """Return the sizes of a bucket for people."""
    return ", ".join(f"{name} = {size}" for name, size in bucket.items())


def read_buckets(texts: Sequence[str]) -> BucketsLike | dict[str, BucketsLike]:
    """Return the command-line spelling: ``powers``, ``16``, ``8,32``, or ``n=`` one of these.

    ``8`` is the multiples of 8, and ``8,`` a single bucket.

    Raises
    ------
    ValueError
        For what is none of that, with the text.
    """
    named: dict[str, BucketsLike] = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        parts = value.removesuffix(",").split(",")
        if value != POWERS and not all(part.isascii() and part.isdecimal() for part in parts):
            raise ValueError(text)
        found: BucketsLike = value
        if value != POWERS:
            found = [int(part) for part in parts] if "," in value else int(value)
        if not name:
            if len(texts) > 1:
                raise ValueError(text)
            return found
        named[name] = found
    return named
