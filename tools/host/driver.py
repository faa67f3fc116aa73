# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A host of engine plugins in C, as hipDNN's backend is one: built, run, and given its files.

Tests, benchmarks and attacks use it (``host.h`` says what it does); ``backend.c`` puts hipDNN's own
functions on top of it.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from hipdnn_iree.graph_api.formats.flatbuffer.engine_messages import EngineConfig, encode_config
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.hipdnn_plugin import messages
from hipdnn_iree.hipdnn_plugin.library import LIBRARY
from hipdnn_iree.hipdnn_plugin.serving import ENGINE_ID
from hipdnn_iree.jit.pipeline import signature_of
from hipdnn_iree.jit.runtime.arrays import aligned_bytes, pack, unpack, view
from hipdnn_iree.jit.runtime.elements import is_packed
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.signature import ArgSpec
from hipdnn_iree.provider.reference import expect
from hipdnn_iree.provider.reference.inputs import random_inputs
from hipdnn_iree.provider.sweep.gaps import outside
from hipdnn_iree.provider.verify import compare

HERE = Path(__file__).parent
ERAS = ("n25", "m26", "new")
"""Of hipDNN, as the host plays it: November 2025, spring 2026, the newest."""
_UNWRITTEN = 0xA5  # in every byte of an output before the first call
_FLAGS = ("-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{HERE}")
SHARED = ("-fPIC", "-shared", "-fvisibility=hidden")
_SCENARIOS = ("main.c", "plugins.c", "memory.c", "graphs.c", "orders.c", "life.c")
_IN_PYTHON = """
import ctypes, sys
words = [word.encode() for word in sys.argv[1:]]
status = ctypes.CDLL(sys.argv[1]).host_main(len(words), (ctypes.c_char_p * len(words))(*words))
sys.exit(status)
"""


def compile_c(out: Path, *words: str | Path) -> Path:
    """Compile C; a machine without a C compiler cannot run a host."""
    command = ["cc", *_FLAGS, *words, "-o", out, "-ldl", "-lpthread", "-lm"]
    subprocess.run([str(word) for word in command], check=True, timeout=300)
    return out


def build_backend(out: Path, era: str = "new") -> Path:
    """Compile the stand-in for hipDNN's own library, of November 2025 (``n25``) or the newest."""
    flags = (*SHARED, *(("-DOLD",) if era == "n25" else ()))
    return compile_c(out, *flags, HERE / "backend.c", HERE / "plugins.c")


