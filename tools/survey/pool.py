# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases worked on by a few threads, with a record that lets a survey go on where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from tools.survey.record import Key, alone, load, save
from tools.survey.trials import Trial

__all__ = ["survey"]

Found = Mapping[str, Any]


def survey(
    todo: Iterable[Trial],
    work: Callable[[Trial], Found],
    *,
    jobs: int = 1,
    record: Path | None = None,
    again: bool = False,
) -> Iterator[tuple[Found, bool]]:
    """Yield what is found of each case, and whether the record had it.

    Parameters
    ----------
    todo : iterable of Trial
    work : callable
        From a case to what a record keeps: a mapping with ``case``, ``data_type``, ``target`` and
        ``ir``, the digest of what was compiled (``Trial.ir_digest``), or ``""``.
    jobs : int
        Cases at one time.
    record : Path, optional
        File that is added to after each case.  What it has of the same IR is taken from it.
    again : bool
        Whether to do that once more.

    Raises
    ------
    SettingError
        If another process works on the same record.
    """
    with alone(record):
        yield from _survey(todo, work, jobs, record, again)


def _survey(
    todo: Iterable[Trial],
    work: Callable[[Trial], Found],
    jobs: int,
    record: Path | None,
    again: bool,
) -> Iterator[tuple[Found, bool]]:
    known: dict[Key, Any] = dict(load(record))

    def one(case: Trial) -> tuple[Key, Found, bool]:
        before = known.get(case.key)
        if before and not again and before["ir"] and _digest(case) == before["ir"]:
            return case.key, before, True
        return case.key, work(case), False

    waiting = iter(todo)
    under_way: set[Future[tuple[Key, Found, bool]]] = set()
    with ThreadPoolExecutor(jobs) as pool:
        try:
            while True:
                while len(under_way) < jobs and (case := next(waiting, None)):
                    under_way.add(pool.submit(one, case))
                if not under_way:
                    return
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                for future in done:
                    key, found, old = future.result()
                    if record is not None and not old:
                        known[key] = found
                        save(record, known)
                    yield found, old
        finally:
            pool.shutdown(cancel_futures=True)


def _digest(case: Trial) -> str:
    """Return the digest of a case's IR; none of one that is declined or cannot be lowered."""
    try:
        return "" if case.declines else case.ir_digest()
    except Exception:  # the work itself reports it
        return ""
