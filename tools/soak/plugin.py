"""Mutated FlatBuffers through the C interface, in a host in C (``tests/plugin/host.c``).

The host reads a buffer from a pipe, makes every call that takes one, and answers with a line; if
it dies, the last buffer is the one.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from struct import Struct

from hipdnn_iree.graph_api.formats.flatbuffer.engine_messages import EngineConfig, encode_config
from hipdnn_iree.hipdnn_plugin.library import LIBRARY
from hipdnn_iree.hipdnn_plugin.serving import ENGINE_ID
from hipdnn_iree.jit.settings import settings

from tools.soak.attack import BrokenError, Budget, Result, limit_memory, many
from tools.soak.graph_bytes import make

__all__ = ["replay", "run"]

_SOURCE = Path(__file__).resolve().parents[2] / "tests" / "plugin" / "host.c"
_LENGTH = Struct("<I")


class Host:
    """A host in C, started again when it has ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "host"
        words = [
            "cc",
            "-std=gnu11",
            "-O1",
            "-o",
            str(self.program),
            str(_SOURCE),
            "-ldl",
            "-lpthread",
        ]
        subprocess.run(words, check=True, timeout=300)
        self.library = LIBRARY.find(settings())
        self.config = folder / "config"
        self.config.write_bytes(encode_config(EngineConfig(engine_id=ENGINE_ID)))
        self.slowest_s = self.size_mib = 0.0

    @staticmethod
    def environ(**extra: str) -> dict[str, str]:
        """Return the environment of a host that is not started by Python."""
        return {**{k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}, **extra}

    def start(self) -> None:
        """Start a process that waits for buffers."""
        read, write = os.pipe()
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        arguments = ["local", "fuzz", str(self.config), "/dev/stdin", f"/dev/fd/{write}"]
        self.process = subprocess.Popen(
            [self.program, self.library, *arguments],
            stdin=subprocess.PIPE,
            stdout=self.errors,
            stderr=self.errors,
            env=self.environ(),
            pass_fds=(write,),
        )
        os.close(write)
        self.answers = os.fdopen(read, encoding="utf-8", errors="replace")

    def ask(self, data: bytes) -> str:
        """Hand a buffer over and return the line of the answer; empty if the host has ended."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(_LENGTH.pack(len(data)) + data)
            self.process.stdin.flush()
        except BrokenPipeError:
            return ""
        return self.answers.readline()

    def judge(self, data: bytes) -> Iterator[str]:
        """Yield what the plugin makes of a buffer."""
        line = self.ask(data)
        if not line:
            code = self.process.wait(60)
            self.errors.seek(0)
            said = self.errors.read()[-2000:].decode(errors="replace")
            self.start()
            raise BrokenError(f"the host ended with {code}: {said}")
        status, engines, worst, seconds, kib, *text = line.rstrip("\n").split(" ", 5)
        self.slowest_s, self.size_mib = float(seconds), int(kib) / 1024
        if worst != "0" or int(status) not in ((0, 2) if data else (1,)):
            raise BrokenError(f"status {status}, {worst}: {' '.join(text):.300}")
        yield "served" if engines == "1" else "damaged" if status != "0" else "not served"


def _attack(budget: Budget, seed: int, cases: list[bytes] | None = None) -> Result:
    limit_memory()
    host = Host(budget.scratch)
    host.start()
    given = iter(cases or ())
    spent = 0.0

    def clock() -> float:
        """Return the sum of the slowest calls of all buffers: a difference is the last one's."""
        nonlocal spent
        spent += host.slowest_s
        host.slowest_s = 0.0
        return spent

    def next_case(rng: Random) -> bytes:
        return next(given) if cases else make(rng)

    return many(budget, seed, next_case, host.judge, size=lambda: host.size_mib, clock=clock)


def run(budget: Budget, seed: int) -> Result:
    """Attack until the time is over."""
    return _attack(budget, seed)


def replay(budget: Budget, case: bytes) -> Result:
    """Try one input."""
    budget.seconds = 0
    return _attack(budget, 0, [case])