class Host:
    """Runs scenarios of the host and returns the facts that they print.

    Parameters
    ----------
    folder : Path
        Of the program ``host``, and of the same as a library for hosts in Python, ``host.so``.
    library : Path, optional
        The plugin, unless a call names others; by default the one of this package.
    """

    def __init__(self, folder: Path, library: Path | None = None) -> None:
        sources = [HERE / name for name in _SCENARIOS]
        self.program = compile_c(folder / "host", "-DPROGRAM", *sources)
        self.shared = compile_c(folder / "host.so", *SHARED, *sources)
        self.library = library or LIBRARY.find(settings())

    @staticmethod
    def environ(**extra: str) -> dict[str, str]:
        """Return the environment of a host that is not started by Python."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "HIPDNN_LOG"))}
        return {**kept, **extra}

    def words(
        self,
        *scenario: object,
        era: str = "new",
        library: Path | str | None = None,
        python: Path | str | None = None,
    ) -> list[str]:
        """Return the command of a scenario and its arguments, in a process of C or of a Python."""
        begin = (python, "-I", "-c", _IN_PYTHON, self.shared) if python else (self.program,)
        return [str(w) for w in (*begin, library or self.library, era, *scenario)]

    def process(
        self,
        scenario: str,
        *arguments: object,
        env: Mapping[str, str] | None = None,
        timeout: float = 300,
        **how: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Run a scenario to its end; ``how`` as in `words`."""
        return subprocess.run(
            self.words(scenario, *arguments, **how),
            env=self.environ(**(env or {})),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def run(
        self,
        scenario: str,
        *arguments: object,
        env: Mapping[str, str] | None = None,
        timeout: float = 300,
        **how: Any,
    ) -> dict[str, str]:
        """Run a scenario to its end and return its facts."""
        done = self.process(scenario, *arguments, env=env, timeout=timeout, **how)
        assert done.returncode == 0, f"{done.returncode}: {done.stdout}\n{done.stderr}"
        assert not done.stderr, done.stderr
        pairs = (line.partition(" ") for line in done.stdout.splitlines())
        facts: dict[str, str] = {}
        for key, _, value in pairs:
            facts[key] = f"{facts[key]}\n{value}" if key in facts else value
        return facts


class EndedError(Exception):
    """The host has ended; what it said."""


class Answering:
    """A scenario that answers each question with a line; it is started again when it has ended.

    Parameters
    ----------
    host : Host
    scenario : str
    arguments : object
        Of the scenario; the file of the answers comes after them.
    """

    def __init__(self, host: Host, scenario: str, *arguments: object, **options: Any) -> None:
        self._words = partial(host.words, scenario, *arguments, **options)
        self._environ = host.environ()
        self._start()

    def _start(self) -> None:
        read, write = os.pipe()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            self._words(f"/dev/fd/{write}"),
            stdin=subprocess.PIPE,
            stdout=self._said,
            stderr=self._said,
            env=self._environ,
            pass_fds=(write,),
        )
        os.close(write)
        self._answers = os.fdopen(read, encoding="utf-8", errors="replace")

    def ask(self, question: bytes) -> str:
        """Return the answer.

        Raises
        ------
        EndedError
            If there is none.
        """
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(question)
            self._process.stdin.flush()
        line = self._answers.readline().rstrip("\n")
        if line:
            return line
        said = self.close()
        self._start()
        raise EndedError(said)

    def close(self) -> str:
        """End the process, and return how it has ended."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        code = self._process.wait(60)
        self._answers.close()
        with self._said:
            self._said.seek(0)
            said = self._said.read()[-2000:].decode(errors="replace")
        return f"the host ended with {code}: {said}" if code else ""


def engine_config(knobs: Mapping[str, int | str] | None = None, engine: int = ENGINE_ID) -> bytes:
    """Return an ``EngineConfig`` buffer."""
    return encode_config(EngineConfig(engine_id=engine, knobs=dict(knobs or {})))


@dataclass
class Job:
    """A graph in files, as a host needs it.

    Attributes
    ----------
    graph : FrozenGraph
    arguments : tuple of Path
        Of the graph, the configuration and the list of buffers.
    outputs : dict
        File of each output by uid.
    inputs : dict
        Operands by uid.
    """

    graph: FrozenGraph
    arguments: tuple[Path, Path, Path]
    outputs: dict[int, Path]
    inputs: dict[int, np.ndarray[Any, Any]]

    def results(self) -> dict[int, np.ndarray[Any, Any]]:
        """Return what the host has written, in logical dims."""
        found = {}
        for uid, spec in zip(self.graph.outputs, signature_of(self.graph).args, strict=False):
            memory = aligned_bytes(spec.nbytes)
            memory[:] = np.fromfile(self.outputs[uid], np.uint8)
            packed = is_packed(spec.data_type)
            found[uid] = unpack(spec, memory) if packed else view(memory, spec)
            assert (memory[outside(spec)] == _UNWRITTEN).all(), f"between the elements of {uid}"
        return found

    def verify(self) -> None:
        """Compare with the reference."""
        report = compare(self.graph, self.results(), expect(self.graph, self.inputs))
        assert report.ok, str(report)


def write_job(
    folder: Path,
    data: bytes,
    *,
    knobs: Mapping[str, int | str] | None = None,
    engine: int = ENGINE_ID,
    skew: int | Sequence[int] = 0,
    seed: int = 0,
    graph: FrozenGraph | None = None,
) -> Job:
    """Put a graph's bytes, operands and buffer list into files of a new folder.

    ``skew`` is the distance in bytes of each buffer from a multiple of 64, or of one after the
    other; ``graph`` that of the buffers, where it is not the one that is decoded.  Buffers lie at
    the begin and at the end of their pages in turn.
    """
    folder.mkdir()
    graph = graph or messages.graph(data)
    inputs = random_inputs(graph, seed)
    skews = cycle((skew,) if isinstance(skew, int) else skew)
    outputs = {}
    lines: list[str] = []
    for uid, spec in zip((*graph.outputs, *graph.inputs), signature_of(graph).args, strict=True):
        file = folder / f"{uid}.bin"
        place = "end" if (seed + len(lines)) % 2 else "start"
        if spec.output:
            outputs[uid] = file
        else:
            memory(inputs[uid], spec).tofile(file)
        ways = f"-\t{file}" if spec.output else f"{file}\t-"
        lines.append(f"{uid}\t{spec.nbytes}\t{next(skews)}\t{place}\t{ways}")
    paths = folder / "graph", folder / "config", folder / "job"
    paths[0].write_bytes(data)
    paths[1].write_bytes(engine_config(knobs, engine))
    paths[2].write_text("\n".join(reversed(lines)) + "\n")  # any order is allowed
    return Job(graph, paths, outputs, inputs)


def write_shapes(file: Path, shapes: Mapping[int, tuple[Sequence[int], Sequence[int]]]) -> None:
    """Write the dims and strides of overrides, by uid."""
    rows = [(uid, len(dims), *dims, *strides) for uid, (dims, strides) in shapes.items()]
    file.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))


def memory(array: np.ndarray[Any, Any], spec: ArgSpec) -> np.ndarray[Any, Any]:
    """Return the bytes of an operand as it lies in memory."""
    if is_packed(spec.data_type):
        return pack(spec, array)
    found = aligned_bytes(spec.nbytes)
    found[:] = 0
    np.copyto(view(found, spec), array)
    return found
