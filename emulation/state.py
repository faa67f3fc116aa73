# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The state of the waves that run together, and how instructions read and write it.

Registers are arrays (register, wave, lane) of uint32, scalar ones (register, wave).  They stay in
place for a whole launch, so that the steps made from instructions hold views of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from .errors import EmulationError, UnsupportedError
from .formats import DTYPES, Array, Bools, constant, flush, size_of
from .instruction import Instruction, Operand
from .memory import Memory, Region
from .program import Program

__all__ = ["EXEC", "LANES", "M0", "REGISTER_POISON", "VCC", "Reader", "Waves", "Writer"]

VCC, M0, EXEC = 106, 124, 126
LANES = np.arange(64)
REGISTER_POISON = 0xFFFBFFFB  # NaN as half, bfloat16, single and (as a pair) double precision
_SCALARS = 128
_FULL = np.uint32(0xFFFFFFFF)

Reader: TypeAlias = Callable[[], Array]
Writer: TypeAlias = Callable[[Array], None]


class Waves:
    """Registers, masks and memories of the waves of a batch of workgroups.

    Attributes
    ----------
    count : int
        Waves; those of no workgroup have ended from the start.
    files : dict of str to numpy.ndarray of uint32
        ``"v"`` and ``"a"`` (register, wave, 64), ``"s"`` (register, wave).
    scc : numpy.ndarray of bool, shape (count,)
    active : numpy.ndarray of bool, shape (count,)
        The waves that execute the present instruction.
    mask : numpy.ndarray of bool, shape (count, 64), or None
        The lanes that it writes: active and on in exec; None when that is all of them.
    mode : int
        MODE of the active waves, equal for all of them; steps are made for one mode.
    modes : numpy.ndarray of int64, shape (count,)
    group, wave : numpy.ndarray of int64, shape (count,)
        The workgroup within the batch, and the wave within the workgroup.
    """

    def __init__(self, kernel: Program, count: int, groups: int, memory: Memory, lds: int) -> None:
        self.kernel, self.count, self.memory = kernel, count, memory
        apart = kernel.accum_offset == 0
        vectors = max(kernel.vgprs if apart else min(kernel.accum_offset, kernel.vgprs), 1)
        accumulators = max(kernel.vgprs if apart else kernel.vgprs - kernel.accum_offset, 0)
        self.files: dict[str, Array] = {
            "v": np.empty((vectors, count, 64), np.uint32),
            "a": np.empty((accumulators, count, 64), np.uint32),
            "s": np.empty((_SCALARS, count), np.uint32),
        }
        self.s = self.files["s"]
        self.scc: Bools = np.zeros(count, bool)
        self.active: Bools = np.ones(count, bool)
        self.all_active = True
        self.mask: Bools | None = None
        self.mode = kernel.float_mode
        self.modes = np.zeros(count, np.int64)
        self.group = np.zeros(count, np.int64)
        self.wave = np.zeros(count, np.int64)
        self.lds_size = lds
        stride = -(-lds // 16) * 16
        self.lds = Region(_aligned(max(stride * groups, 16)))
        self.lds_stride = stride
        self.lds_base = np.zeros((count, 1), np.int64)
        self.scratch_size = -(-kernel.scratch_size // 4) * 4
        self.scratch = Region(_aligned(max(count * 64 * self.scratch_size, 16)))
        self.scratch_base = (np.arange(count)[:, None] * 64 + LANES) * self.scratch_size
        self.index = np.arange(count)

    @property
    def some(self) -> Bools | None:
        """The waves that execute the present instruction; None for all."""
        return None if self.all_active else self.active

    # ---- registers ---------------------------------------------------------------------------

    def register(self, operand: Operand, at: int = 0) -> Array:
        """Return the view of one register of an operand, ``(count, 64)`` or ``(count,)``.

        Raises
        ------
        EmulationError
            If the kernel does not have it.
        """
        if operand.file not in self.files:
            raise UnsupportedError(f"operand {operand.name or operand.file} as a register")
        file, index = self.files[operand.file], operand.index + at
        if index >= len(file):
            raise EmulationError(
                f"register {operand.file}{index} is beyond the {len(file)} of this kernel"
            )
        view: Array = file[index]
        return view

    def vector_words(self, operand: Operand, count: int) -> list[Array]:
        """Return the views of `count` vector registers from the operand's first."""
        if operand.file not in ("v", "a"):
            raise UnsupportedError(f"operand {operand.name or operand.file} as vector data")
        return [self.register(operand, k) for k in range(count)]

    def full(self, x: Array) -> Array:
        """Return `x` for all waves and lanes."""
        return x if x.shape == (self.count, 64) else np.broadcast_to(x, (self.count, 64))

    # ---- reading -----------------------------------------------------------------------------

    def denormals(self, kind: str) -> tuple[bool, bool]:
        """Return whether inputs, outputs of that type are flushed in the present mode."""
        if kind not in ("f16", "f32", "f64"):
            return False, False
        bits = self.mode >> (4 if kind == "f32" else 6) & 3
        return not bits & 1, not bits & 2

    def read(self, operand: Operand, kind: str, *, keep: bool = False) -> Reader:
        """Return the reader of an operand as a vector: ``(count or 1, 64 or 1)`` of that type.

        Parameters
        ----------
        operand : Operand
            Its ``neg`` and ``abs`` are applied; ``sext`` is left to the caller.
        kind : str
            Key of `DTYPES`.
        keep : bool
            Do not flush denormals even if the mode says so.
        """
        plain = self._plain(operand, kind)
        if self.denormals(kind)[0] and not keep:
            base = plain
            plain = lambda: flush(base())  # noqa: E731
        return signed(plain, operand, kind)

    def _plain(self, operand: Operand, kind: str) -> Reader:
        if operand.file == "const":
            value = constant(operand, kind)[:, None]
            return lambda: value
        if operand.file in ("special", "s"):
            scalar = self.read_scalar(operand, kind, modified=False)
            return lambda: scalar()[:, None]
        dtype, size = DTYPES[kind], size_of(kind)
        low = self.register(operand)
        if size == 4:
            view = low.view(dtype)
            return lambda: view
        if size == 8:
            high = self.register(operand, 1)
            return lambda: join(low, high).view(dtype)
        part = low.view(dtype)[..., :: 4 // size]
        return lambda: part

    def read_scalar(self, operand: Operand, kind: str, *, modified: bool = True) -> Reader:
        """Return the reader of a scalar operand: ``(count,)`` or ``(1,)`` of that type."""
        dtype, size = DTYPES[kind], size_of(kind)
        read: Reader
        if operand.file == "const":
            value = constant(operand, kind)
            read = lambda: value  # noqa: E731
        elif operand.file == "special":
            read = self._special(operand, dtype)
        elif operand.file == "s":
            low = self.register(operand)
            if size == 8:
                high = self.register(operand, 1)
                read = lambda: join(low, high).view(dtype)  # noqa: E731
            elif size == 4:
                view = low.view(dtype)
                read = lambda: view  # noqa: E731
            else:
                part = low.view(dtype)[:: 4 // size]
                read = lambda: part  # noqa: E731
        else:
            raise UnsupportedError(
                f"operand {operand.file}{operand.index} where a scalar is expected"
            )
        return signed(read, operand, kind) if modified else read

    def _special(self, operand: Operand, dtype: type) -> Reader:
        name = operand.name.removeprefix("src_")
        bits: Callable[[], Array]
        if name == "scc":
            bits = lambda: self.scc  # noqa: E731
        elif name in ("vccz", "execz"):
            first = VCC if name == "vccz" else EXEC
            bits = lambda: (self.s[first] | self.s[first + 1]) == 0  # noqa: E731
        else:
            raise UnsupportedError(f"operand {operand.name}")
        return lambda: (
            bits().astype(np.uint32).astype(np.dtype(f"u{np.dtype(dtype).itemsize}")).view(dtype)
        )

    def read_mask(self, operand: Operand) -> Callable[[], Bools]:
        """Return the reader of a 64-bit scalar operand as a mask ``(count, 64)``."""
        if operand.file == "s":
            first = operand.index
            return lambda: self.lanes(first)
        wide = self.read_scalar(operand, "u64")
        return lambda: unpack(np.ascontiguousarray(np.broadcast_to(wide(), (self.count,))))

    def lanes(self, first: int) -> Bools:
        """Return the pair of scalar registers from `first` as lanes ``(count, 64)``."""
        return unpack(join(self.s[first], self.s[first + 1]))

    def pack(self, lanes: Array) -> Array:
        """Return lanes as 64-bit masks ``(count,)``; those that are off in exec give 0."""
        bits = np.packbits(self.full(lanes), axis=1, bitorder="little").view(np.uint64)[:, 0]
        on: Array = bits & join(self.s[EXEC], self.s[EXEC + 1])
        return on

    # ---- writing -----------------------------------------------------------------------------

    def put(self, destination: Array, x: Array, extra: Array | None = None) -> None:
        """Write a vector register under the mask (and a further one)."""
        mask = self.mask
        if extra is not None:
            mask = extra if mask is None else mask & extra
        if mask is None:
            np.copyto(destination, x)
        else:
            np.copyto(destination, x, where=mask)

    def put_waves(self, destination: Array, x: Array) -> None:
        """Write per-wave state of the active waves, ``(..., count)``."""
        if self.all_active:
            np.copyto(destination, x)
        else:
            np.copyto(destination, x, where=self.active)

    def put_registers(self, destination: Array, x: Array) -> None:
        """Write vector registers of the active waves, ``(..., count, 64)``; exec is ignored."""
        if self.all_active:
            np.copyto(destination, x)
        else:
            np.copyto(destination, x, where=self.active[:, None])

    def write(self, operand: Operand, kind: str) -> Writer:
        """Return the writer of a vector destination; values below 32 bits clear the rest."""
        if operand.file not in ("v", "a"):
            raise UnsupportedError(f"vector destination {operand.name or operand.file}")
        size = size_of(kind)
        low = self.register(operand)
        if size == 8:
            high = self.register(operand, 1)

            def write(x: Array) -> None:
                words = np.ascontiguousarray(self.full(x))[..., None].view(np.uint32)
                self.put(low, words[..., 0])
                self.put(high, words[..., 1])

            return write
        if size == 4:
            view = low.view(DTYPES[kind])
            return lambda x: self.put(view, x)
        unsigned = np.dtype(f"u{size}")
        return lambda x: self.put(low, x.view(unsigned))

    def write_scalar(self, operand: Operand, words: int = 1) -> Writer:
        """Return the writer of one or two scalar registers, for values of that size."""
        if operand.file != "s":
            raise UnsupportedError(f"scalar destination {operand.name or operand.file}")
        low = self.register(operand)
        touches_exec = operand.index <= EXEC + 1 and operand.index + words > EXEC
        if words == 1:

            def write_one(x: Array) -> None:
                self.put_waves(low, x.view(np.uint32))
                if touches_exec:
                    self.refresh()

            return write_one
        high = self.register(operand, 1)

        def write_two(x: Array) -> None:
            parts = np.ascontiguousarray(x)[..., None].view(np.uint32)
            self.put_waves(low, parts[..., 0])
            self.put_waves(high, parts[..., 1])
            if touches_exec:
                self.refresh()

        return write_two

    def refresh(self) -> None:
        """Find the mask again after exec or the active waves changed."""
        execs = self.s[EXEC : EXEC + 2]
        if self.all_active and int(execs.min()) == 0xFFFFFFFF:
            self.mask = None
            return
        mask = self.lanes(EXEC)
        if not self.all_active:
            mask &= self.active[:, None]
        self.mask = None if mask.all() else mask

    def poison(self) -> None:
        """Give registers, LDS and scratch what no kernel can use by accident."""
        self.files["v"].fill(REGISTER_POISON)
        self.files["a"].fill(REGISTER_POISON)
        self.s.fill(REGISTER_POISON)
        self.scc[::2] = True
        self.lds.u8.fill(0xFF)
        self.scratch.u8.fill(0xFF)


def signed(read: Reader, operand: Operand, kind: str) -> Reader:
    """Return the reader with the operand's sign modifiers, which act on the sign bit."""
    if not operand.neg and not operand.abs:
        return read
    if kind[0] == "i" or kind == "bf16":
        raise UnsupportedError(f"sign modifier on an operand of type {kind}")
    unsigned = np.dtype(f"u{size_of(kind)}")
    top = np.array(1 << (8 * unsigned.itemsize - 1), unsigned)
    dtype, negate, absolute = DTYPES[kind], operand.neg, operand.abs

    def modified() -> Array:
        bits = read().view(unsigned)
        if absolute:
            bits = bits & ~top
        if negate:
            bits = bits ^ top
        return bits.view(dtype)

    return modified


def join(low: Array, high: Array) -> Array:
    """Return pairs of words as uint64."""
    both = np.empty((*low.shape, 2), np.uint32)
    both[..., 0] = low
    both[..., 1] = high
    pair: Array = both.view(np.uint64)[..., 0]
    return pair


def unpack(masks: Array) -> Bools:
    """Return 64-bit masks ``(waves,)`` as lanes ``(waves, 64)``."""
    octets = masks.view(np.uint8).reshape(len(masks), 8)
    return np.unpackbits(octets, axis=1, bitorder="little").view(bool)


def allow(instruction: Instruction, names: frozenset[str] | set[str]) -> None:
    """Refuse modifiers that are set and not in `names`.

    Raises
    ------
    UnsupportedError
    """
    for name, value in instruction.modifiers.items():
        if (
            name not in names
            and value not in (0, (), "")
            and not (isinstance(value, tuple) and not any(value))
        ):
            raise UnsupportedError(f"modifier {name}:{value}")


def _aligned(size: int) -> Array:
    raw = np.empty(size + 16, np.uint8)
    start = -int(raw.ctypes.data) % 16
    return raw[start : start + size]
