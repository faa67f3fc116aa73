# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import hipdnn_frontend as hipdnn
import numpy as np

rng = np.random.default_rng(6)
n, c, h, k, r = 2, 6, 10, 8, 3
x_mem = rng.standard_normal((n, c, h, h)).astype(np.float32)
w_mem = rng.standard_normal((k, c, r, r)).astype(np.float32)
b_mem = rng.standard_normal((1, k, 1, 1)).astype(np.float32)

graph = hipdnn.Graph()
graph.set_name("conv_bias_relu")
graph.set_io_data_type(hipdnn.DataType.FLOAT)
graph.set_intermediate_data_type(hipdnn.DataType.FLOAT)
graph.set_compute_data_type(hipdnn.DataType.FLOAT)
x = hipdnn.Tensor.create([n, c, h, h], hipdnn.DataType.FLOAT).set_name("x")
w = hipdnn.Tensor.create([k, c, r, r], hipdnn.DataType.FLOAT).set_name("w")
b = hipdnn.Tensor.create([1, k, 1, 1], hipdnn.DataType.FLOAT).set_name("b")
attrs = hipdnn.ConvFpropAttributes()
attrs.set_padding([1, 1])
attrs.set_stride([2, 2])
attrs.set_dilation([1, 1])
y = graph.conv_fprop(x, w, attrs)
add = hipdnn.PointwiseAttributes().set_mode(hipdnn.PointwiseMode.ADD)
y = graph.pointwise(y, b, add)
y = graph.pointwise(y, hipdnn.PointwiseAttributes().set_mode(hipdnn.PointwiseMode.RELU_FWD))
y.set_name("y").set_output(True)

handle = hipdnn.create_handle()
assert graph.validate().is_good()
assert graph.build_operation_graph(handle).is_good()
assert graph.create_execution_plans().is_good()
assert graph.check_support().is_good()
assert graph.build_plans().is_good()

memory = {x: x_mem, w: w_mem, b: b_mem, y: np.zeros(y.get_dim(), np.float32)}
buffers = {}
for tensor, array in memory.items():
    buffers[tensor.get_uid()] = hipdnn.DeviceBuffer(array.nbytes)
    buffers[tensor.get_uid()].copy_from_host(array.tobytes())
size = graph.get_workspace_size()
workspace = hipdnn.DeviceBuffer(size) if size else None
done = graph.execute(
    handle,
    {uid: buffer.ptr() for uid, buffer in buffers.items()},
    workspace.ptr() if workspace else 0,
)
assert done.is_good(), done.get_message()
y_mem = np.frombuffer(buffers[y.get_uid()].copy_to_host(), np.float32).reshape(y.get_dim())

padded = np.pad(x_mem.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
expected = np.zeros((n, k, 5, 5))
for i in range(r):
    for j in range(r):
        part = padded[:, :, i : i + 9 : 2, j : j + 9 : 2]
        expected += np.einsum("nchw,kc->nkhw", part, w_mem[:, :, i, j].astype(np.float64))
results = {"y": (y_mem, np.maximum(expected + b_mem, 0))}
hipdnn.destroy_handle(handle)
