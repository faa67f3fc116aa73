# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compiled matrix product for a gfx9 GPU, and its launch; tests change its code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from hipdnn_iree import Graph
from hipdnn_iree.emulation.elf import code_objects, read_code_object
from hipdnn_iree.emulation.machine import launch
from hipdnn_iree.emulation.memory import Memory
from hipdnn_iree.emulation.program import Limits, Program, read_program
from hipdnn_iree.jit.options import BuildOptions
from hipdnn_iree.jit.pipeline import dump
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.target import Target

ROWS, DEPTH, COLUMNS = 32, 96, 32  # one workgroup of four waves, several rounds through LDS


class Product:
    """A product of halves; `file` is its code object, `program` the kernel in it."""

    def __init__(self, arch: str, folder: Path) -> None:
        graph = Graph(io_data_type="half", compute_data_type="float")
        a = graph.tensor(dims=(ROWS, DEPTH))
        b = graph.tensor(dims=(DEPTH, COLUMNS))
        graph.matmul(a, b).set_output()
        dump(graph.freeze(), Target.parse(arch), folder, BuildOptions.of(settings()))
        (self.file,) = code_objects((folder / "module.vmfb").read_bytes())
        code = read_code_object(self.file)
        (name,) = code.kernels
        self.program = read_program(code, name)
        self.block = tuple(code.kernels[name].metadata[".reqd_workgroup_size"])
        rng = np.random.default_rng(1)
        self.a = rng.standard_normal((ROWS, DEPTH)).astype(np.float16)
        self.b = rng.standard_normal((DEPTH, COLUMNS)).astype(np.float16)

    def run(self, program: Program) -> npt.NDArray[np.float16]:
        """Execute a kernel with the product's arguments; return what is in the output."""
        memory = Memory()
        places = []
        for number, array in enumerate((self.a, self.b)):
            places.append(memory.allocate(array.nbytes, f"input {number}"))
            memory.view(places[-1], array.nbytes)[:] = array.view(np.uint8).ravel()
        size = 2 * ROWS * COLUMNS
        places.append(memory.allocate(size, "output"))
        arguments = np.array(places, np.uint64).tobytes()
        limits = Limits(instructions=20_000, bytes=64 << 20)
        launch(program, (1, 1, 1), self.block, arguments, memory, limits=limits)
        return memory.view(places[-1], size).view(np.float16).reshape(ROWS, COLUMNS).copy()
