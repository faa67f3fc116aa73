# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The race detector: two waves that touch one byte, one of them writing, with no barrier between.

A run in one order cannot show races, so accesses are logged and compared.  The log holds what
happened since the last barrier of the batch (all its waves meet there, as a wave at a barrier
waits until nothing else can run).  A byte's shadow names the wave that wrote it in this epoch;
after the epoch, for global memory, the workgroup that wrote or read it: no barrier orders
workgroups of one launch.  An access that a wave did not wait for before its barrier goes on into
the next epoch.

Only candidates are found by the shadow; the log itself decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .errors import EmulationError
from .formats import Array, Bools
from .memory import Allocation
from .waits import Ticket, Waits

__all__ = ["ATOMIC", "MOST_WAVES", "READ", "WRITE", "GlobalRaces", "LdsRaces"]

READ, WRITE, ATOMIC = 0, 1, 2
_VERBS = ("reads", "writes", "updates")

# Codes of a shadow byte.  0: untouched.  Then waves of this batch, then its workgroups.
_ATOMIC = 127
_GROUP = 128
_SEVERAL = 255
MOST_WAVES = 126
LOG_BYTES = 96 << 20  # of addresses; a longer log is evaluated early


@dataclass(slots=True)
class Access:
    """One logged access.

    Attributes
    ----------
    kind : int
        `READ`, `WRITE` or `ATOMIC`.
    at : numpy.ndarray of int64, shape (lanes,)
        Byte offsets, of the lanes that were on.
    waves : numpy.ndarray of uint8, shape (lanes,)
        Waves of the batch.
    size : int
        Bytes of each lane.
    text : str
        The instruction, for messages.
    ticket : Ticket or None
        What says whether the access has finished.
    values : list of numpy.ndarray of uint32, or None
        The words that are written, as far as they are known.
    """

    kind: int
    at: Array
    waves: Array
    size: int
    text: str
    ticket: Ticket | None
    values: list[Array] | None = None

    def only(self, on: Array, base: int = 0) -> Access:
        """Return the access of some of its lanes, with offsets from `base`."""
        values = None if self.values is None else [x[on] for x in self.values]
        return replace(self, at=self.at[on] - base, waves=self.waves[on], values=values)


def _pieces(at: Array, size: int) -> tuple[int, list[Array]]:
    """Return the largest unit (1, 2, 4, 8) that fits all offsets and the size, and its indices."""
    bits = int(np.bitwise_or.reduce(at)) | size | 8
    shift = (bits & -bits).bit_length() - 1
    first = at >> shift
    return 1 << shift, [first + k if k else first for k in range(size >> shift)]


_ONES = {1: 0x01, 2: 0x0101, 4: 0x01010101, 8: 0x0101010101010101}


def _pattern(codes: Array, unit: int) -> Array:
    dtype = np.dtype(f"u{unit}")
    return codes.astype(dtype) * dtype.type(_ONES[unit])


