"""A host in C, the library, and jobs: graphs with their operands and what has to come out."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.hipdnn_plugin import library as library_module
from hipdnn_iree.hipdnn_plugin import messages
from hipdnn_iree.hipdnn_plugin.serving import ENGINE_ID
from hipdnn_iree.hipdnn_plugin.wire.engine import EngineConfig, encode_config

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def host_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the host; a machine without a C compiler cannot run these tests."""
    program = tmp_path_factory.mktemp("host") / "host"
    flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        ["cc", *flags, "-o", program, HERE / "host.c", "-ldl", "-lpthread"], check=True, timeout=300
    )
    return program


@pytest.fixture(scope="session")
def library() -> Path:
    return library_module.library()


@pytest.fixture(scope="session")
def naive_library(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that compiles ``foreign/naive.c`` with some flags, once."""
    folder, built = tmp_path_factory.mktemp("naive"), dict[tuple[str, ...], Path]()
    base = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    shared = ["-fPIC", "-shared", "-fvisibility=hidden"]

    def build(*flags: str) -> Path:
        if flags not in built:
            out = folder / f"{len(built)}.so"
            source = HERE / "foreign" / "naive.c"
            words = ["cc", *base, *shared, *flags, "-o", out, source, "-lm"]
            subprocess.run(words, check=True, timeout=300)
            built[flags] = out
        return built[flags]

    return build


def _copy(built: Path, folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    copy = Path(shutil.copy(built, folder / f".{name}"))
    # In one step, as a file that was here may be mapped into this process.
    return copy.replace(folder / f"{name}.so")


@pytest.fixture
def fresh_naive(naive_library: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """Return a function that makes a copy of the naive plugin, which behaves as it is called."""

    def make(name: str = "naive", *flags: str) -> Path:
        return _copy(naive_library(*flags), tmp_path, name)

    return make


@pytest.fixture(scope="session")
def naive(
    naive_library: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Return a function that gives such a copy, the same one to all tests: it is probed once."""
    folder, made = tmp_path_factory.mktemp("copies"), dict[tuple[str, ...], Path]()

    def give(name: str = "naive", *flags: str) -> Path:
        key = (name, *flags)
        if key not in made:
            made[key] = _copy(naive_library(*flags), folder / str(len(made)), name)
        return made[key]

    return give


class Host:
    """Runs scenarios of ``host.c`` and returns the facts that it prints."""

    def __init__(self, program: Path, library: Path) -> None:
        self.program = program
        self.library = library

    def environ(self, **extra: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "HIPDNN_LOG"))}
        return {**kept, **extra}

    def run(
        self,
        scenario: str,
        *arguments: object,
        mode: str = "local",
        library: Path | None = None,
        env: Mapping[str, str] | None = None,
        before: tuple[object, ...] = (),
        timeout: float = 300,
    ) -> dict[str, str]:
        words = [*before, self.program, library or self.library, mode, scenario, *arguments]
        done = subprocess.run(
            [str(word) for word in words],
            env=self.environ(**(env or {})),
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert done.returncode == 0, f"{done.returncode}: {done.stdout}\n{done.stderr}"
        assert not done.stderr, done.stderr
        pairs = (line.partition(" ") for line in done.stdout.splitlines())
        facts: dict[str, str] = {}
        for key, _, value in pairs:
            facts[key] = f"{facts[key]}\n{value}" if key in facts else value
        return facts


@pytest.fixture(scope="session")
def host(host_program: Path, library: Path) -> Host:
    return Host(host_program, library)


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
        from hipdnn_iree.jit.pipeline import signature_of
        from hipdnn_iree.jit.runtime.arrays import aligned_bytes, view

        found = {}
        for uid, spec in zip(self.graph.outputs, signature_of(self.graph).args, strict=False):
            memory = aligned_bytes(spec.nbytes)
            memory[:] = np.fromfile(self.outputs[uid], np.uint8)
            found[uid] = view(memory, spec)
        return found

    def verify(self) -> None:
        """Compare with the reference."""
        from hipdnn_iree.provider.reference import expect
        from hipdnn_iree.provider.verify import compare

        report = compare(self.graph, self.results(), expect(self.graph, self.inputs))
        assert report.ok, str(report)


@pytest.fixture
def make_job(tmp_path: Path) -> Callable[..., Job]:
    """Return a function that puts a graph's bytes, operands and buffer list into files."""
    from hipdnn_iree.jit.pipeline import signature_of

    def make(
        data: bytes,
        *,
        knobs: Mapping[str, int | str] | None = None,
        skew: int = 0,
        seed: int = 0,
        graph: FrozenGraph | None = None,
    ) -> Job:
        """``graph``: that of the buffers, where it is not the one that is decoded."""
        from hipdnn_iree.provider.reference.inputs import random_inputs

        folder = tmp_path / f"job{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        graph = graph or messages.graph(data)
        inputs = random_inputs(graph, seed)
        outputs = {}
        lines = []
        for uid, spec in zip(
            (*graph.outputs, *graph.inputs), signature_of(graph).args, strict=True
        ):
            file = folder / f"{uid}.bin"
            if spec.output:
                outputs[uid] = file
                lines.append(f"{uid}\t{spec.nbytes}\t{skew}\t-\t{file}")
            else:
                memory(inputs[uid], spec).tofile(file)
                lines.append(f"{uid}\t{spec.nbytes}\t{skew}\t{file}\t-")
        paths = folder / "graph", folder / "config", folder / "job"
        paths[0].write_bytes(data)
        paths[1].write_bytes(engine_config(knobs))
        paths[2].write_text("\n".join(reversed(lines)) + "\n")  # any order is allowed
        return Job(graph, paths, outputs, inputs)

    return make


def memory(array: np.ndarray[Any, Any], spec: Any) -> np.ndarray[Any, Any]:
    """Return the bytes of an operand as it lies in memory."""
    from hipdnn_iree.jit.runtime.arrays import aligned_bytes, view

    found = aligned_bytes(spec.nbytes)
    found[:] = 0
    np.copyto(view(found, spec), array)
    return found
