# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The gradients of batch normalisation."""

from __future__ import annotations

from typing import Any

from ....graph_api.ops.batchnorm_backward import DEFAULT_EPSILON
from .channel_norms import Results, named, problems
from .torch_op import Kernel, NodeContext, TorchOp


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    x = n.inputs["x"].dims
    shape = (1, x[1], *(1,) * (len(x) - 2))
    over = [i for i in range(len(x)) if i != 1]
    saved = "mean" in n.inputs

    def formula(v: dict[str, Any]) -> Results:
        if saved:
            mean, inverse = v["mean"], v["inv_variance"]
        else:
            variance, mean = torch.var_mean(v["x"], over, correction=0, keepdim=True)
            inverse = torch.rsqrt(variance + DEFAULT_EPSILON)
        dx, dscale, dbias = torch.ops.aten.native_batch_norm_backward.default(
            v["dy"],
            v["x"],
            v["scale"].reshape(-1),
            None,
            None,
            mean.reshape(-1),
            inverse.reshape(-1),
            True,
            DEFAULT_EPSILON,
            [True, True, True],
        )
        return {"dx": dx, "dscale": dscale.reshape(shape), "dbias": dbias.reshape(shape)}

    return named(n, torch, formula)


TORCH = TorchOp(problems=problems, kernel=_kernel)
