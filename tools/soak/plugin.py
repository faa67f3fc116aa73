# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutated FlatBuffers through the C interface, in a host in C (``tools/host``).

The host reads a buffer from a pipe, makes every call that takes one, and answers with a line; if
it dies, the last buffer is the one.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from struct import Struct

from tools.host.driver import Answering, EndedError, Host, engine_config
from tools.soak.attack import BrokenError, Budget, Result, limit_memory, many
from tools.soak.graph_bytes import make

__all__ = ["replay", "run"]

_LENGTH = Struct("<I")


class _Asked:
    """The host, and what its last answer says of itself."""

    def __init__(self, budget: Budget) -> None:
        config = budget.scratch / "config"
        config.write_bytes(engine_config())
        host = Host(budget.scratch)
        self.host = Answering(host, "fuzz", config, "/dev/stdin")
        self.size_mib = self.spent_s = 0.0

    def judge(self, data: bytes) -> Iterator[str]:
        """Yield what the plugin makes of a buffer."""
        try:
            line = self.host.ask(_LENGTH.pack(len(data)) + data)
        except EndedError as error:
            raise BrokenError(str(error)) from error
        status, engines, worst, seconds, kib, *text = line.split(" ", 5)
        self.spent_s += float(seconds)  # of the slowest call: a difference is the last one's
        self.size_mib = int(kib) / 1024
        if worst != "0" or int(status) not in ((0, 2) if data else (1,)):
            raise BrokenError(f"status {status}, {worst}: {' '.join(text):.300}")
        yield "served" if engines == "1" else "damaged" if status != "0" else "not served"


def _attack(budget: Budget, seed: int, cases: list[bytes] | None = None) -> Result:
    limit_memory()
    asked, given = _Asked(budget), iter(cases or ())

    def next_case(rng: Random) -> bytes:
        return next(given) if cases else make(rng)

    return many(
        budget,
        seed,
        next_case,
        asked.judge,
        size=lambda: asked.size_mib,
        clock=lambda: asked.spent_s,
    )


def run(budget: Budget, seed: int) -> Result:
    """Attack until the time is over."""
    return _attack(budget, seed)


def replay(budget: Budget, case: bytes) -> Result:
    """Try one input."""
    budget.seconds = 0
    return _attack(budget, 0, [case])
