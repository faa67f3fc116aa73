# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which problems a suite takes of another one: all, some that are drawn, or those of bounded work.

::

    include:
      - random.yaml
      - {suites: ops/*.yaml, random: {count: 40, seed: 1}}          # 40 of each file
      - {suites: networks/*.yaml, where: flops <= 2000000000}

A problem is a case in one type.  Whether one is drawn depends on its name, the seed and how many
there are, and on nothing else: a problem that is added to a file takes the place of one at most.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UnsetType

from ...graph_api.errors import HipdnnIreeError, Problem
from ...jit.work import graph_work
from .expressions import ExpressionError, evaluate
from .graphs import problem
from .schema import DrawEntry, IncludeEntry

if TYPE_CHECKING:
    from .suite import Case

__all__ = ["RULES", "Chosen", "chosen"]

RULES: dict[str, str] = {
    "INCLUDE-01": "what limits included problems reads `flops`, `bytes`, `op` and `dtype`",
}


class Chosen(NamedTuple):
    """The cases that an entry takes, which of them are sound for sure, and what is wrong with it.

    Attributes
    ----------
    cases : list of Case
        In the order of their file.
    sound : frozenset of str
        Names of those whose graphs were built on the way.
    problems : tuple of Problem
    """

    cases: list[Case]
    sound: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()


def chosen(cases: Sequence[Case], entry: IncludeEntry, seed: int | None = None) -> Chosen:
    """Return the cases of a file that an entry takes.

    Parameters
    ----------
    cases : sequence of Case
    entry : IncludeEntry
    seed : int, optional
        Instead of the entry's.
    """
    if entry.takes_all:
        return Chosen(list(cases))
    found = [typed for case in cases for typed in case.by_type()]
    ranked, most = found, None
    if not isinstance(entry.random, UnsetType):
        draw = DrawEntry(count=entry.random) if isinstance(entry.random, int) else entry.random
        mine, most = draw.seed if seed is None else seed, draw.count
        ranked = sorted(found, key=lambda case: zlib.crc32(f"{mine}:{case.name}".encode()))
    try:
        # Conditions build graphs (0.5 ms each): of no more cases than are taken.
        taken = dict(islice(_within(ranked, entry.conditions), most))
    except ExpressionError as error:
        wanted = "an expression of flops, bytes, op and dtype"
        wrong = problem("INCLUDE-01", "", "include.where", str(error), wanted, error.hint)
        return Chosen([], problems=(wrong,))
    in_order = [case for case in found if case.name in taken]
    return Chosen(in_order, frozenset(name for name, sound in taken.items() if sound))


def _within(cases: Sequence[Case], conditions: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield the names of cases for which conditions hold, and whether their graphs were built.

    Those that are broken are among them: they are told.
    """
    for case in cases:
        facts = _facts(case) if conditions else None
        if facts is None or all(evaluate(text, facts) for text in conditions):
            yield case.name, facts is not None


def _facts(case: Case) -> Mapping[str, Any] | None:
    try:
        work = graph_work(case.freeze())
    except (HipdnnIreeError, OSError):
        return None
    return {
        "flops": work.flops,
        "bytes": work.nbytes,
        "op": case.op,
        "dtype": case.dtypes[0].json,
    }
