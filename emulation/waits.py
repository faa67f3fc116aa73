# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The check of s_waitcnt: nothing may be used before the counter that covers it was waited for.

Every memory instruction makes a ticket, the number that its counter has reached in each wave.
Registers that a load will write are pending until a wait passes their ticket; using one before
is an error, although in this emulation the value is there already.

Vector memory returns in order, LDS too; scalar loads and flat accesses in any order, so that with
one of them outstanding only a wait for zero says anything.  That is the order that LLVM relies on.

Mostly all waves go the same way: a counter is one number until only some of them count on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from .errors import EmulationError
from .formats import Array, Bools

__all__ = ["LGKM", "VM", "Ticket", "Waits"]

VM, LGKM = 0, 1
_NAMES = ("vmcnt", "lgkmcnt")

Number: TypeAlias = int | Array
"""A counter: of all waves, or of each, shape ``(waves,)``.  Arrays are replaced, never changed."""


@dataclass(eq=False, slots=True)
class Ticket:
    """One memory access that counters cover.

    Attributes
    ----------
    kinds : tuple of int
        The counters: `VM`, `LGKM` or both (flat).
    ordered : bool
        Returns in the order of issue among its kind.
    waves : numpy.ndarray of bool, shape (waves,), or None
        Who issued it; None for all.
    numbers : tuple of int or numpy.ndarray of int64
        What each counter had reached, this access included.
    registers : frozenset of int
        Written by it.
    text : str
        For messages.
    tops : tuple of int
        The largest of `numbers`.
    """

    kinds: tuple[int, ...]
    ordered: bool
    waves: Bools | None
    numbers: tuple[Number, ...]
    registers: frozenset[int]
    text: str
    tops: tuple[int, ...]


@dataclass
class Waits:
    """Counters of all waves, and what is pending.

    Where waves are given, ``active``, None stands for all of them.

    Attributes
    ----------
    pending : set of int
        Registers (numbered by `register_ids`) that some wave may not use yet.
    """

    count: int
    pending: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything: new waves start."""
        self.issued: list[Number] = [0 for _ in _NAMES]
        self.done: list[Number] = [0 for _ in _NAMES]
        self.least = [0 for _ in _NAMES]  # of `done`, which tells most of what has finished
        self.open: list[Ticket] = []
        self.by_register: dict[int, list[Ticket]] = {}
        self.pending.clear()

    def issue(
        self,
        kinds: tuple[int, ...],
        ordered: bool,
        active: Bools | None,
        registers: frozenset[int],
        text: str,
    ) -> Ticket:
        """Count one access of the active waves; return its ticket."""
        for kind in kinds:
            self.issued[kind] = self.issued[kind] + (1 if active is None else active)
        numbers = tuple(self.issued[kind] for kind in kinds)
        tops = tuple(x if isinstance(x, int) else int(x.max()) for x in numbers)
        waves = None if active is None else active.copy()
        ticket = Ticket(kinds, ordered, waves, numbers, registers, text, tops)
        self.open.append(ticket)
        for register in registers:
            self.by_register.setdefault(register, []).append(ticket)
        self.pending |= registers
        return ticket

    def outstanding(self, ticket: Ticket) -> bool | Bools:
        """Return the waves in which the access may not have finished: all, none, or which."""
        late: bool | Bools = False
        for kind, number, top in zip(ticket.kinds, ticket.numbers, ticket.tops, strict=True):
            if top > self.least[kind]:
                late = late | (number > self.done[kind])
        return late if ticket.waves is None or late is False else late & ticket.waves

    def wait(self, limits: tuple[int, int], active: Bools | None) -> None:
        """Execute s_waitcnt: at most so many accesses of each counter may be left."""
        for kind, limit in enumerate(limits):
            if limit < 0:
                continue
            reached = self.issued[kind] - limit
            if limit:
                for ticket in self.open:
                    if not ticket.ordered and kind in ticket.kinds:
                        reached = _unless(self.outstanding(ticket), reached)
            if active is not None:
                reached = _unless(~active, reached)
            done = self.done[kind] = _larger(self.done[kind], reached)
            self.least[kind] = done if isinstance(done, int) else int(done.min())
        still = []
        for ticket in self.open:
            if _any(self.outstanding(ticket)):
                still.append(ticket)
                continue
            for register in ticket.registers:
                waiting = self.by_register[register]
                waiting.remove(ticket)
                if not waiting:
                    del self.by_register[register]
                    self.pending.discard(register)
        self.open = still

    def use(
        self,
        reads: frozenset[int],
        writes: frozenset[int],
        kinds: tuple[int, ...],
        ordered: bool,
        active: Bools | None,
    ) -> None:
        """Check the registers of an instruction, some of which are pending.

        Parameters
        ----------
        reads, writes : frozenset of int
        kinds : tuple of int
            Counters of the instruction itself: a load may overwrite what an earlier load of the
            same kind, returning in order, has not written yet.
        ordered : bool
            Whether the instruction returns in order.

        Raises
        ------
        EmulationError
        """
        for register in (reads | writes) & self.pending:
            for ticket in self.by_register[register]:
                if register not in reads and ordered and ticket.ordered and kinds == ticket.kinds:
                    continue
                late = self.outstanding(ticket)
                if active is not None:
                    late = late & active
                if _any(late):
                    names = " and ".join(_NAMES[k] for k in ticket.kinds)
                    what = "read" if register in reads else "overwritten"
                    raise EmulationError(
                        f"missing s_waitcnt: {_name(register)} is {what} before {names} covers"
                        f" {ticket.text} (wave {int(np.argmax(late))})"
                    )


def _any(waves: bool | Bools) -> bool:
    return waves if isinstance(waves, bool) else bool(waves.any())


def _unless(waves: bool | Bools, number: Number) -> Number:
    """Return a number that is 0 in these waves."""
    if isinstance(waves, bool):
        return 0 if waves else number
    return np.where(waves, 0, number)


def _larger(x: Number, y: Number) -> Number:
    return max(x, y) if isinstance(x, int) and isinstance(y, int) else np.maximum(x, y)


def register_ids(file: str, first: int, count: int) -> Iterable[int]:
    """Return the numbers under which registers are tracked."""
    base = {"v": 0, "a": 1024, "s": 2048}[file] + first
    return range(base, base + count)


def _name(register: int) -> str:
    return "vas"[register // 1024] + str(register % 1024)
