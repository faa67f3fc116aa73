# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import cudnn
import numpy as np

rng = np.random.default_rng(1)
n, c, h, k, r = 2, 8, 12, 16, 3
x_mem = rng.standard_normal((n, h, h, c)).astype(np.float16)  # NHWC
w_mem = (0.2 * rng.standard_normal((k, r, r, c))).astype(np.float16)
b_mem = rng.standard_normal(k).astype(np.float16)
y_mem = np.zeros((n, h, h, k), np.float16)

handle = cudnn.create_handle()
graph = cudnn.pygraph(
    io_data_type=cudnn.data_type.HALF,
    intermediate_data_type=cudnn.data_type.FLOAT,
    compute_data_type=cudnn.data_type.FLOAT,
    handle=handle,
)
X = graph.tensor(name="X", dim=[n, c, h, h], stride=[c * h * h, 1, c * h, c])
W = graph.tensor(name="W", dim=[k, c, r, r], stride=[c * r * r, 1, c * r, c])
B = graph.tensor(name="B", dim=[1, k, 1, 1], stride=[k, 1, k, k])
conv = graph.conv_fprop(image=X, weight=W, padding=[1, 1], stride=[1, 1], dilation=[1, 1])
Y = graph.relu(name="relu", input=graph.bias(name="bias", input=conv, bias=B))
Y.set_output(True).set_data_type(cudnn.data_type.HALF)

graph.validate()
graph.build_operation_graph()
graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
graph.check_support()
graph.build_plans()
workspace = np.empty(graph.get_workspace_size(), np.uint8)
graph.execute(
    {
        X: x_mem.transpose(0, 3, 1, 2),
        W: w_mem.transpose(0, 3, 1, 2),
        B: b_mem,
        Y: y_mem.transpose(0, 3, 1, 2),
    },
    workspace,
    handle=handle,
)

x, w = x_mem.astype(np.float64), w_mem.astype(np.float64)
padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
expected = np.zeros(y_mem.shape)
for i in range(r):
    for j in range(r):
        expected += padded[:, i : i + h, j : j + h] @ w[:, i, j].T
results = {"y": (y_mem, np.maximum(expected + b_mem, 0))}
cudnn.destroy_handle(handle)
