# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A GPU's memory with a stand-in for ROCm's library, also as ONNX Runtime uses it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnxruntime
import pytest

pytest.importorskip("hip")

BLOCKS = """
import ctypes
from hipdnn_iree.provider.offload.memory import GpuMemory
memory = GpuMemory(0)
first = memory.allocate(1000)
memory.release(first)
assert memory.allocate(900) == first  # of the same size class: nothing is allocated
memory.release(first)
assert memory.statistics["TotalAllocated"] == 1024, memory.statistics
assert memory.statistics["InUse"] == 0
address, kept = memory.keep(b"written")
other, also = memory.block(7)
memory.copy(other, address, 7, 0)
out = ctypes.create_string_buffer(8)
memory.transfer(ctypes.addressof(out), other, 7, to_gpu=False, from_gpu=True, stream=0)
assert out.value == b"written", out.value
source = ctypes.create_string_buffer(b"changed")
where = ctypes.addressof(source)
memory.transfer(address, where, 7, to_gpu=True, from_gpu=False, stream=0)
memory.transfer(ctypes.addressof(out), address, 7, to_gpu=False, from_gpu=True, stream=0)
assert out.value == b"changed", out.value
del kept, also
memory.trim()
assert memory.statistics["TotalAllocated"] == 0, memory.statistics
"""

THROUGH_ONNX_RUNTIME = """
import numpy as np, onnxruntime as ort
from hipdnn_iree.provider.onnx import factory, register, unregister
factory._HIP_WITHOUT_DRIVER = True
name = "HipDNN.virtual"
devices = {d.ep_metadata["device"]: d for d in register(name)}
assert {"hip", "cpu", "virtual"} <= set(devices), devices
from hipdnn_iree.provider.onnx import session_options
session_options({"device_id": 0}, device="hip", name=name)
try:
    session_options({"device_id": 1}, device="hip", name=name)
except Exception as error:
    assert "with device_id 1" in str(error), error
else:
    raise AssertionError("there is no second GPU")
x = np.arange(24, dtype=np.float32).reshape(4, 6)
made = ort.OrtValue.ortvalue_from_shape_and_type
gpu = [made((4, 6), np.float32, "gpu", 0, 0x1002) for _ in "ab"]
here = ort.OrtValue.ortvalue_from_numpy(x)
back = ort.OrtValue.ortvalue_from_numpy(np.zeros_like(x))
ort.copy_tensors([here], [gpu[0]])
ort.copy_tensors([gpu[0]], [gpu[1]])
ort.copy_tensors([gpu[1]], [back])
assert (back.numpy() == x).all(), back.numpy()
print("done")
"""


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("hip")
    source = Path(__file__).parents[1] / "plugin" / "libamdhip64.c"
    words = ["cc", "-shared", "-fPIC", source, "-o", folder / "libamdhip64.so"]
    subprocess.run(words, check=True, timeout=300)
    return str(folder)


def run(code: str, stand_in: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "LD_LIBRARY_PATH": stand_in},
        text=True,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert not done.returncode, done.stderr[-3000:]
    return done.stdout.strip()


def test_blocks_are_kept_and_copied(stand_in: str) -> None:
    run(BLOCKS, stand_in)


@pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 24), reason="devices from 1.24 on"
)
def test_allocator_and_copies_through_onnx_runtime(stand_in: str) -> None:
    assert run(THROUGH_ONNX_RUNTIME, stand_in) == "done"
