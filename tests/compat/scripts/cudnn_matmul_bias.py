# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import cudnn
import numpy as np

rng = np.random.default_rng(2)
a_mem = rng.standard_normal((4, 32, 48)).astype(np.float32)
b_mem = rng.standard_normal((4, 48, 24)).astype(np.float32)
d_mem = rng.standard_normal((1, 32, 24)).astype(np.float32)
c_mem = np.zeros((4, 32, 24), np.float32)

with cudnn.graph(io_data_type=cudnn.data_type.FLOAT, compute_data_type=cudnn.data_type.FLOAT) as (
    graph,
    uids,
):
    a, b = graph.tensor_like(a_mem), graph.tensor_like(b_mem)
    d = graph.tensor_like(d_mem)
    c = graph.bias(name="bias", input=graph.matmul(name="mm", A=a, B=b), bias=d)
    c.set_output(True).set_uid(3)
    for uid, t in enumerate((a, b, d)):
        t.set_uid(uid)
graph.build([cudnn.heur_mode.A])
stored = graph.serialize()

again = cudnn.pygraph()
again.deserialize(stored)
workspace = np.empty(again.get_workspace_size(), np.uint8)
again.execute({0: a_mem, 1: b_mem, 2: d_mem, 3: c_mem}, workspace)

results = {"c": (c_mem, a_mem.astype(np.float64) @ b_mem.astype(np.float64) + d_mem)}
