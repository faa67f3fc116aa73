# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The race detector: two waves that touch one byte, one of them writing, with no barrier between.

A run in one order cannot show races, so accesses are logged and compared.  The log holds what
happened since the last barrier of the batch (all its waves meet there, as a wave at a barrier
waits until nothing else can run).  A byte's shadow names the wave that wrote it in this epoch;
after the epoch, for global memory, the workgroup that wrote or read it: no barrier orders
workgroups of one launch.  Bytes that no access has told apart share one shadow.  An access that a
wave did not wait for before its barrier goes on into the next epoch.

Only candidates are found by the shadow; the log itself decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .errors import EmulationError
from .formats import Array, Bools
from .memory import Allocation
from .waits import Ticket, Waits

__all__ = ["ATOMIC", "MOST_WAVES", "READ", "WRITE", "GlobalRaces", "LdsRaces", "accessed"]

READ, WRITE, ATOMIC = 0, 1, 2
_VERBS = ("reads", "writes", "updates")

# Codes of a shadow.  0: untouched.  Then waves of this batch, then its workgroups.
_ATOMIC = 127
_GROUP = 128
_SEVERAL = 255
MOST_WAVES = 126
LOG_BYTES = 48 << 20  # of places; a longer log is evaluated early
_LARGEST = 16  # bytes of a unit
_PART = 1 << 16  # codes that are split at a time


