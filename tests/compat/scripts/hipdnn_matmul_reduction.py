# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import hipdnn_frontend as hipdnn
import numpy as np

rng = np.random.default_rng(9)
a_mem = rng.standard_normal((2, 16, 24)).astype(np.float32)
b_mem = rng.standard_normal((2, 24, 20)).astype(np.float32)

graph = hipdnn.Graph()
graph.set_io_data_type(hipdnn.DataType.FLOAT)
graph.set_intermediate_data_type(hipdnn.DataType.FLOAT)
graph.set_compute_data_type(hipdnn.DataType.FLOAT)
a = hipdnn.Tensor.create([2, 16, 24], hipdnn.DataType.FLOAT)
b = hipdnn.Tensor.create([2, 24, 20], hipdnn.DataType.FLOAT)
product = graph.matmul(a, b, hipdnn.MatmulAttributes().set_name("product"))
attrs = hipdnn.PointwiseAttributes()
attrs.set_mode(hipdnn.PointwiseMode.SWISH_FWD)
attrs.set_swish_beta(0.5)
active = graph.pointwise(product, attrs)
active.set_output(True)
norm = hipdnn.Tensor.create([2, 16, 1], hipdnn.DataType.FLOAT)
norm.set_output(True)
mode = hipdnn.ReductionAttributes().set_mode(hipdnn.ReductionMode.NORM2)
assert graph.reduction(active, norm, mode) is norm

text = graph.to_json()
copy = hipdnn.Graph()
assert copy.from_json(text).is_good()

handle = hipdnn.create_handle()
assert copy.validate().is_good()
assert copy.build_operation_graph(handle).is_good()
assert copy.create_execution_plans().is_good()
assert copy.check_support().is_good()
assert copy.build_plans().is_good()
active_mem, norm_mem = np.zeros((2, 16, 20), np.float32), np.zeros((2, 16, 1), np.float32)
pack = {
    a.get_uid(): a_mem,
    b.get_uid(): b_mem,
    active.get_uid(): active_mem,
    norm.get_uid(): norm_mem,
}
workspace = hipdnn.DeviceBuffer(copy.get_workspace_size() + 64)
assert copy.execute(handle, pack, workspace.ptr()).is_good()

t = a_mem.astype(np.float64) @ b_mem.astype(np.float64)
ref = t / (1 + np.exp(-0.5 * t))
results = {
    "active": (active_mem, ref),
    "norm": (norm_mem, np.sqrt((ref**2).sum(2, keepdims=True))),
}
