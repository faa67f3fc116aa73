# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Combinations of a few parameters, of which the default run takes enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any

import pytest

__all__ = ["covering"]


def covering(*axes: Sequence[Any], possible: Callable[..., bool] = lambda *_: True) -> list[Any]:
    """Return all combinations of values as parameters; most are marked ``full``.

    Those that are not marked have every two values of two axes together at least once: a fault
    seldom needs three (pairwise testing).

    Parameters
    ----------
    *axes : Sequence
        The values of each parameter, at least two.
    possible : Callable
        Says of a combination whether there is such a case.
    """
    rows = [
        row
        for row in product(*(range(len(axis)) for axis in axes))
        if possible(*(axis[i] for axis, i in zip(axes, row, strict=True)))
    ]
    pairs = {row: set(combinations(enumerate(row), 2)) for row in rows}
    missing, chosen = set().union(*pairs.values()), set()
    while missing:
        best = max(rows, key=lambda row: len(pairs[row] & missing))
        chosen.add(best)
        missing -= pairs[best]
    return [
        pytest.param(
            *(axis[i] for axis, i in zip(axes, row, strict=True)),
            marks=[] if row in chosen else [pytest.mark.full],
        )
        for row in rows
    ]
