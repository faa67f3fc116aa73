# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import cudnn
import numpy as np

rng = np.random.default_rng(5)
x_mem = rng.standard_normal((3, 10, 14)).astype(np.float32)
w_mem = rng.uniform(0.5, 2.0, (1, 10, 1)).astype(np.float32)
sum_mem, top_mem = np.zeros((3, 1, 14), np.float32), np.zeros((3, 10, 1), np.float32)
mask_mem = np.zeros((3, 4, 7), np.float32)

graph = cudnn.pygraph(
    io_data_type=cudnn.data_type.FLOAT,
    intermediate_data_type=cudnn.data_type.FLOAT,
    compute_data_type=cudnn.data_type.FLOAT,
)
x = graph.tensor(name="x", dim=x_mem.shape, stride=[140, 14, 1])
w = graph.tensor(name="w", dim=w_mem.shape, stride=[10, 1, 1])
scaled = graph.scale(name="scale", input=x, scale=w)
active = graph.swish(input=graph.sub(a=scaled, b=graph.sqrt(input=w)), swish_beta=1.5)
total = graph.reduction(input=active, mode=cudnn.reduction_mode.ADD)
total.set_output(True).set_dim([3, 1, 14]).set_stride([14, 14, 1])
top = graph.reduction(active, cudnn.reduction_mode.MAX)
top.set_output(True).set_dim([3, 10, 1]).set_stride([10, 1, 1])
part = graph.slice(input=active, slices=[slice(None), slice(2, 6), slice(0, 14, 2)])
positive = graph.leaky_relu(input=part, negative_slope=0.1)
positive.set_output(True)
graph.build([cudnn.heur_mode.B])
assert graph.get_execution_plan_count() >= 1
graph.execute_plan_at_index(
    {x: x_mem, w: w_mem, total: sum_mem, top: top_mem, positive: mask_mem},
    np.empty(graph.get_workspace_size_plan_at_index(0), np.uint8),
    0,
)

t = x_mem.astype(np.float64) * w_mem - np.sqrt(w_mem.astype(np.float64))
ref = t / (1 + np.exp(-1.5 * t))
cut = ref[:, 2:6, ::2]
results = {
    "total": (sum_mem, ref.sum(1, keepdims=True)),
    "top": (top_mem, ref.max(2, keepdims=True)),
    "positive": (mask_mem, np.where(cut > 0, cut, 0.1 * cut)),
}
