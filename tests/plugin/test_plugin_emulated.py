# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A host in C whose GPUs are emulated: it calls HIP before there is Python, and gives a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.provider import emulated

DATA = Path(__file__).parents[1] / "data" / "opgraphs"


def test_a_stream_of_the_second_gpu(host: Any, make_job: Any) -> None:
    pytest.importorskip("hip")
    job = make_job((DATA / "fused_conv_bias_relu_f32_nchw.bin").read_bytes())
    library = emulated.LIBRARY.find(settings())
    env = {"HOST_HIP": str(library), "HIPDNN_IREE_EMULATE": "gfx942,gfx90a"}
    host.run("run", *job.arguments, 0, env={**env, "HIPDNN_IREE_LOG_LEVEL": "WARNING"})
    job.verify()
    # Without HIP the same pointers are nothing that a GPU can access: told, and no crash.
    done = host.process("run", *job.arguments, 0, env={"HIPDNN_IREE_EMULATE": "gfx942"})
    assert done.returncode, done.stdout
    assert "is outside every allocation" in done.stdout + done.stderr