@dataclass(slots=True)
class Access:
    """One logged access (`accessed` makes it).

    Attributes
    ----------
    kind : int
        `READ`, `WRITE` or `ATOMIC`.
    at : numpy.ndarray of int32 or int64, shape (lanes,)
        Offsets of the lanes that were on, in units.
    shift : int
        A unit has ``1 << shift`` bytes; all offsets and the size are multiples of it.
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
    shift: int
    waves: Array
    size: int
    text: str
    ticket: Ticket | None
    values: list[Array] | None = None

    def only(self, on: Array) -> Access:
        """Return the access of some of its lanes; no copy for all of them."""
        if on.all():
            return self
        values = None if self.values is None else [x[on] for x in self.values]
        return replace(self, at=self.at[on], waves=self.waves[on], values=values)


def accessed(
    kind: int,
    at: Array,
    waves: Array,
    size: int,
    text: str,
    ticket: Ticket | None,
    values: list[Array] | None = None,
) -> Access:
    """Return an access in as few bytes as its offsets ``at`` (bytes, none below 0) need."""
    bits = int(np.bitwise_or.reduce(at)) | size | _LARGEST
    shift = (bits & -bits).bit_length() - 1
    units = (at >> shift).astype(np.int32 if bits >> shift < 1 << 31 else np.int64)
    return Access(kind, units, shift, waves, size, text, ticket, values)


_ONES = (0x01, 0x0101, 0x01010101, 0x0101010101010101)


def _pattern(codes: Array, wide: int) -> Array:
    """Return each code repeated ``1 << wide`` times, as one number."""
    dtype = np.dtype(f"u{1 << wide}")
    return codes.astype(dtype) * dtype.type(_ONES[wide])


class _Shadow:
    """A code for each unit of memory, the largest unit of which all accesses so far consist."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._make(_LARGEST.bit_length() - 1)

    def _make(self, shift: int) -> None:
        self._shift = shift
        data = np.zeros(((self._size >> shift) // 8 + 1) * 8, np.uint8)
        self._views = [data.view(f"u{1 << wide}") for wide in range(4)]

    def _places(self, access: Access) -> tuple[int, list[Array]]:
        """Return how many codes (as a power of two) are looked at together, and where."""
        if access.shift < self._shift:
            self._split(access.shift)
        more = access.shift - self._shift
        wide = min(more, 3)
        first = access.at.astype(np.int64) << (more - wide) if more > wide else access.at
        count = access.size >> (self._shift + wide)
        return wide, [first + k if k else first for k in range(count)]

    def _split(self, shift: int) -> None:
        """Have smaller units from now on; memory that nobody touched costs nothing."""
        codes, times = self._views[0], 1 << (self._shift - shift)
        self._make(shift)
        for at in range(0, codes.size, _PART):
            part = codes[at : at + _PART]
            if part.any():
                into = self._views[0][at * times : (at + part.size) * times]
                into[:] = part.repeat(times)[: into.size]

    def _bytes(self, units: Array) -> Array:
        """Return the offsets of all bytes of units."""
        octets: Array = (units[:, None] << self._shift) + np.arange(1 << self._shift)
        return octets.ravel()

    def mark(self, access: Access, codes: Array) -> None:
        wide, places = self._places(access)
        pattern, view = _pattern(codes, wide), self._views[wide]
        for place in places:
            view[place] = pattern

    def differing(
        self, access: Access, codes: Array, *, also: Array | None = None, empty: bool = True
    ) -> Array:
        """Return bytes whose code is neither 0 (if `empty`) nor the given one of their lane."""
        wide, places = self._places(access)
        pattern, view = _pattern(codes, wide), self._views[wide]
        found = []
        for place in places:
            seen = view[place]
            other = seen != pattern
            if empty:
                other &= seen != 0
            if other.any():
                units = _each(place[other], wide)
                code, mine = self._views[0][units], codes[other].repeat(1 << wide)
                bad = code != mine
                if empty:
                    bad &= code != 0
                if also is not None:
                    bad &= code != also[other].repeat(1 << wide)
                found.append(self._bytes(units[bad]))
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def share(self, access: Access, codes: Array) -> None:
        """Mark as `mark` does, but keep that several have touched a byte."""
        wide, places = self._places(access)
        pattern, view, single = _pattern(codes, wide), self._views[wide], self._views[0]
        ones = view.dtype.type(_ONES[wide])
        several = view.dtype.type(_SEVERAL) * ones
        for place in places:
            seen = view[place]
            left = (seen != pattern) & (seen != several)
            if not left.any():
                continue
            at, mine, was = place[left], pattern[left], seen[left]
            # Where one other has touched all of them, or nobody, it needs no look at each unit.
            whole = (was != 0) & ((was & was.dtype.type(255)) * ones == was)
            view[at[whole]] = several
            free = was == 0
            view[at[free]] = mine[free]
            mixed = ~whole & (~free | (view[at] != mine))
            if mixed.any():
                units = _each(at[mixed], wide)
                own = (mine[mixed] & mine.dtype.type(255)).astype(np.uint8).repeat(1 << wide)
                code = single[units]
                value = np.where((code == 0) | (code == own), own, np.uint8(_SEVERAL))
                single[units] = value
                single[units[single[units] != value]] = _SEVERAL


def _each(places: Array, wide: int) -> Array:
    """Return the units of which numbers of ``1 << wide`` codes consist."""
    units: Array = (places.astype(np.int64)[:, None] << wide) + np.arange(1 << wide)
    return units.ravel()


class _Log:
    """Accesses of one epoch, and the verdict on a byte."""

    def __init__(self, waits: Waits, group: Array) -> None:
        self.waits, self.group = waits, group
        self.entries: list[Access] = []

    def carry(self) -> list[Access]:
        """Return what of the log has not finished at the barrier that ends the epoch."""
        left = []
        for entry in self.entries:
            if entry.ticket is None:
                continue
            late = self.waits.outstanding(entry.ticket)
            if late is True:
                left.append(entry)
            elif late is not False and (on := late[entry.waves]).any():
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
    start = entry.at.astype(np.int64) << entry.shift
    for k in range(entry.size):
        octets = start + k
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

    def _judge_lds(self, octets: Array) -> None:
        self.judge(octets, f"LDS (workgroups {self.stride} bytes apart)")

    def reset(self) -> None:
        """Forget everything: new waves start."""
        self.entries = []


def _compare(shadow: _Shadow, entries: list[Access], writes: list[Access]) -> Array:
    """Mark the writes of an epoch with their waves; return bytes that anyone else touched."""
    for entry in writes:
        shadow.mark(entry, _codes(entry))
    found = [shadow.differing(e, _codes(e), empty=e.kind == READ) for e in entries]
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
        self.bytes = 0

    def add_at(self, allocation: Allocation, access: Access) -> None:
        """Log an access to one allocation; its offsets are relative to that."""
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


def flatten(address: Array, mask: Bools | None, rows: Array) -> tuple[Array, Array]:
    """Return the offsets and waves of the lanes that are on, as one dimension each.

    `rows` are the waves of all lanes, ``(count, 64)``.
    """
    if mask is None:
        return address.ravel(), rows.ravel()
    return address[mask], rows[mask]
