# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ctrl-C while torch-mlir or IREE is loaded for the first time: it comes afterwards, once."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from fresh_python import printed
from hipdnn_iree.jit.interrupts import interrupt_in, shielded

PROGRAM = """
import signal, sys
from hipdnn_iree import Graph
signal.signal(signal.SIGINT, signal.default_int_handler)

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

def run():
    graph = Graph(io_data_type="float", compute_data_type="float")
    x = graph.tensor(dims=(4,), name="x")
    graph.relu(x).set_output().set_name("y")
    plan = graph.build("cpu")
    import numpy as np
    return plan.run({"x": np.ones(4, np.float32)})["y"].tolist()

sys.meta_path.insert(0, Interrupts())
try:
    run()
except KeyboardInterrupt:
    print("interrupted")
print(run())
"""


@pytest.mark.parametrize(
    "module",
    [
        "numpy",
        "numpy.linalg",
        "ml_dtypes",
        "torch_mlir",
        "torch_mlir._mlir_libs._mlir",
        "torch_mlir.ir",
        "torch_mlir.dialects._ods_common",
        "torch_mlir.dialects.torch",
        "torch_mlir.dialects._torch_ops_gen",
        "torch_mlir.dialects._func_ops_gen",
        "iree._runtime.libs",  # of `iree.runtime` nothing else is imported
        "iree._runtime_libs._runtime",
    ],
)
def test_interrupted_import(module: str, tmp_path: Path) -> None:
    assert printed(PROGRAM, module, home=tmp_path) == "interrupted\n[1.0, 1.0, 1.0, 1.0]\n"


@pytest.mark.usefixtures("interruptible")
def test_signals_come_after_the_block_and_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    reached = []
    with pytest.raises(KeyboardInterrupt), shielded():
        reached += [signal.raise_signal(signal.SIGINT)]
    assert reached
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(ValueError, match="its own"), shielded():
        raise ValueError("its own")
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_is_found_behind_errors() -> None:
    interrupt, wrapped, other = KeyboardInterrupt(), RuntimeError(), ValueError()
    wrapped.__cause__ = interrupt
    other.__cause__ = wrapped
    assert interrupt_in(other) is interrupt_in(interrupt) is interrupt
    assert interrupt_in(ValueError()) is None
