# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Execution of one kernel: what a HIP library calls.

The interface::

    memory = Memory(limit)                                  # one per device
    x = memory.allocate(4096); memory.view(x, 4096)[:] = ...
    image = memory.allocate(len(loaded), "code", read_only=True)
    launch(kernel, (gx, gy, gz), (bx, by, bz), kernarg, memory,
           dynamic_lds=0, checks=True, limits=Limits())     # -> Statistics

`kernarg` are the bytes of the arguments as the metadata of the kernel places them (hidden arguments
too, which the caller fills in); shorter ones are padded with poison.  The launch allocates them and
the dispatch packet in `memory`, and frees them.  It returns when all work items have ended;
whatever is wrong is an `EmulationError` whose message names kernel, address and instruction.
Memory then holds what had been written until there; the process may go on.

All waves of a batch of workgroups advance together.  Waves that diverge are masked, and those with
the lowest program counter run first, so that they meet again where their paths join.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .errors import EmulationError, UnsupportedError
from .indexing import indexed
from .instruction import Instruction
from .instructions import BUILDERS
from .memory import Memory
from .program import USER_SGPRS, Limits, Program
from .races import MOST_WAVES, GlobalRaces, LdsRaces
from .state import EXEC, LANES, VCC
from .steps import Control, Machine, Plain, Wait
from .steps import Memory as MemoryStep
from .vmem import SCRATCH_DESCRIPTOR
from .waits import Waits, register_ids

__all__ = ["Statistics", "launch"]

BATCH_BYTES = 4 << 20  # of registers, scratch and LDS in one of several batches, and more of logs
ENDED, BARRIER = 1 << 62, 1 << 61  # program counters of waves that ended, or wait
_ARGUMENT_PADDING = 64  # scalar loads of several words may reach behind the last argument
_IMPLICIT = {
    "v_div_fmas_f32": VCC,
    "v_div_fmas_f64": VCC,
    "s_cbranch_vccz": VCC,
    "s_cbranch_vccnz": VCC,
}


@dataclass(frozen=True)
class Statistics:
    """What a launch did.

    Attributes
    ----------
    waves : int
    steps : int
        Instructions, counted once for all waves that executed them together.
    executed : frozenset of int
        The addresses that were reached.
    """

    waves: int
    steps: int
    executed: frozenset[int]


def launch(
    kernel: Program,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    kernarg: bytes,
    memory: Memory,
    *,
    dynamic_lds: int = 0,
    checks: bool = True,
    limits: Limits | None = None,
) -> Statistics:
    """Execute a kernel to its end.

    Parameters
    ----------
    kernel : Program
    grid, block : tuple of int
        Workgroups, and work items of each, along x, y and z.
    kernarg : bytes
    memory : Memory
    dynamic_lds : int
        Bytes of LDS of a workgroup beside those of the descriptor.
    checks : bool
        Whether races and missing waits are looked for.
    limits : Limits, optional

    Returns
    -------
    Statistics

    Raises
    ------
    EmulationError
        With kernel, address and instruction.
    UnsupportedError
        Likewise, for what is not executed.
    """
    allowed = limits or Limits()
    threads = int(np.prod(block))
    if min(*grid, *block) < 1 or threads > 1024:
        raise EmulationError(f"{kernel.name}: grid {grid} of workgroups {block} cannot be launched")
    lds = kernel.lds_size + dynamic_lds
    most = min(allowed.lds, (160 if kernel.target == "gfx950" else 64) * 1024)
    if lds > most:
        raise EmulationError(
            f"{kernel.name}: {lds} bytes of LDS per workgroup, the limit is {most}"
        )
    size = max(len(kernarg), kernel.kernarg_size) + _ARGUMENT_PADDING
    arguments = memory.allocate(size, "kernel arguments")
    packet = memory.allocate(64, "dispatch packet")
    try:
        memory.view(arguments, len(kernarg))[:] = np.frombuffer(kernarg, np.uint8)
        memory.view(packet, 64)[:] = np.frombuffer(
            _packet(kernel, grid, block, lds, arguments), np.uint8
        )
        for address in (arguments, packet):
            memory.protect(address)
        run = _Run(kernel, grid, block, memory, (arguments, packet), lds, checks, allowed)
        with np.errstate(all="ignore"):
            return run.all_groups()
    except EmulationError as error:  # races are found at barriers, of no instruction in particular
        if str(error).startswith(kernel.name):
            raise
        raise type(error)(f"{kernel.name}: {error}") from error
    finally:
        memory.free(arguments)
        memory.free(packet)


