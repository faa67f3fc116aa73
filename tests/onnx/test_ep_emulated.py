# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The provider on emulated GPUs: memory, copies, streams and bound buffers of a device."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnxruntime
import pytest

CODE = """
import sys
sys.path[:0] = {path!r}
import numpy as np, onnxruntime as ort
from ep_models import assigned, model, node, on_cpu, plain_options, values
from hipdnn_iree.provider.emulated import emulated
from hipdnn_iree.provider.onnx import factory, register, session_options
factory._HIP_WITHOUT_DRIVER = True
name = "HipDNN.virtual"
nodes = [node("Conv", "x w b", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "y")]
weights = {{"w": values((4, 3, 3, 3), 1), "b": values((4,), 2)}}
source = model(nodes, {{"x": (1, 3, 8, 8)}}, {{"y": (1, 4, 8, 8)}}, weights)
x = values((1, 3, 8, 8))
wanted = on_cpu(source, {{"x": x}})[0]
host = ort.OrtValue.ortvalue_from_numpy
with emulated("gfx942", devices=2) as library:
    register(name)
    options = plain_options()
    for key in ("disable_cpu_ep_fallback", "record_ep_graph_assignment_info"):
        options.add_session_config_entry("session." + key, "1")
    session_options({{"device_id": 1}}, device="hip", name=name, onto=options)
    session = ort.InferenceSession(source, options, enable_fallback=0)
    (one,) = session.get_provider_graph_assignment_info()
    assert one.ep_name == name and len(one.get_nodes()) == 2
    def close(y):
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)
    close(session.run(None, {{"x": x}})[0])  # ONNX Runtime copies
    before = library.launches
    assert before
    def gpu(shape):
        return ort.OrtValue.ortvalue_from_shape_and_type(shape, np.float32, "gpu", 1, 0x1002)
    given, made = gpu(x.shape), gpu(wanted.shape)
    ort.copy_tensors([host(x)], [given])
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", given)
    binding.bind_ortvalue_output("y", made)
    for _ in range(2):
        session.run_with_iobinding(binding)
    back = host(np.zeros_like(wanted))
    ort.copy_tensors([made], [back])
    close(back.numpy())
    assert library.launches == 3 * before
    del session, binding
print("done")
"""


@pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 24), reason="devices from 1.24 on"
)
def test_a_fused_convolution_on_bound_buffers_of_the_second_gpu() -> None:
    path = [str(Path(__file__).parents[1] / "support")]
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(path=path)],
        text=True,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert not done.returncode, done.stderr[-3000:]
    assert done.stdout.strip() == "done"
