# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import cudnn
import numpy as np

rng = np.random.default_rng(4)
N, C = 12, 32
x_mem = rng.standard_normal((N, C, 1, 1)).astype(np.float32)
scale_mem = rng.standard_normal((1, C, 1, 1)).astype(np.float32)
bias_mem = rng.standard_normal((1, C, 1, 1)).astype(np.float32)
epsilon_mem = np.full((1, 1, 1, 1), 1e-3, np.float32)
y_mem, z_mem = np.zeros_like(x_mem), np.zeros_like(x_mem)
mean_mem, inv_mem = np.zeros((2, N, 1, 1, 1), np.float32)

handle = cudnn.create_handle()
graph = cudnn.pygraph(
    handle=handle,
    io_data_type=cudnn.data_type.FLOAT,
    intermediate_data_type=cudnn.data_type.FLOAT,
    compute_data_type=cudnn.data_type.FLOAT,
)
x, scale, bias = (graph.tensor_like(t) for t in (x_mem, scale_mem, bias_mem))
epsilon = graph.tensor(
    name="epsilon",
    dim=[1, 1, 1, 1],
    stride=[1, 1, 1, 1],
    is_pass_by_value=True,
    data_type=cudnn.data_type.FLOAT,
)
y, mean, inv_variance = graph.layernorm(
    name="LN",
    norm_forward_phase=cudnn.norm_forward_phase.TRAINING,
    input=x,
    scale=scale,
    bias=bias,
    epsilon=epsilon,
)
z, nothing = graph.rmsnorm(
    norm_forward_phase=cudnn.norm_forward_phase.INFERENCE, input=y, scale=scale, epsilon=epsilon
)
assert nothing is None
for t in (y, mean, inv_variance, z):
    t.set_output(True).set_data_type(cudnn.data_type.FLOAT)
graph.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
workspace = np.empty(graph.get_workspace_size(), np.uint8)
pack = {
    x: x_mem,
    scale: scale_mem,
    bias: bias_mem,
    epsilon: epsilon_mem,
    y: y_mem,
    mean: mean_mem,
    inv_variance: inv_mem,
    z: z_mem,
}
graph.execute(pack, workspace, handle)

wide = x_mem.astype(np.float64)
m = wide.mean(1, keepdims=True)
inv = 1 / np.sqrt(wide.var(1, keepdims=True) + epsilon_mem.item())
y_ref = (wide - m) * inv * scale_mem + bias_mem
z_ref = y_ref / np.sqrt((y_ref**2).mean(1, keepdims=True) + epsilon_mem.item()) * scale_mem
results = {
    "y": (y_mem, y_ref),
    "mean": (mean_mem, m),
    "inv_variance": (inv_mem, inv),
    "z": (z_mem, z_ref),
}