def _packet(
    kernel: Program,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    lds: int,
    arguments: int,
) -> bytes:
    """Return the AQL packet of the dispatch, which kernels may read."""
    items = [g * b for g, b in zip(grid, block, strict=True)]
    head = struct.pack("<HHHHHH", 2, 3, *block, 0)
    return head + struct.pack("<IIIIIQQQQ", *items, kernel.scratch_size, lds, 0, arguments, 0, 0)


@dataclass(frozen=True, slots=True)
class _Step:
    """An instruction made ready."""

    run: Callable[[], None] | None
    special: Control | Wait | MemoryStep | None
    touched: frozenset[int]
    read: frozenset[int]
    written: frozenset[int]
    next: int
    instruction: Instruction


class _Run:
    """One launch."""

    def __init__(
        self,
        kernel: Program,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        memory: Memory,
        addresses: tuple[int, int],
        lds: int,
        checks: bool,
        limits: Limits,
    ) -> None:
        self.kernel, self.grid, self.block = kernel, grid, block
        self.arguments, self.packet = addresses
        self.memory, self.limits = memory, limits
        self.threads = int(np.prod(block))
        self.waves_per_group = -(-self.threads // 64)
        groups = int(np.prod(grid))
        registers = (
            max(kernel.vgprs, 1) * (1 if kernel.accum_offset else 2) * 256
            + 64 * kernel.scratch_size
        )
        each = self.waves_per_group * registers + lds
        if each > limits.bytes:
            raise EmulationError(
                f"{kernel.name}: {each} bytes of registers, scratch and LDS per workgroup,"
                f" the limit is {limits.bytes}"
            )
        most = MOST_WAVES // self.waves_per_group
        if groups > most:  # those of a small launch run together, which tells equal values
            most = min(most, BATCH_BYTES // each)
        most = max(1, min(most, limits.bytes // each))
        self.per_batch = -(-groups // -(-groups // most))  # batches of like size: ended waves cost
        count = self.per_batch * self.waves_per_group
        self.m = m = Machine(kernel, count, self.per_batch, memory, lds)
        self.global_group = np.zeros(count, np.int64)
        if checks:
            m.waits = Waits(count)
            m.global_races = GlobalRaces(m.waits, self.global_group)
            if self.waves_per_group > 1 and lds:
                m.lds_races = LdsRaces(m.waits, self.global_group, m.lds.u8.size, m.lds_stride)
        self.tables: dict[int, dict[int, _Step]] = {}
        self.steps = 0

    def all_groups(self) -> Statistics:
        """Run all workgroups, a batch at a time."""
        groups = int(np.prod(self.grid))
        for first in range(0, groups, self.per_batch):
            self._start(np.arange(first, first + self.per_batch), groups)
            self._schedule()
            if self.m.lds_races is not None:
                self.m.lds_races.flush()
                self.m.lds_races.reset()
            if self.m.global_races is not None:
                self.m.global_races.end_batch()
        executed = frozenset(address for table in self.tables.values() for address in table)
        return Statistics(groups * self.waves_per_group, self.steps, executed)

    # ---- starting ----------------------------------------------------------------------------

    def _start(self, groups: np.ndarray, total: int) -> None:
        """Give every wave poisoned state with the documented initial registers."""
        m, kernel = self.m, self.kernel
        m.poison()
        per = self.waves_per_group
        self.global_group[:] = np.repeat(groups, per)
        local = np.arange(len(groups))
        m.group[:] = np.repeat(local, per)
        m.wave[:] = np.tile(np.arange(per), len(groups))
        m.lds_base[:] = (m.group * m.lds_stride)[:, None]
        present = self.global_group < total
        self.pcs = np.where(present, kernel.entry, ENDED)
        m.modes[:] = kernel.float_mode | (kernel.dx10_clamp << 8) | (kernel.ieee_mode << 9)
        m.active[:], m.all_active = True, True
        if m.waits is not None:
            m.waits.reset()
        thread = m.wave[:, None] * 64 + LANES
        bx, by, _ = self.block
        xyz = [thread % bx, thread // bx % by, thread // (bx * by)][: kernel.workitem_ids + 1]
        if kernel.target == "gfx908":
            for axis, along in enumerate(xyz):
                m.files["v"][axis] = along
        else:
            packed = np.zeros_like(thread)
            for axis, along in enumerate(xyz):
                packed |= along << (10 * axis)
            m.files["v"][0] = packed
        bits = np.packbits(thread < self.threads, axis=1, bitorder="little")
        m.s[EXEC : EXEC + 2] = bits.view(np.uint32).T
        self._scalars()

    def _scalars(self) -> None:
        kernel, m = self.kernel, self.m
        values: dict[str, list[int]] = {
            "private_segment_buffer": [0, 0, 0xFFFFFFFF, SCRATCH_DESCRIPTOR],
            "dispatch_ptr": [self.packet & 0xFFFFFFFF, self.packet >> 32],
            "kernarg_segment_ptr": [self.arguments & 0xFFFFFFFF, self.arguments >> 32],
            "flat_scratch_init": [0, 0],
            "private_segment_size": [kernel.scratch_size],
        }
        at = 0
        for name, size in USER_SGPRS.items():
            if name in kernel.user_sgprs:
                for k, x in enumerate(values.get(name, [])):
                    m.s[at + k] = x
                at += size
        length, offset = kernel.kernarg_preload
        if length:
            words = self.memory.view(self.arguments + 4 * offset, 4 * length).view(np.uint32)
            m.s[at : at + length] = words[:, None]
        at = max(at + length, kernel.user_sgpr_count)
        gx, gy, _ = self.grid
        group = self.global_group
        ids = (group % gx, group // gx % gy, group // (gx * gy))
        for wanted, along in zip(kernel.workgroup_ids, ids, strict=True):
            if wanted:
                m.s[at] = along
                at += 1
        at += kernel.workgroup_info
        if kernel.private_segment_wave_offset:
            m.s[at] = 0

    # ---- running -----------------------------------------------------------------------------

    def _schedule(self) -> None:
        """Interpret until every wave of the batch has ended."""
        m, waits = self.m, self.m.waits
        pending = waits.pending if waits is not None else set()
        budget = self.steps + self.limits.instructions
        pc, stop = 0, -1
        table: dict[int, _Step] = {}
        while True:
            if pc >= stop:
                pc = self._select()
                if pc < 0:
                    return
                later = self.pcs[~m.active]
                later = later[later < BARRIER]
                stop = int(later.min()) if later.size else ENDED
                table = self.tables.setdefault(m.mode, {})
            step = table.get(pc)
            if step is None:
                step = table[pc] = self._make(pc)
            self.steps += 1
            try:
                if pending and not step.touched.isdisjoint(pending):
                    self._check(step)
                if step.run is not None:
                    step.run()
                    pc = step.next
                    if pc >= stop:
                        self.pcs[m.active] = pc
                    continue
                special = step.special
                if isinstance(special, MemoryStep):
                    m.text = f"{step.instruction.mnemonic} at {pc:#x}"
                    if waits is not None:
                        m.ticket = waits.issue(
                            special.counters, special.ordered, m.some, step.written, m.text
                        )
                    special.run()
                    pc = step.next
                    if pc >= stop:
                        self.pcs[m.active] = pc
                    continue
                if isinstance(special, Wait):
                    if waits is not None:
                        waits.wait(special.limits, m.some)
                    pc = step.next
                    if pc >= stop:
                        self.pcs[m.active] = pc
                    continue
                assert special is not None
                if self.steps > budget:
                    raise EmulationError(
                        f"more than {self.limits.instructions} instructions,"
                        " the limit of one batch of workgroups"
                    )
                pc, leave = self._control(special, step, pc)
                if leave:
                    stop = -1
            except UnsupportedError as error:
                raise UnsupportedError(self._where(step.instruction) + str(error)) from None
            except EmulationError as error:
                raise EmulationError(self._where(step.instruction) + str(error)) from None

    def _control(self, control: Control, step: _Step, pc: int) -> tuple[int, bool]:
        """Execute a change of control; return the next address, and whether to select anew."""
        m, active = self.m, self.m.active
        if control.kind == "branch":
            if control.taken is None:
                if m.all_active:
                    return control.target, False
                self.pcs[active] = control.target
                return pc, True
            taken = np.broadcast_to(control.taken(), (m.count,))
            if m.all_active:
                if taken.all():
                    return control.target, False
                if not taken.any():
                    return step.next, False
            self.pcs[active] = np.where(taken, control.target, step.next)[active]
            return pc, True
        if control.kind == "end":
            self.pcs[active] = ENDED
        elif control.kind == "barrier":
            self.pcs[active] = BARRIER + step.next
        elif control.kind == "jump":
            assert control.taken is not None
            self.pcs[active] = np.broadcast_to(control.taken(), (m.count,))[active]
        else:
            assert control.taken is not None
            control.taken()
            self.pcs[active] = step.next
        return pc, True

    def _select(self) -> int:
        """Choose the waves to run next: lowest address, one mode; return -1 at the end."""
        m, pcs = self.m, self.pcs
        while not (ready := pcs < BARRIER).any():
            waiting = pcs < ENDED
            if not waiting.any():
                return -1
            m.barrier()
            pcs[waiting] -= BARRIER  # nothing can run before its workgroup's barrier: all are there
        pc = int(pcs[ready].min())
        np.equal(pcs, pc, out=m.active)
        modes = m.modes[m.active]
        m.mode = int(modes[0])
        if (modes != m.mode).any():
            m.active &= m.modes == m.mode
        m.all_active = bool(m.active.all())
        m.refresh()
        return pc

    # ---- instructions ------------------------------------------------------------------------

    def _where(self, instruction: Instruction) -> str:
        return f"{self.kernel.name} at {instruction.address:#x}, {instruction.mnemonic}: "

    def _check(self, step: _Step) -> None:
        waits = self.m.waits
        assert waits is not None
        special = step.special
        waits.use(
            step.read,
            step.written,
            special.counters if isinstance(special, MemoryStep) else (),
            special.ordered if isinstance(special, MemoryStep) else False,
            self.m.some,
        )

    def _make(self, pc: int) -> _Step:
        instruction = self.kernel.instructions.get(pc)
        if instruction is None:
            raise EmulationError(f"{self.kernel.name} at {pc:#x}: no instruction there")
        builder = BUILDERS.get(instruction.mnemonic)
        if builder is None:
            raise UnsupportedError(self._where(instruction) + "this instruction is not emulated")
        try:
            instruction = indexed(instruction, self.m.mode)
            made = builder(self.m, instruction)
        except UnsupportedError as error:
            raise UnsupportedError(self._where(instruction) + str(error)) from None
        except EmulationError as error:
            raise EmulationError(self._where(instruction) + str(error)) from None
        after = pc + instruction.size
        sources: set[int] = set()
        writes: frozenset[int] = frozenset()
        loads = isinstance(made, MemoryStep) and made.loads
        for k, operand in enumerate(instruction.operands):
            if operand.file in ("v", "a", "s"):
                ids = register_ids(operand.file, operand.index, operand.count)
                if k == 0 and loads:
                    writes = frozenset(ids)
                else:
                    sources.update(ids)
        if instruction.mnemonic in _IMPLICIT:
            sources.update(register_ids("s", _IMPLICIT[instruction.mnemonic], 2))
        run, special = (made.run, None) if isinstance(made, Plain) else (None, made)
        read = frozenset(sources)
        touched = read | writes if writes else read
        return _Step(run, special, touched, read, writes, after, instruction)