class _Shadow:
    """One byte of shadow for each byte of memory."""

    def __init__(self, size: int) -> None:
        data = np.zeros(-(-size // 8) * 8, np.uint8)
        self.views = {n: data.view(f"u{n}") for n in (1, 2, 4, 8)}

    def mark(self, access: Access, codes: Array) -> None:
        unit, pieces = _pieces(access.at, access.size)
        pattern, view = _pattern(codes, unit), self.views[unit]
        for piece in pieces:
            view[piece] = pattern

    def differing(
        self, access: Access, codes: Array, *, also: Array | None = None, empty: bool = True
    ) -> Array:
        """Return bytes whose code is neither 0 (if `empty`) nor the given one of their lane."""
        unit, pieces = _pieces(access.at, access.size)
        pattern, view = _pattern(codes, unit), self.views[unit]
        found = []
        for piece in pieces:
            seen = view[piece]
            other = seen != pattern
            if empty:
                other &= seen != 0
            if other.any():
                octets = (piece[other][:, None] * unit + np.arange(unit)).ravel()
                seen8, mine = self.views[1][octets], np.repeat(codes[other], unit)
                bad = seen8 != mine
                if empty:
                    bad &= seen8 != 0
                if also is not None:
                    bad &= seen8 != np.repeat(also[other], unit)
                found.append(octets[bad])
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def share(self, access: Access, codes: Array) -> None:
        """Mark as `mark` does, but keep that several have touched a byte."""
        unit, pieces = _pieces(access.at, access.size)
        pattern, view, octet = _pattern(codes, unit), self.views[unit], self.views[1]
        ones, several = _ONES[unit], view.dtype.type(_SEVERAL * _ONES[unit])
        for piece in pieces:
            seen = view[piece]
            left = (seen != pattern) & (seen != several)
            if not left.any():
                continue
            at, mine, was = piece[left], pattern[left], seen[left]
            # Where one other has touched the whole unit, or nobody, it needs no look at each byte.
            whole = (was != 0) & ((was & was.dtype.type(255)) * was.dtype.type(ones) == was)
            view[at[whole]] = several
            free = was == 0
            view[at[free]] = mine[free]
            mixed = ~whole & (~free | (view[at] != mine))
            if mixed.any():
                octets = (at[mixed][:, None] * unit + np.arange(unit)).ravel()
                own = np.repeat((mine[mixed] & mine.dtype.type(255)).astype(np.uint8), unit)
                was8 = octet[octets]
                value = np.where((was8 == 0) | (was8 == own), own, np.uint8(_SEVERAL))
                octet[octets] = value
                octet[octets[octet[octets] != value]] = _SEVERAL


class _Log:
    """Accesses of one epoch, and the verdict on a byte."""

    def __init__(self, waits: Waits, group: Array) -> None:
        self.waits, self.group = waits, group
        self.entries: list[Access] = []
        self.bytes = 0

    def add(self, access: Access) -> None:
        self.entries.append(access)
        self.bytes += access.at.nbytes

    def carry(self) -> list[Access]:
        """Return what of the log has not finished at the barrier that ends the epoch."""
        left = []
        for entry in self.entries:
            if entry.ticket is None:
                continue
            late = self.waits.outstanding(entry.ticket)
            if late.any():
                on = late[entry.waves]
                if on.any():
                    left.append(entry.only(on))
        return left

    def judge(self, octets: Array, place: str) -> None:
        """Decide about bytes that several waves touched, at least one of them writing.

        Writes of the same value by several waves, which compilers emit where all threads compute
        the same, are none; nor is reading back what the wave itself wrote before.

        Raises
        ------
        EmulationError
        """
        suspects = np.unique(octets)
        parts = [_touched(entry, number, suspects) for number, entry in enumerate(self.entries)]
        byte, wave, kind, value, order = np.concatenate(parts, axis=1)
        if not byte.size:
            return
        count = len(suspects)
        bad = np.zeros(count, bool)
        written = kind == WRITE
        bad |= _differs(byte[written], wave[written], count) & _differs(
            byte[written], value[written], count
        )
        atomic, plain = np.zeros(count, bool), np.zeros(count, bool)
        atomic[byte[kind == ATOMIC]] = True
        plain[byte[kind != ATOMIC]] = True
        bad |= atomic & plain & _differs(byte, wave, count)
        bad |= _read_of_others(byte, wave, kind, order, count)
        if not bad.any():
            return
        first = int(np.argmax(bad))
        here = byte == first
        parties: dict[int, str] = {}
        for w, k, o in zip(wave[here], kind[here], order[here], strict=True):
            parties.setdefault(
                int(w), f"wave {int(w)} {_VERBS[int(k)]} it in {self.entries[o].text}"
            )
            if k != READ:
                parties[int(w)] = f"wave {int(w)} {_VERBS[int(k)]} it in {self.entries[o].text}"
        told = ", ".join(sorted(parties.values(), key=lambda text: " reads " in text)[:3])
        raise EmulationError(
            f"race on {place} byte {int(suspects[first]):#x}: {told}, with no barrier between"
        )


def _touched(entry: Access, number: int, suspects: Array) -> Array:
    """Return bytes (as places in `suspects`), waves, kinds, values and order of one access."""
    found = []
    for k in range(entry.size):
        octets = entry.at + k
        at = np.minimum(np.searchsorted(suspects, octets), len(suspects) - 1)
        on = suspects[at] == octets
        waves = entry.waves[on].astype(np.int64)
        if entry.values is None:
            values = -1 - waves  # not known: taken for different ones
        else:
            values = (entry.values[k // 4][on] >> np.uint32(8 * (k % 4)) & 255).astype(np.int64)
        rest = np.ones_like(waves)
        found.append(np.stack([at[on], waves, rest * entry.kind, values, rest * number]))
    return np.concatenate(found, axis=1)


def _differs(byte: Array, x: Array, count: int) -> Array:
    """Return for each byte whether its `x` are not all equal."""
    low, high = np.full(count, 1 << 60), np.full(count, -(1 << 60))
    np.minimum.at(low, byte, x)
    np.maximum.at(high, byte, x)
    return low < high


def _read_of_others(byte: Array, wave: Array, kind: Array, order: Array, count: int) -> Array:
    """Return the bytes that a wave reads, another writes, and the reader did not write before."""
    bad = np.zeros(count, bool)
    writes, reads = kind == WRITE, kind == READ
    if not writes.any() or not reads.any():
        return bad
    low, high = np.full(count, 1 << 60), np.full(count, -1)
    np.minimum.at(low, byte[writes], wave[writes])
    np.maximum.at(high, byte[writes], wave[writes])
    rb, rw, ro = byte[reads], wave[reads], order[reads]
    others = (high[rb] >= 0) & ((low[rb] != rw) | (high[rb] != rw))
    own, place = np.unique(byte[writes] * 256 + wave[writes], return_inverse=True)
    first = np.full(len(own), 1 << 60)
    np.minimum.at(first, place, order[writes])
    key = rb * 256 + rw
    at = np.minimum(np.searchsorted(own, key), len(own) - 1)
    itself = (own[at] == key) & (first[at] < ro)
    bad[rb[others & ~itself]] = True
    return bad


class LdsRaces(_Log):
    """Races in LDS.  Offsets are those of the batch's region, so that workgroups never meet."""

    def __init__(self, waits: Waits, group: Array, size: int, stride: int) -> None:
        super().__init__(waits, group)
        self.shadow = _Shadow(size)
        self.stride = max(stride, 1)

    def flush(self) -> None:
        """Compare the accesses of the epoch that a barrier, or the end, closes.

        Raises
        ------
        EmulationError
        """
        if not self.entries:
            return
        writes = [e for e in self.entries if e.kind != READ]
        if writes:
            suspects = _compare(self.shadow, self.entries, writes)
            for entry in writes:
                self.shadow.mark(entry, np.zeros_like(entry.waves))
            if suspects.size:
                self._judge_lds(suspects)
        self.entries = self.carry()
        self.bytes = sum(e.at.nbytes for e in self.entries)

    def _judge_lds(self, octets: Array) -> None:
        self.judge(octets, f"LDS (workgroups {self.stride} bytes apart)")

    def reset(self) -> None:
        """Forget everything: new waves start."""
        self.entries, self.bytes = [], 0


def _compare(shadow: _Shadow, entries: list[Access], writes: list[Access]) -> Array:
    """Mark the writes of an epoch with their waves; return bytes that anyone else touched."""
    codes = {id(e): _codes(e) for e in entries}
    for entry in writes:
        shadow.mark(entry, codes[id(entry)])
    found = [shadow.differing(e, codes[id(e)], empty=e.kind == READ) for e in entries]
    return np.concatenate(found)


def _codes(entry: Access) -> Array:
    if entry.kind == ATOMIC:
        return np.full(len(entry.waves), _ATOMIC, np.uint8)
    return entry.waves + np.uint8(1)


class GlobalRaces(_Log):
    """Races in device memory, over a whole launch.

    Workgroups have 126 codes in turn, so that races of workgroups whose numbers differ by a
    multiple of that, in different batches, are missed.
    """

    def __init__(self, waits: Waits, group: Array) -> None:
        super().__init__(waits, group)
        self.shadows: dict[int, tuple[_Shadow, _Shadow]] = {}
        self.logs: dict[int, tuple[Allocation, list[Access]]] = {}

    def add_at(self, allocation: Allocation, access: Access) -> None:
        """Log an access to one allocation; `access.at` is relative to it."""
        self.logs.setdefault(allocation.address, (allocation, []))[1].append(access)
        self.bytes += access.at.nbytes
        if self.bytes > LOG_BYTES:
            self.flush()

    def flush(self) -> None:
        """Compare the accesses of the epoch, among themselves and with those before.

        Raises
        ------
        EmulationError
        """
        self.bytes = 0
        for address, (allocation, entries) in list(self.logs.items()):
            if not entries:
                continue
            if address not in self.shadows:
                self.shadows[address] = (_Shadow(allocation.size), _Shadow(allocation.size))
            wrote, read = self.shadows[address]
            self.entries = entries
            writes = [e for e in entries if e.kind != READ]
            self._against_others(wrote, read, entries, allocation)
            if writes:
                suspects = _compare(wrote, entries, writes)
                if suspects.size:
                    self.judge(suspects, allocation.name)
            for entry in entries:
                if entry.kind == WRITE:
                    wrote.mark(entry, self._owners(entry))
                elif entry.kind == READ:
                    read.share(entry, self._owners(entry))
            left = self.carry()
            self.logs[address] = (allocation, left)
            self.bytes += sum(e.at.nbytes for e in left)
        self.entries = []

    def _owners(self, entry: Access) -> Array:
        owners = (_GROUP + self.group % MOST_WAVES).astype(np.uint8)
        return owners[entry.waves]

    def _against_others(
        self, wrote: _Shadow, read: _Shadow, entries: list[Access], allocation: Allocation
    ) -> None:
        for entry in entries:
            own = self._owners(entry)
            codes = np.full_like(own, _ATOMIC) if entry.kind == ATOMIC else own
            for shadow, verb in ((wrote, "wrote"), (read, "read")):
                if entry.kind == READ and shadow is read:
                    continue
                octets = shadow.differing(entry, codes, also=own)
                if octets.size:
                    raise EmulationError(
                        f"race on {allocation.name} byte {int(octets[0]):#x}:"
                        f" {entry.text} {_VERBS[entry.kind]} it,"
                        f" which another workgroup {verb}"
                    )

    def end_batch(self) -> None:
        """Close a batch: its waves have ended."""
        self.flush()
        for _, entries in self.logs.values():
            entries.clear()
        self.bytes = 0


def flat_words(words: list[Array], mask: Bools | None) -> list[Array]:
    """Return copies of the words of the lanes that are on, in the order of `flatten`."""
    return [x.ravel().copy() if mask is None else x[mask] for x in words]


def flatten(address: Array, mask: Bools | None, waves: Array) -> tuple[Array, Array]:
    """Return the offsets and waves of the lanes that are on, as one dimension each."""
    rows = np.broadcast_to(waves[:, None], address.shape)
    if mask is None:
        return address.ravel(), rows.ravel()
    return address[mask], rows[mask]
