# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An estimate of a kernel's time from its code: which unit is busy longest, and for how long.

Nothing is run or measured.  The text of a kernel is walked once as a wave would execute it alone
(`_Wave`): each loop as often as its counter says, each instruction for the clocks that its unit
takes (`units`), each wait until what was asked for is there.  The waves of a launch are then shared
out over compute units.  The estimate is the longest of these times:

=========  ==========================================================================
matrix     matrix instructions of the busiest compute unit, over the SIMDs that have waves
vector     its vector instructions, likewise
lds        its LDS instructions
l1         its loads and stores, through its vector L1 cache
l2         loads and stores of all waves, from the L2 cache
memory     each tensor once, at the bandwidth of the data sheet
wave       one wave from start to end, times how many sets of waves follow one another
=========  ==========================================================================

What it leaves out: conflicts of LDS banks, caches (no load hits L1, tensors are read once from
memory), uncoalesced and masked accesses, branches that skip code (all of it counts), waves that
wait for each other at barriers, launches, clocks below the peak.  Latencies are assumptions: the
order of published measurements by pointer chasing, one figure for all GPUs.  A loop whose count is
not plain runs as often as the matrix arithmetic of the graph asks for, else once (``unknown_loops``
counts them).  So the estimate is good for comparing two kernels for the same work; it is no time.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..work import Work
from .assembly import Code, Instruction, Loop
from .isa import Kernel
from .machine import SIMDS, WAVE, Limits, Sheet
from .occupancy import occupancy
from .units import Cost, cost

__all__ = ["Estimate", "HotLoop", "estimate", "hot_loop"]

# Clocks until a load's data is there; see the module's text.
LATENCY: Mapping[str, int] = {"memory": 600, "lds": 64, "smem": 200}
_COUNT = re.compile(r"(?P<what>vmcnt|lgkmcnt)\((?P<left>\d+)\)")
_QUEUES = {"memory": "vmcnt", "lds": "lgkmcnt", "smem": "lgkmcnt"}


@dataclass(frozen=True, kw_only=True, slots=True)
class HotLoop:
    """The innermost loop that takes most of a wave's instructions; all code where there is none.

    Attributes
    ----------
    trips : int
        How often a wave executes it; 1 where that is unknown.
    instructions, vector, mfma : int
        Instructions in its text, and how many of them are vector instructions (matrix
        instructions are), and matrix instructions.
    loads : dict of int to int
        Its loads from device memory by the bytes that a lane loads at once; those of the whole
        kernel where it has none.
    """

    trips: int
    instructions: int
    vector: int
    mfma: int
    loads: dict[int, int] = field(default_factory=dict)

    @property
    def mfma_share(self) -> float:
        """Share of matrix instructions among the vector instructions."""
        return self.mfma / self.vector if self.vector else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the data for JSON."""
        return {**asdict(self), "mfma_share": self.mfma_share}


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """What the model says of one launch; an estimate, nothing was measured.

    Attributes
    ----------
    seconds : float
        The longest of the times.
    bound : str
        What takes it.
    times : dict of str to float
        Seconds of each unit, as in the module's table.
    workgroups, waves : int
        Of the launch.
    wave_clocks : int
        From start to end of a wave that is alone.
    arithmetic : float
        Matrix arithmetic that the code does, over what the graph asks for (padding of tiles makes
        it more than 1); 0 without matrix instructions.
    unknown_loops : int
        Loops whose count is not plain.
    """

    seconds: float
    bound: str
    times: dict[str, float]
    workgroups: int
    waves: int
    wave_clocks: int
    arithmetic: float
    unknown_loops: int


def estimate(kernel: Kernel, work: Work, limits: Limits, sheet: Sheet) -> Estimate | None:
    """Return the estimate of one launch; None where its workgroups are known at run time.

    Parameters
    ----------
    kernel : Kernel
        With its code.
    work : Work
        What it is asked for: its bytes are those of its tensors.
    limits : Limits
    sheet : Sheet
        Figures of the product.
    """
    if kernel.workgroups is None or not kernel.code.instructions:
        return None
    per_group = max(1, -(-kernel.threads // WAVE))
    waves = kernel.workgroups * per_group
    trips = _trips(kernel.code, work.matrix_flops / waves, sheet.arch)
    wave = _Wave(kernel.code, sheet.arch, trips)
    wave.run()

    groups = -(-kernel.workgroups // sheet.compute_units)  # of the busiest compute unit
    resident = max(1, min(groups, occupancy(kernel, limits).workgroups_per_cu))
    simds = min(SIMDS, resident * per_group)
    here = groups * per_group
    clocks = {
        "matrix": here * wave.clocks["matrix"] / simds,
        "vector": here * wave.clocks["vector"] / simds,
        "lds": here * wave.clocks["lds"],
        "l1": here * wave.clocks["memory"],
        "l2": waves * wave.moved * WAVE / sheet.l2_bytes,
        "wave": -(-groups // resident) * wave.now,
    }
    times = {unit: count / sheet.clock_hz for unit, count in clocks.items()}
    times["memory"] = work.nbytes / sheet.bytes_per_s
    bound = max(times, key=lambda unit: times[unit])
    return Estimate(
        seconds=times[bound],
        bound=bound,
        times=times,
        workgroups=kernel.workgroups,
        waves=waves,
        wave_clocks=round(wave.now),
        arithmetic=waves * wave.flops / work.matrix_flops if work.matrix_flops else 0.0,
        unknown_loops=sum(loop.trips is None for loop in kernel.code.loops),
    )


def hot_loop(code: Code, arch: str) -> HotLoop:
    """Return what is in the loop that takes most of a wave's instructions."""
    everything = Loop(0, len(code.instructions) - 1, 1)
    runs = {loop: _runs(code, loop) for loop in code.innermost}
    hot = max(runs, key=lambda loop: runs[loop] * (loop.last - loop.first + 1), default=everything)
    body = code.instructions[hot.first : hot.last + 1]
    return HotLoop(
        trips=runs.get(hot, 1),
        instructions=len(body),
        vector=sum(one.name.startswith("v_") for one in body),
        mfma=sum(cost(one.name, arch).unit == "matrix" for one in body),
        loads=_loads(body, arch) or _loads(code.instructions, arch),
    )


