# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a process of a sweep is asked: a case for some engines on one target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .suite import Case

if TYPE_CHECKING:
    from .checking import Data

__all__ = ["CaseTask", "SweepOptions"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepOptions:
    """What is done with every case.

    Attributes
    ----------
    check : bool
        Hold results against the reference.
    data : str
        Kind of the inputs (`checking.Data`).
    perf : bool
        Time what is right.
    seconds : float
        Of timing, for each engine of a case, about.
    realtime : bool
        Time in real-time priority (`timing.undisturbed`).
    emulate : bool
        Execute what is for gfx9 by emulation.
    instructions : bool
        Count the instructions of gfx9 kernels.
    forms : bool
        Write each graph and read it again, in every form, before it is built.
    trace : bool
        Tell what happens when (`jit.trace`) with each answer.
    devices : tuple of int
        GPUs of this machine that share the work; empty in a cluster, where each worker's
        settings say which one it has.
    settings : mapping of str to str
        Settings given on the command line (`jit.settings.scope`).
    """

    check: bool = True
    data: Data = "normal"
    perf: bool = False
    seconds: float = 0.2
    realtime: bool = False
    emulate: bool = False
    instructions: bool = False
    forms: bool = False
    trace: bool = False
    devices: tuple[int, ...] = (0,)
    settings: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return what decides what stands in a row."""
        return {
            "check": self.check,
            "data": self.data,
            "perf": self.perf,
            "seconds": self.seconds if self.perf else None,
            "emulate": self.emulate,
            "settings": dict(self.settings),
            **{name: True for name in ("realtime", "instructions", "forms") if getattr(self, name)},
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseTask:
    """A case in one type, for some engines on one target.

    Attributes
    ----------
    case : Case
        With one type.
    engines : tuple of str
        As on the command line (`contestants.contestant`).
    target : str
    threads : int
        Of each engine; 0: its own choice.
    options : SweepOptions
    timed : bool
        Whether the engines are timed in turns, in one part; else they are built and checked one
        after the other, a part for each.
    visit, visits : int
        Which of how many times it is timed at: each is given its share of the seconds.
    known : mapping of str to str
        Engines that have a row already, with the digest of its graph: nothing is done for them
        unless the case has become another graph.
    irs : mapping of str to str
        Engines that have a right row of other versions, with the digest of its IR: nothing is
        done for them either, unless they make other IR now.
    """

    case: Case
    engines: tuple[str, ...]
    target: str
    threads: int
    options: SweepOptions
    timed: bool = False
    visit: int = 0
    visits: int = 1
    known: Mapping[str, str] = field(default_factory=dict)
    irs: Mapping[str, str] = field(default_factory=dict)

    @property
    def parts(self) -> int:
        """How many answers there are."""
        return 1 if self.timed else len(self.engines)

    @property
    def dtype(self) -> str:
        """The type, in hipDNN's spelling."""
        return self.case.dtypes[0].json
