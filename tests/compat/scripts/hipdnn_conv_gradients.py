# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import hipdnn_frontend as hipdnn
import numpy as np

rng = np.random.default_rng(7)
n, c, h, k, r = 2, 4, 8, 6, 3
dy_mem = rng.standard_normal((n, k, h, h)).astype(np.float32)
x_mem = rng.standard_normal((n, c, h, h)).astype(np.float32)
w_mem = rng.standard_normal((k, c, r, r)).astype(np.float32)
handle = hipdnn.create_handle()


def run(graph, memory):
    steps = (
        graph.validate,
        lambda: graph.build_operation_graph(handle),
        graph.create_execution_plans,
        graph.check_support,
        graph.build_plans,
    )
    for step in steps:
        assert step().is_good()
    workspace = np.empty(graph.get_workspace_size(), np.uint8)
    assert graph.execute(handle, memory, workspace).is_good()


def float_graph():
    graph = hipdnn.Graph()
    for setter in ("io", "intermediate", "compute"):
        getattr(graph, f"set_{setter}_data_type")(hipdnn.DataType.FLOAT)
    return graph


graph = float_graph()
dy = hipdnn.Tensor.create(list(dy_mem.shape), hipdnn.DataType.FLOAT)
w = hipdnn.Tensor.create(list(w_mem.shape), hipdnn.DataType.FLOAT)
attrs = hipdnn.ConvDgradAttributes()
attrs.set_pre_padding([1, 1])
attrs.set_post_padding([1, 1])
attrs.set_stride([1, 1])
attrs.set_dilation([1, 1])
dx = graph.conv_dgrad(dy, w, attrs)
dx.set_dim(list(x_mem.shape))
dx.set_output(True)
dx_mem = np.zeros_like(x_mem)
run(graph, {dy: dy_mem, w: w_mem, dx: dx_mem})

graph = float_graph()
dy = hipdnn.Tensor.create(list(dy_mem.shape), hipdnn.DataType.FLOAT)
x = hipdnn.Graph.tensor_like(x_mem, "x")
dw = graph.conv_wgrad(dy, x, hipdnn.ConvolutionWgradAttributes().set_padding([1, 1]))
dw.set_dim(list(w_mem.shape))
dw.set_output(True)
dw_mem = np.zeros_like(w_mem)
run(graph, {dy: dy_mem, x: x_mem, dw: dw_mem})

wide_dy = np.pad(dy_mem.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
wide_x = np.pad(x_mem.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
dx_ref, dw_ref = np.zeros(x_mem.shape), np.zeros(w_mem.shape)
for i in range(r):
    for j in range(r):
        back = wide_dy[:, :, 2 - i : 2 - i + h, 2 - j : 2 - j + h]
        dx_ref += np.einsum("nkhw,kc->nchw", back, w_mem[:, :, i, j].astype(np.float64))
        part = wide_x[:, :, i : i + h, j : j + h]
        dw_ref[:, :, i, j] = np.einsum("nkhw,nchw->kc", dy_mem.astype(np.float64), part)
results = {"dx": (dx_mem, dx_ref), "dw": (dw_mem, dw_ref)}
