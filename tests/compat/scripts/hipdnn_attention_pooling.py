# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import hipdnn_frontend as hipdnn
import numpy as np

rng = np.random.default_rng(10)
FLOAT = hipdnn.DataType.FLOAT
q_mem, k_mem, v_mem = rng.standard_normal((3, 2, 3, 9, 8)).astype(np.float32)
scale_mem = rng.standard_normal((1, 3, 9, 8)).astype(np.float32)
image_mem = rng.standard_normal((1, 2, 8, 8)).astype(np.float32)

graph = hipdnn.Graph()
graph.set_io_data_type(FLOAT).set_intermediate_data_type(FLOAT).set_compute_data_type(FLOAT)
q, k, v = (hipdnn.Tensor.create([2, 3, 9, 8], FLOAT) for _ in range(3))
attention = hipdnn.SdpaAttributes().set_generate_stats(True).set_attn_scale(0.25)
attention.set_causal_mask(True)
o, stats = graph.sdpa(q, k, v, attention)
scale = hipdnn.Tensor.create([1, 3, 9, 8], FLOAT)
epsilon = hipdnn.Tensor.create([1], FLOAT)
epsilon.set_value(1e-5)
norm = hipdnn.RMSNormAttributes().set_epsilon(epsilon)
norm.set_forward_phase(hipdnn.NormFwdPhase.INFERENCE)
y, _ = graph.rmsnorm(o, scale, norm)
image = hipdnn.Tensor.create([1, 2, 8, 8], FLOAT)
window = (
    hipdnn.ResampleFwdAttributes()
    .set_resample_mode(hipdnn.ResampleMode.MAXPOOL)
    .set_padding_mode(hipdnn.PaddingMode.NEG_INF_PAD)
    .set_pre_padding([0, 0])
    .set_post_padding([0, 0])
    .set_stride([2, 2])
    .set_window([2, 2])
)
pooled = graph.resample_fwd(image, window)
for t in (stats, y, pooled):
    t.set_output(True)

handle = hipdnn.create_handle()
for error in (graph.validate(), graph.build_operation_graph(handle), graph.check_support()):
    assert error.is_good(), error.get_message()
assert graph.build_plans().is_good()
out = {t: np.zeros(t.get_dim(), np.float32) for t in (stats, y, pooled)}
pack = {q: q_mem, k: k_mem, v: v_mem, scale: scale_mem, image: image_mem, **out}
done = graph.execute(handle, pack, np.empty(graph.get_workspace_size(), np.uint8))
assert done.is_good(), done.get_message()

logits = 0.25 * np.einsum("bhid,bhjd->bhij", q_mem.astype(np.float64), k_mem.astype(np.float64))
logits[:, :, np.triu(np.ones((9, 9), bool), 1)] = -np.inf
powers = np.exp(logits - logits.max(-1, keepdims=True))
sums = powers.sum(-1, keepdims=True)
o_ref = np.einsum("bhij,bhjd->bhid", powers / sums, v_mem.astype(np.float64))
y_ref = o_ref / np.sqrt((o_ref**2).mean((1, 2, 3), keepdims=True) + 1e-5) * scale_mem
results = {
    "stats": (out[stats], logits.max(-1, keepdims=True) + np.log(sums)),
    "y": (out[y], y_ref),
    "pooled": (out[pooled], image_mem.reshape(1, 2, 4, 2, 4, 2).max((3, 5))),
}
