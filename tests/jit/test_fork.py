# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fork while another thread compiles for the first time: the child compiles too."""

from __future__ import annotations

from pathlib import Path

import pytest
from fresh_python import printed

PROGRAM = """
import os, signal, sys, threading, time
from hipdnn_iree import Graph

def build(n):
    graph = Graph(io_data_type="float", compute_data_type="float")
    graph.relu(graph.tensor(dims=(n, 3))).set_output()
    return graph.build("cpu").cache

begun = threading.Event()

class Tells:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            begun.set()
            time.sleep(0.1)  # lets the other thread fork now

if sys.argv[1] == "the worker":
    import hipdnn_iree.jit.compiler.process as process
    ask = process.WorkerProcess.ask
    def slow(*arguments):
        begun.set()
        return ask(*arguments)
    process.WorkerProcess.ask = slow
sys.meta_path.insert(0, Tells())
thread = threading.Thread(target=build, args=(5,))
thread.start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(120)
    status = 1
    try:
        status = 0 if build(6) == "miss" else 2
    finally:
        os._exit(status)
print(os.waitpid(child, 0)[1], build(7))
thread.join()
"""


@pytest.mark.parametrize(
    "moment",
    [
        "numpy.linalg",
        "torch_mlir.ir",
        "torch_mlir.dialects._torch_ops_gen",
        "hipdnn_iree.jit.lowering.module",
        "the worker",
    ],
)
def test_fork_during_the_first_compilation(moment: str, tmp_path: Path) -> None:
    assert printed(PROGRAM, moment, home=tmp_path) == "0 miss\n"
