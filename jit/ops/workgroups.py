# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How evenly IREE's workers on a CPU share workgroups out."""

from __future__ import annotations

from math import prod

__all__ = ["shared", "waiting"]

# Worker threads, and how much each number counts.
_WORKERS = ((2, 0.4), (4, 0.3), (8, 0.2), (16, 0.1))
# Workers take so many workgroups at a time where there are as many for each.
_TAKEN = 8
# What is waited for where another program takes a core: a share of what is taken at a time.
_DISTURBED = 0.1
# Multiply-adds in the time that a workgroup takes beside its own; and of one that has several rows,
# at most.
_WORKGROUP, _MOST = 1 << 15, 1 << 24
# Numbers of rows that are tried, at most: an image may have 2^40, and is planned in no time.
_MOST_TRIED = 1024


def waiting(workgroups: int, work: float) -> float:
    """Return how many times as long all takes as if workers never waited, and began at once.

    From eight workgroups for each worker on IREE's ``local-task`` gives them out by eight: of 24
    one of two workers gets 16 (``block_processor.c`` of IREE 3.13).

    Parameters
    ----------
    workgroups : int
        Of about the same size.
    work : float
        Multiply-adds of each.
    """
    found = 0.0
    for workers, weight in _WORKERS:
        taken = _TAKEN if workgroups >= _TAKEN * workers else 1
        rounds, rest = divmod(-(-workgroups // taken), workers)
        last = workgroups - rounds * workers * taken  # less than nothing: the last ones are few
        longest = rounds * taken + (min(taken, last) if rest else 0)
        alone = _DISTURBED * taken / workgroups
        found += weight * (max(longest * workers / workgroups, 1.0) + alone)
    return found * (1 + _WORKGROUP / work)


def shared(rows: int, images: int, work: int, groups: int = 1) -> tuple[int, int]:
    """Return the rows, and the groups, of a workgroup such that workers wait least.

    Parameters
    ----------
    rows, images, groups : int
        Rows of each image, of which the last workgroup may have fewer; all images and groups.
    work : int
        Multiply-adds of a row of one group.
    """

    def time(each: tuple[int, int]) -> tuple[float, int, int]:
        along, apart = (-(-n // part) for n, part in zip((rows, groups), each, strict=True))
        late = waiting(images * along * apart, prod(each) * work)
        return round(late * along * apart * prod(each) / (rows * groups), 3), apart, -each[0]

    tried = []
    for part in {-(-groups // (1 << i)) for i in range(groups.bit_length())}:
        most = max(min(rows, _MOST // (work * part)), 1)
        tried += [(each, part) for each in range(1, most + 1, -(-most // _MOST_TRIED))]
    return min(tried, key=time)
