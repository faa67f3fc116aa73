# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The first build and the first run happen in threads of any size."""

from __future__ import annotations

from pathlib import Path

import pytest
from fresh_python import printed

PROGRAM = """
import sys, threading
import numpy as np
from hipdnn_iree import Graph

def work():
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(7, 5))
    y = g.relu(x).set_output()
    try:
        plan = g.build("cpu")
        results.append(plan.run({x: np.ones((7, 5), np.float32)})[y.uid].sum())
        broken = Graph(io_data_type="float")
        broken.build("cpu")
    except Exception as error:
        results.append(type(error).__name__)

results = []
threading.stack_size(int(sys.argv[1]) << 10)
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(*results, threading.stack_size() >> 10)
"""


@pytest.mark.parametrize("kib", [64, 400])
def test_a_first_build_in_a_thread(kib: int, tmp_path: Path) -> None:
    assert printed(PROGRAM, str(kib), home=tmp_path).split() == ["35.0", "GraphError", str(kib)]
