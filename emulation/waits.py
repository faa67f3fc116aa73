# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The check of s_waitcnt: nothing may be used before the counter that covers it was waited for.

Every memory instruction makes a ticket, the number that its counter has reached in each wave.
Registers that a load will write are pending until a wait passes their ticket; using one before
is an error, although in this emulation the value is there already.

Vector memory returns in order, LDS too; scalar loads and flat accesses in any order, so that with
one of them outstanding only a wait for zero says anything.  That is the order that LLVM relies on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from .errors import EmulationError
from .formats import Array, Bools

__all__ = ["LGKM", "VM", "Ticket", "Waits"]

VM, LGKM = 0, 1
_NAMES = ("vmcnt", "lgkmcnt")


@dataclass(eq=False, slots=True)
class Ticket:
    """One memory access that counters cover.

    Attributes
    ----------
    kinds : tuple of int
        The counters: `VM`, `LGKM` or both (flat).
    ordered : bool
        Returns in the order of issue among its kind.
    waves : numpy.ndarray of bool, shape (waves,)
        Who issued it.
    numbers : tuple of numpy.ndarray of int64
        What each counter had reached in each wave, this access included.
    registers : frozenset of int
        Written by it.
    text : str
        For messages.
    tops : tuple of int
        The largest of `numbers`.
    """

    kinds: tuple[int, ...]
    ordered: bool
    waves: Bools
    numbers: tuple[Array, ...]
    registers: frozenset[int]
    text: str
    tops: tuple[int, ...]


@dataclass
class Waits:
    """Counters of all waves, and what is pending.

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
        self.issued = [np.zeros(self.count, np.int64) for _ in _NAMES]
        self.done = [np.zeros(self.count, np.int64) for _ in _NAMES]
        self.open: list[Ticket] = []
        self.by_register: dict[int, list[Ticket]] = {}
        self.pending.clear()

    def issue(
        self,
        kinds: tuple[int, ...],
        ordered: bool,
        active: Bools,
        registers: frozenset[int],
        text: str,
    ) -> Ticket:
        """Count one access of the active waves; return its ticket."""
        for kind in kinds:
            self.issued[kind] += active
        numbers = tuple(self.issued[kind].copy() for kind in kinds)
        tops = tuple(int(number.max()) for number in numbers)
        ticket = Ticket(kinds, ordered, active.copy(), numbers, registers, text, tops)
        self.open.append(ticket)
        for register in registers:
            self.by_register.setdefault(register, []).append(ticket)
        self.pending |= registers
        return ticket

    def outstanding(self, ticket: Ticket) -> Bools:
        """Return the waves in which the access may not have finished."""
        late = np.zeros(self.count, bool)
        for kind, number in zip(ticket.kinds, ticket.numbers, strict=True):
            late |= number > self.done[kind]
        return late & ticket.waves

    def wait(self, limits: tuple[int, int], active: Bools) -> None:
        """Execute s_waitcnt: at most so many accesses of each counter may be left."""
        for kind, limit in enumerate(limits):
            if limit < 0:
                continue
            reached = np.where(active, self.issued[kind] - limit, 0)
            if limit:
                for ticket in self.open:
                    if not ticket.ordered and kind in ticket.kinds:
                        reached[self.outstanding(ticket)] = 0
            np.maximum(self.done[kind], reached, out=self.done[kind])
        still = []
        least = [int(done.min()) for done in self.done]  # tells most of what has finished
        for ticket in self.open:
            left = any(
                top > least[kind] for kind, top in zip(ticket.kinds, ticket.tops, strict=True)
            )
            if left and self.outstanding(ticket).any():
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
        active: Bools,
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
                late = self.outstanding(ticket) & active
                if late.any():
                    names = " and ".join(_NAMES[k] for k in ticket.kinds)
                    what = "read" if register in reads else "overwritten"
                    raise EmulationError(
                        f"missing s_waitcnt: {_name(register)} is {what} before {names} covers"
                        f" {ticket.text} (wave {int(np.argmax(late))})"
                    )


def register_ids(file: str, first: int, count: int) -> Iterable[int]:
    """Return the numbers under which registers are tracked."""
    base = {"v": 0, "a": 1024, "s": 2048}[file] + first
    return range(base, base + count)


def _name(register: int) -> str:
    return "vas"[register // 1024] + str(register % 1024)
