# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a builder makes of an instruction: something to run, and what the checks must know of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .errors import EmulationError
from .formats import Array, Bools
from .instruction import Instruction
from .memory import Memory as DeviceMemory
from .program import Program
from .races import READ, WRITE, GlobalRaces, LdsRaces, accessed, flat_words, flatten
from .state import Waves
from .waits import Ticket, Waits

__all__ = ["Builder", "Control", "Machine", "Memory", "Plain", "Wait"]


class Machine(Waves):
    """The waves with their checks: what builders and steps see.

    Attributes
    ----------
    waits, lds_races, global_races
        None where not checked.
    ticket : Ticket or None
        Of the memory instruction that is executed.
    text : str
        The instruction that is executed.
    rows : numpy.ndarray of uint8, shape (count, 64)
        The wave of each lane, for logs.
    dma : list of (Ticket, numpy.ndarray)
        Loads into LDS that may not have finished, with the words of LDS that they write.
    """

    waits: Waits | None = None
    lds_races: LdsRaces | None = None
    global_races: GlobalRaces | None = None
    ticket: Ticket | None = None
    text: str = ""

    def __init__(
        self, kernel: Program, count: int, groups: int, memory: DeviceMemory, lds: int
    ) -> None:
        super().__init__(kernel, count, groups, memory, lds)
        self.rows = np.repeat(self.index.astype(np.uint8)[:, None], 64, axis=1)
        self.dma: list[tuple[Ticket, Array]] = []
        self.dma_shadow = np.zeros(self.lds.u8.size // 4 + 4, bool)

    def lds_access(
        self, address: Array, size: int, kind: int, words: list[Array] | None = None
    ) -> Array:
        """Check and log an access to LDS.

        Parameters
        ----------
        address : numpy.ndarray of int64, shape (count, 64)
            Within the workgroup; lanes that are off may hold anything.
        size : int
            Bytes of each lane.
        kind : int
            `READ`, `WRITE` or `ATOMIC`.
        words : list of numpy.ndarray of uint32, shape (count, 64), optional
            What is written.

        Returns
        -------
        numpy.ndarray of int64, shape (count, 64)
            Offsets into `lds`; valid ones also for lanes that are off.

        Raises
        ------
        EmulationError
            If any byte is beyond the LDS of the workgroup (for what is read, rounded up to 16
            bytes), or a load into it was not waited for.
        """
        mask = self.mask
        if mask is not None:
            address = np.where(mask, address, 0)
        high = int(address.max())
        # LLVM widens aligned loads, of 3 halves to 8 bytes; LDS is allocated in larger blocks.
        end = self.lds_stride if kind == READ else self.lds_size
        if high + size > end or int(address.min()) < 0:
            if mask is not None and not mask.any():
                return np.zeros_like(address)
            raise EmulationError(
                f"LDS access of {size} bytes at {high:#x} is beyond its {self.lds_size:#x} bytes"
            )
        at: Array = address + self.lds_base
        if self.dma:
            self._check_dma(at, size)
        races = self.lds_races
        if races is not None:
            flat, waves = flatten(at, mask, self.rows)
            if flat.size:
                values = None if words is None else flat_words(words, mask)
                races.entries.append(
                    accessed(kind, flat, waves, size, self.text, self.ticket, values)
                )
        return at

    def note_dma(self, at: Array, size: int) -> None:
        """Remember that a load writes these bytes of LDS when it finishes."""
        if self.ticket is None:
            return
        on = at.ravel() if self.mask is None else at[self.mask]
        words = (on[:, None] >> 2) + np.arange(size // 4)
        self.dma.append((self.ticket, words.ravel()))
        self.dma_shadow[words] = True

    def _check_dma(self, at: Array, size: int) -> None:
        """Find accesses to bytes of LDS that a load not waited for will write."""
        assert self.waits is not None
        finished = [x for x in self.dma if x[0] not in self.waits.open]
        if finished:
            for _, words in finished:
                self.dma_shadow[words] = False
            self.dma = [x for x in self.dma if x[0] in self.waits.open]
            for _, words in self.dma:
                self.dma_shadow[words] = True
        on = at.ravel() if self.mask is None else at[self.mask]
        for k in range(0, size, 4):
            hit = self.dma_shadow[(on + k) >> 2]
            if not hit.any():
                continue
            where = np.unique((on[hit] + k) >> 2)
            for ticket, words in self.dma:
                late = np.isin(where, words)
                if late.any() and np.any(self.waits.outstanding(ticket)):
                    raise EmulationError(
                        f"missing s_waitcnt: LDS is used before vmcnt covers {ticket.text},"
                        " which loads into it"
                    )

    def global_access(
        self,
        address: Array,
        size: int,
        kind: int,
        on: Bools | None,
        words: list[Array] | None = None,
    ) -> Array:
        """Check and log an access to device memory.

        Parameters
        ----------
        address : numpy.ndarray of int64, shape (count, 64)
        size, kind : int
        on : numpy.ndarray of bool, shape (count, 64), or None
            The lanes that access it; None for all.
        words : list of numpy.ndarray of uint32, shape (count, 64), optional
            What is written.

        Returns
        -------
        numpy.ndarray of int64
            Offsets into ``memory.space`` of the lanes that are on: (count, 64) if all are,
            else (lanes,).
        """
        flat = address if on is None else address[on]
        if not flat.size:
            return flat
        at = self.memory.check(flat, size, write=kind != READ)
        races = self.global_races
        if races is not None:
            places, waves = flatten(address, on, self.rows)
            values = None if words is None else flat_words(words, on)
            self._log_global(races, kind, places, waves, size, values)
        return at

    def _log_global(
        self,
        races: GlobalRaces,
        kind: int,
        at: Array,
        waves: Array,
        size: int,
        values: list[Array] | None,
    ) -> None:
        """Log an access under each allocation that it touches."""
        while True:
            found = self.memory.find(int(at.min()))
            if found is None:
                return
            beyond = at >= found.address + found.size
            several = bool(beyond.any())
            on = ~beyond if several else slice(None)
            if not found.read_only:
                here = None if values is None else [x[on] for x in values]
                access = accessed(
                    kind, at[on] - found.address, waves[on], size, self.text, self.ticket, here
                )
                races.add_at(found, access)
            if not several:
                return
            at, waves = at[beyond], waves[beyond]
            values = None if values is None else [x[beyond] for x in values]

    def load_global(self, address: Array, size: int, on: Bools | None) -> list[Array]:
        """Load from device memory; lanes that are off give 0.  Returns words ``(count, 64)``."""
        at = self.global_access(address, size, READ, on)
        words = (
            self.memory.space.load(at, size)
            if at.size
            else [np.zeros(0, np.uint32)] * ((size + 3) // 4)
        )
        if on is None:
            return words
        out = []
        for word in words:
            full = np.zeros(on.shape, np.uint32)
            full[on] = word
            out.append(full)
        return out

    def store_global(self, address: Array, size: int, words: list[Array], on: Bools | None) -> None:
        """Store to device memory the lanes that are on."""
        at = self.global_access(address, size, WRITE, on, words)
        if at.size:
            self.memory.space.store(at, size, words if on is None else [x[on] for x in words])

    def barrier(self) -> None:
        """Close the epoch of the race detectors."""
        if self.lds_races is not None:
            self.lds_races.flush()
        if self.global_races is not None:
            self.global_races.flush()


@dataclass(frozen=True)
class Plain:
    """Runs and goes on to the next instruction."""

    run: Callable[[], None]


@dataclass(frozen=True)
class Memory:
    """An access that counters cover.

    Attributes
    ----------
    run : callable
    counters : tuple of int
        `VM`, `LGKM` or both.
    loads : bool
        The first operand is written when the access finishes.
    ordered : bool
        Returns in the order of issue.
    """

    run: Callable[[], None]
    counters: tuple[int, ...]
    loads: bool
    ordered: bool = True


@dataclass(frozen=True)
class Wait:
    """s_waitcnt: the numbers allowed to be left, -1 for no wait."""

    limits: tuple[int, int]


@dataclass(frozen=True)
class Control:
    """Changes the program counter.

    Attributes
    ----------
    kind : str
        ``"branch"``, ``"jump"``, ``"barrier"``, ``"mode"`` or ``"end"``.
    target : int
        Address (branch).
    taken : callable or None
        Waves that branch, None for all; for jumps the addresses; for "mode" runs the change.
    """

    kind: str
    target: int = 0
    taken: Callable[[], Array] | None = None


Builder = Callable[[Machine, Instruction], Plain | Memory | Wait | Control]
