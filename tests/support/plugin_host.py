"""The host in C for the plugin: building it, running it, and the files that it reads and writes."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hipdnn_iree.graph_api.formats.flatbuffer.engine_messages import EngineConfig, encode_config
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.hipdnn_plugin import messages
from hipdnn_iree.hipdnn_plugin.serving import ENGINE_ID
from hipdnn_iree.jit.pipeline import signature_of
from hipdnn_iree.jit.runtime.arrays import aligned_bytes, view
from hipdnn_iree.provider.plugin_abi import ConstData
from hipdnn_iree.provider.reference import expect
from hipdnn_iree.provider.reference.inputs import random_inputs
from hipdnn_iree.provider.verify import compare

SOURCE = Path(__file__).parents[1] / "plugin" / "host.c"


def build_host(program: Path) -> Path:
    """Compile the host; a machine without a C compiler cannot run it."""
    flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
    words = ["cc", *flags, "-o", program, SOURCE, "-ldl", "-lpthread"]
    subprocess.run(words, check=True, timeout=300)
    return program


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
            found[uid] = view(memory, spec)
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
    skew: int = 0,
    seed: int = 0,
    graph: FrozenGraph | None = None,
) -> Job:
    """Put a graph's bytes, operands and buffer list into files of a new folder.

    ``skew`` is the distance in bytes of each buffer from a multiple of 64; ``graph`` that of the
    buffers, where it is not the one that is decoded.
    """
    folder.mkdir()
    graph = graph or messages.graph(data)
    inputs = random_inputs(graph, seed)
    outputs = {}
    lines = []
    for uid, spec in zip((*graph.outputs, *graph.inputs), signature_of(graph).args, strict=True):
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


def memory(array: np.ndarray[Any, Any], spec: Any) -> np.ndarray[Any, Any]:
    """Return the bytes of an operand as it lies in memory."""
    found = aligned_bytes(spec.nbytes)
    found[:] = 0
    np.copyto(view(found, spec), array)
    return found


class Const:
    """Bytes as a host hands them over."""

    def __init__(self, data: bytes, size: int | None = None) -> None:
        self.memory = ctypes.create_string_buffer(data, len(data))
        at = ctypes.addressof(self.memory)
        self.data = ConstData(at, len(data) if size is None else size)
        self.address = ctypes.addressof(self.data)


def new(call: Callable[..., None], *arguments: Any) -> int:
    """Return the handle or context that a call makes."""
    out = ctypes.c_void_p()
    call(*arguments, ctypes.addressof(out))
    assert out.value
    return out.value
