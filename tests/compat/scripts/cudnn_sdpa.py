# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import math

import cudnn
import numpy as np

rng = np.random.default_rng(3)
B, H, HK, S, D, WINDOW = 2, 4, 2, 20, 16, 6
scale = 1.0 / math.sqrt(D)
# Stored as B, S, H, D and seen as B, H, S, D.
q_mem = rng.standard_normal((B, S, H, D)).astype(np.float32).transpose(0, 2, 1, 3)
k_mem = rng.standard_normal((B, S, HK, D)).astype(np.float32).transpose(0, 2, 1, 3)
v_mem = rng.standard_normal((B, S, HK, D)).astype(np.float32).transpose(0, 2, 1, 3)
o_mem = np.zeros((B, S, H, D), np.float32).transpose(0, 2, 1, 3)
stats_mem = np.zeros((B, H, S, 1), np.float32)

graph = cudnn.pygraph(
    io_data_type=cudnn.data_type.FLOAT,
    intermediate_data_type=cudnn.data_type.FLOAT,
    compute_data_type=cudnn.data_type.FLOAT,
)
q, k, v = (graph.tensor_like(t) for t in (q_mem, k_mem, v_mem))
o, stats = graph.sdpa(
    name="sdpa",
    q=q,
    k=k,
    v=v,
    generate_stats=True,
    attn_scale=scale,
    use_causal_mask=True,
    diagonal_band_left_bound=WINDOW,
)
o.set_output(True).set_dim([B, H, S, D]).set_stride([S * H * D, D, H * D, 1])
stats.set_output(True).set_data_type(cudnn.data_type.FLOAT)
graph.validate()
graph.build_operation_graph()
graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
graph.check_support()
graph.build_plans()
workspace = np.empty(graph.get_workspace_size(), np.uint8)
graph.execute({q: q_mem, k: k_mem, v: v_mem, o: o_mem, stats: stats_mem}, workspace)

heads = [head * HK // H for head in range(H)]
logits = scale * np.einsum(
    "bhid,bhjd->bhij", q_mem.astype(np.float64), k_mem[:, heads].astype(np.float64)
)
i, j = np.indices((S, S))
# The newest WINDOW keys of each query, itself included.
logits[:, :, (j > i) | (j <= i - WINDOW)] = -np.inf
powers = np.exp(logits - logits.max(-1, keepdims=True))
sums = powers.sum(-1, keepdims=True)
attended = np.einsum("bhij,bhjd->bhid", powers / sums, v_mem[:, heads].astype(np.float64))
log_sums = logits.max(-1, keepdims=True) + np.log(sums)
results = {"o": (o_mem, attended), "stats": (stats_mem, log_sums)}