def _loads(body: tuple[Instruction, ...], arch: str) -> dict[int, int]:
    costs = [cost(one.name, arch) for one in body if "_load" in one.name]
    return dict(sorted(Counter(c.lane_bytes for c in costs if c.unit == "memory").items()))


def _runs(code: Code, loop: Loop) -> int:
    count = 1
    for around in code.around(loop.first):
        count *= around.trips or 1
    return count


def _trips(code: Code, flops: float, arch: str) -> dict[Loop, int]:
    """Return how often each loop runs; one of unknown count as often as a wave's flops ask for."""
    trips = {loop: loop.trips or 1 for loop in code.loops}
    for loop in code.innermost:
        body = code.instructions[loop.first : loop.last + 1]
        once = sum(cost(one.name, arch).flops for one in body)
        if loop.trips is None and once:
            trips[loop] = max(1, round(flops / (once * _runs(code, loop))))
    return trips


class _Wave:
    """A wave alone on a compute unit: a clock, and when what it asked for is there."""

    def __init__(self, code: Code, arch: str, trips: Mapping[Loop, int]) -> None:
        self.code, self.arch, self.trips = code, arch, trips
        self.now = 0.0
        self.flops, self.moved = 0.0, 0.0
        self.clocks: dict[str, float] = defaultdict(float)
        self.free: dict[str, float] = defaultdict(float)  # when a unit takes the next one
        self.asked: dict[str, deque[float]] = {"vmcnt": deque(), "lgkmcnt": deque()}
        self.times = 1.0  # how often the instruction at hand is executed

    def run(self) -> None:
        """Execute all code."""
        self._range(0, len(self.code.instructions) - 1, None)
        self.now = max(self.now, self.free["matrix"])

    def _range(self, first: int, last: int, inside: Loop | None) -> None:
        at = first
        while at <= last:
            starts = (one for one in self.code.loops if one.first == at)
            loop = next((one for one in starts if inside is None or inside.holds(one)), None)
            if loop is None:
                self._one(self.code.instructions[at])
                at += 1
            else:
                self._loop(loop)
                at = loop.last + 1

    def _loop(self, loop: Loop) -> None:
        """Execute a loop: its first iteration, a second, and all others like the second."""
        trips, outside = self.trips[loop], self.times
        self._range(loop.first, loop.last, loop)
        if trips > 1:
            begin, self.times = self.now, outside * (trips - 1)
            self._range(loop.first, loop.last, loop)
            self._skip((trips - 2) * (self.now - begin))
        self.times = outside

    def _skip(self, clocks: float) -> None:
        """Let time pass in which all goes on as before."""
        self.now += clocks
        self.free = defaultdict(float, {unit: at + clocks for unit, at in self.free.items()})
        self.asked = {what: deque(at + clocks for at in q) for what, q in self.asked.items()}

    def _one(self, one: Instruction) -> None:
        if one.name == "s_waitcnt":
            self._wait(" ".join(one.operands))
        elif one.name == "s_nop":
            self.now += 4 * (int(one.operands[0], 0) + 1)
        else:
            self._execute(cost(one.name, self.arch))

    def _execute(self, taken: Cost) -> None:
        unit = taken.unit
        self.clocks[unit] += taken.clocks * self.times
        self.flops += taken.flops * self.times
        if unit == "matrix":  # the next one waits for it, other instructions do not
            self.now = max(self.now, self.free[unit])
            self.free[unit] = self.now + taken.clocks
            self.now += 4
        elif unit in _QUEUES:
            self.moved += taken.lane_bytes * self.times if unit == "memory" else 0
            self.free[unit] = max(self.now, self.free[unit]) + taken.clocks
            self.asked[_QUEUES[unit]].append(self.free[unit] + LATENCY[unit])
            self.now += 4
        else:
            self.now += taken.clocks

    def _wait(self, text: str) -> None:
        for match in _COUNT.finditer(text):
            queue = self.asked[match["what"]]
            while len(queue) > int(match["left"]):
                self.now = max(self.now, queue.popleft())
