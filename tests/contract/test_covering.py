# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Of the combinations that the default run leaves out, every pair of values is in another."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from covering import covering

AXES = ("abc", (0, 1), (True, False), "xyz")


def pairs(rows: list[tuple[Any, ...]]) -> set[Any]:
    return {pair for row in rows for pair in combinations(enumerate(row), 2)}


@pytest.mark.parametrize("possible", [lambda *_: True, lambda a, b, *_: (a, b) != ("c", 1)])
def test_every_pair_of_values_is_run(possible: Any) -> None:
    found = covering(*AXES, possible=possible)
    everything = [row.values for row in found]
    taken = [row.values for row in found if not row.marks]
    assert len(set(everything)) == len(everything) == sum(possible(*v) for v in everything)
    assert {mark.name for row in found for mark in row.marks} == {"full"}
    assert pairs(taken) == pairs(everything)
    assert len(taken) < len(everything) / 2
    # What is compared here shows when one is missing.
    assert any(pairs(taken[:i] + taken[i + 1 :]) != pairs(everything) for i in range(len(taken)))


def test_two_axes_are_all_pairs() -> None:
    assert not any(row.marks for row in covering("ab", "xyz"))
