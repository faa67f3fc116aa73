# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import hipdnn_frontend as hipdnn
import numpy as np

rng = np.random.default_rng(8)
n, c, h = 4, 6, 5
FLOAT = hipdnn.DataType.FLOAT
x_mem = (2 + rng.standard_normal((n, c, h, h))).astype(np.float32)
scale_mem, bias_mem = rng.standard_normal((2, 1, c, 1, 1)).astype(np.float32)

graph = hipdnn.Graph().set_io_data_type(FLOAT).set_intermediate_data_type(FLOAT)
graph.set_compute_data_type(FLOAT)
x = hipdnn.Tensor.create([n, c, h, h], FLOAT)
scale = hipdnn.Tensor.create([1, c, 1, 1], FLOAT)
bias = hipdnn.Tensor.create([1, c, 1, 1], FLOAT)
epsilon = hipdnn.Tensor()
epsilon.set_value(1e-4)
training = hipdnn.BatchnormAttributes()
training.set_epsilon(epsilon)
y, mean, inv_variance, next_mean, next_var = graph.batchnorm(x, scale, bias, training)
assert next_mean is None
assert next_var is None
again = graph.batchnorm_inference(
    x, mean, inv_variance, scale, bias, hipdnn.BatchnormInferenceAttributes()
)
for t in (y, mean, inv_variance, again):
    t.set_output(True)

handle = hipdnn.create_handle()
for error in (
    graph.validate(),
    graph.build_operation_graph(handle),
    graph.create_execution_plans([hipdnn.HeuristicMode.FALLBACK]),
    graph.check_support(),
    graph.build_plans(hipdnn.BuildPlanPolicy.HEURISTICS_CHOICE),
):
    assert error.is_good(), error.get_message()
out = {t: np.zeros(t.get_dim(), np.float32) for t in (y, mean, inv_variance, again)}
workspace = np.empty(max(graph.get_workspace_size(), 1), np.uint8)
done = graph.execute(handle, {x: x_mem, scale: scale_mem, bias: bias_mem, **out}, workspace)
assert done.is_good(), done.get_message()

wide = x_mem.astype(np.float64)
m = wide.mean((0, 2, 3), keepdims=True)
inv = 1 / np.sqrt(wide.var((0, 2, 3), keepdims=True) + 1e-4)
ref = (wide - m) * inv * scale_mem + bias_mem
results = {
    "y": (out[y], ref),
    "mean": (out[mean], m),
    "inv_variance": (out[inv_variance], inv),
    "again": (out[again], ref),
}
